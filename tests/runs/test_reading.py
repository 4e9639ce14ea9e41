from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaqn.base.errors import UserError
from adaqn.base.exact_file import ExactFile
from adaqn.runs.directory import RunDirectory
from adaqn.runs.reading import read_episodes, read_run
from adaqn.runs.recorders.composition import recorders_for
from adaqn.runs.recorders.exact_tables import EpisodesRecorder
from adaqn.training.observers import Episode, Observer

CONFIG = "algo: adadqn\nseed: 3\n"


class Listener(Observer):
    """Collects what the recorders receive."""

    def __init__(self) -> None:
        self.episodes: list[Episode] = []
        self.events: list[Any] = []

    def on_episode(self, trainer: Any, episode: Episode) -> None:
        self.episodes.append(episode)

    def on_event(self, trainer: Any, event: Any) -> None:
        self.events.append(event)


def test_a_run_reads_back_as_it_was(tmp_path: Path, trainer: Any) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    listener = Listener()
    run = recorders_for(RunDirectory(tmp_path), log_interval=50, checkpoint_interval=50)
    trainer.run(200, run.observers([listener]))
    data = read_run(str(tmp_path))
    assert data.path == tmp_path
    assert data.config == {"algo": "adadqn", "seed": 3}
    assert list(zip(*(column.tolist() for column in data.episodes), strict=True)) == listener.episodes
    assert data.selection.step.tolist() == [event.step for event in listener.events]
    assert data.selection.target.tolist() == [event.target for event in listener.events]
    losses = np.array([event.cumulated_loss for event in listener.events])
    assert data.selection.loss.astype(np.float32).tolist() == losses.tolist()
    assert data.selection.loss[:, 1].tolist() == [math.inf] * 20
    assert data.selection.acted.tolist() == [[3, 7]] * 20
    assert data.selection.selected.tolist() == np.eye(2)[data.selection.target].tolist()
    assert data.members[0]["members"][1]["hidden"] == [50]
    assert data.progress["time/total_timesteps"].tolist() == [50, 100, 150, 200]
    assert data.summary is not None
    assert data.summary["steps"] == 200


def test_a_run_that_has_just_begun_reads_as_empty(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    data = read_run(tmp_path)
    assert data.episodes.step.shape == data.episodes.total.shape == (0,)
    assert data.selection.loss.shape == data.selection.acted.shape == (0, 0)
    assert (data.members, data.progress, data.summary) == ([], {}, None)


def test_a_torn_last_line_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "episodes.csv").write_text("step,return,length\n10,1.5,10\n20,2.5,1")
    (tmp_path / "selection.csv").write_text("step,target,loss_0,acted_0\n5,0,0.5,5\n10,")
    (tmp_path / "members.jsonl").write_text('{"step": 0, "members": []}\n{"step": 5, "mem')
    (tmp_path / "progress.csv").write_text("time/total_timesteps,train/loss\n10,\n20,0.5\n3")
    data = read_run(tmp_path)
    assert [column.tolist() for column in data.episodes] == [[10], [1.5], [10]]
    assert [column.tolist() for column in data.selection[:5]] == [[5], [0], [[0.5]], [[5]], [[1.0]]]
    assert data.selection.discount is None
    assert data.members == [{"step": 0, "members": []}]
    assert data.progress["time/total_timesteps"].tolist() == [10, 20]
    assert np.isnan(data.progress["train/loss"]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        (
            "episodes.csv",
            "step,return,length\n1,2.0,3\nx,2,3\n",
            "line 3 of .* must have 3 numbers, but it is 'x,2,3'",
        ),
        ("episodes.csv", "step,return,length\n7\n", "line 2 of .* must have 3 numbers, but it is '7'"),
        ("members.jsonl", "{}\n{]\n", r"members\.jsonl is not valid JSON"),
        ("members.jsonl", "[1]\n", "must hold an object, but it holds '.1.'"),
        ("members.jsonl", '{"step": 0}\n', "line 1 of .* must have a list of members, but it has None"),
        ("members.jsonl", '{"step": "x", "members": []}\n', "the step in line 1 of .* must be a number"),
        ("members.jsonl", "[" * 100_000 + "\n", r"members\.jsonl is not valid JSON"),
        ("episodes.csv", "step,return,length\n1.5,2,3\n", "line 2 of .* has 1.5 for a whole number"),
        ("episodes.csv", "step,return,length\nnan,2,3\n", "line 2 of .* has nan for a whole number"),
        ("selection.csv", "step,target,loss_0\n1,0,1\n", "must have the columns step, target, loss_0"),
        ("selection.csv", "step,target,loss_0,acted_0\n1,1,1,1\n", "losses of 1 members, but its targets include"),
        ("summary.json", "{", r"summary\.json is not valid JSON"),
        ("config.yaml", "a: [", r"config\.yaml is not valid YAML"),
        ("config.yaml", "- a\n", "must hold a mapping of names to values, but it holds .'a'."),
    ],
)
def test_what_cannot_be_read_is_told_in_a_sentence(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=sentence):
        read_run(tmp_path)


@pytest.mark.parametrize("name", ["config.yaml", "episodes.csv", "selection.csv", "members.jsonl", "summary.json"])
def test_a_file_that_is_not_utf_8_is_told_in_a_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / name).write_bytes(b"caf\xe9\n")
    with pytest.raises(UserError, match=rf"cannot read .*{name} as text: 'utf-8' codec can't decode"):
        read_run(tmp_path)


def test_only_a_run_is_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run directory"):
        read_run(tmp_path)


@given(totals=st.lists(st.floats(allow_nan=False), max_size=5))
def test_returns_come_back_to_the_bit(tmp_path_factory: pytest.TempPathFactory, totals: list[float]) -> None:
    path = tmp_path_factory.mktemp("run") / "episodes.csv"
    nobody: Any = None
    recorder = EpisodesRecorder(ExactFile(path))
    recorder.on_start(nobody)
    for step, total in enumerate(totals):
        recorder.on_episode(nobody, Episode(step, total, 1))
    recorder.on_close(nobody)
    assert read_episodes(path).total.tolist() == totals
