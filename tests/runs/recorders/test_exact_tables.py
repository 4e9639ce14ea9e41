from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from adaqn import AdaDQN, MetaGradientDQN, grid
from adaqn.agents.protocol import TargetUpdate
from adaqn.analysis.discounts import discounts_of
from adaqn.base.exact_file import ExactFile
from adaqn.runs.reading import read_run, read_selection
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


SHORT: Any = {"learning_starts": 8, "target_update_interval": 8, "batch_size": 4, "buffer_size": 64}


def test_selection_with_a_discount_that_changes(tmp_path: Path) -> None:
    path = tmp_path / "run"
    members = grid(hidden=[(4,)], discount=[0.5, 0.75])
    AdaDQN("CartPole-v1", members=members, seed=0, **SHORT).learn(40, run_dir=path)
    header, *rows = (path / "selection.csv").read_text().splitlines()
    assert header == "step,target,loss_0,loss_1,acted_0,acted_1,discount"
    targets, discounts = zip(*((row.split(",")[1], row.split(",")[-1]) for row in rows), strict=True)
    assert len(rows) >= 3 and list(discounts) == [{"0": "0.5", "1": "0.75"}[target] for target in targets]
    selection = read_selection(path / "selection.csv")
    assert selection.discount is not None and selection.discount.tolist() == list(map(float, discounts))
    assert selection.acted.shape == (len(rows), 2)


def test_selection_with_a_learned_discount(tmp_path: Path) -> None:
    path = tmp_path / "run"
    model = MetaGradientDQN("CartPole-v1", seed=0, meta_learning_rate=0.1, **SHORT)
    model.learn(40, run_dir=path)
    selection = read_selection(path / "selection.csv")
    assert selection.discount is not None and len(set(selection.discount.tolist())) == len(selection.discount) >= 3
    discounts = discounts_of(read_run(path))
    assert discounts is not None and discounts.learned


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
