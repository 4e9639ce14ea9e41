from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from adaqn.agents.events import TargetUpdate
from adaqn.exact_file import ExactFile
from adaqn.runs.recorders.exact_tables import EpisodesRecorder, MembersRecorder, SelectionRecorder
from adaqn.training.observers import Episode


def test_episodes(tmp_path: Path, trainer: Any) -> None:
    recorder = EpisodesRecorder(ExactFile(tmp_path / "episodes.csv"))
    recorder.on_start(trainer)
    recorder.on_episode(trainer, Episode(12, np.float64(0.1) + 0.2, 12))  # type: ignore[arg-type]
    recorder.on_episode(trainer, Episode(20, -200.0, 8))
    recorder.on_close(trainer)
    text = (tmp_path / "episodes.csv").read_text()
    assert text == "step,return,length\n12,0.30000000000000004,12\n20,-200.0,8\n"


def test_selection(tmp_path: Path, trainer: Any) -> None:
    recorder = SelectionRecorder(ExactFile(tmp_path / "selection.csv"))
    recorder.on_start(trainer)
    loss = float(np.float32(0.1))  # 0.10000000149011612 as a float64
    recorder.on_event(trainer, TargetUpdate(200, 0, (loss, float("inf")), (150, 50), (1,)))
    recorder.on_event(trainer, TargetUpdate(400, 0, (1e20, 3.0), (0, 200), ()))
    recorder.on_close(trainer)
    assert (tmp_path / "selection.csv").read_text() == (
        "step,target,loss_0,loss_1,acted_0,acted_1\n200,0,0.1,inf,150,50\n400,0,1e+20,3.0,0,200\n"
    )


def test_members(tmp_path: Path, trainer: Any) -> None:
    recorder = MembersRecorder(ExactFile(tmp_path / "members.jsonl"))
    recorder.on_start(trainer)
    recorder.on_close(trainer)
    [line] = (tmp_path / "members.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert (record["step"], record["generation"]) == (0, 0)
    assert [member["hidden"] for member in record["members"]] == [[25, 25], [50]]
    assert [member["learning_rate"] for member in record["members"]] == [3e-4, 1e-3]
    assert [member["parent"] for member in record["members"]] == [None, None]


def test_a_file_begins_only_once(tmp_path: Path, trainer: Any) -> None:
    file = ExactFile(tmp_path / "episodes.csv")
    for _ in range(2):
        recorder = EpisodesRecorder(file)
        recorder.on_start(trainer)
        recorder.on_close(trainer)
        written, file = file.written, ExactFile(tmp_path / "episodes.csv")
        file.resume(written)
    assert (tmp_path / "episodes.csv").read_text() == "step,return,length\n"
