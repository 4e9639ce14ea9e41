from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adaqn.runs.directory import RunDirectory
from adaqn.runs.reading import Episodes
from adaqn.runs.recorders.composition import recorders_for
from adaqn.runs.recorders.summary import auc_return, final_return
from adaqn.training.observers import Observer


def episodes(*rows: tuple[int, float]) -> Episodes:
    steps, totals = np.array(rows).reshape(-1, 2).T
    return Episodes(steps.astype(np.int64), totals, np.ones(len(rows), np.int64))


def test_the_final_return_is_of_the_last_hundred() -> None:
    many = episodes(*((step, 1000.0 if step <= 50 else float(step % 2)) for step in range(1, 151)))
    assert final_return(many) == 0.5
    assert final_return(episodes((3, 2.0), (5, 4.0))) == 3.0
    assert final_return(episodes()) is None


def test_the_area_under_the_curve_weighs_hundredths_of_the_run_equally() -> None:
    # A hundredth of 1000 steps is ten: 1 to 10, 11 to 20, ... The three episodes in the first count as one.
    curve = episodes((4, 1.0), (8, 2.0), (10, 3.0), (11, 10.0), (1000, 30.0))
    assert auc_return(curve, 1000) == (2.0 + 10.0 + 30.0) / 3
    assert auc_return(episodes(), 1000) is None


@pytest.fixture
def finished(tmp_path: Path, trainer: Any) -> dict[str, Any]:
    run = recorders_for(RunDirectory(tmp_path), log_interval=50, checkpoint_interval=50)
    trainer.run(200, run.observers())
    return json.loads((tmp_path / "summary.json").read_text())


def test_what_a_summary_says(tmp_path: Path, trainer: Any, finished: dict[str, Any]) -> None:
    rows = [line.split(",") for line in (tmp_path / "episodes.csv").read_text().splitlines()[1:]]
    targets = [line.split(",")[1] for line in (tmp_path / "selection.csv").read_text().splitlines()[1:]]
    assert finished["steps"] == 200
    assert finished["episodes"] == trainer.episodes == len(rows)
    assert finished["updates"] == trainer.updates == 100
    assert finished["final_return"] == pytest.approx(sum(float(row[1]) for row in rows) / len(rows))
    assert isinstance(finished["auc_return"], float)
    assert finished["selections"] == [targets.count("0"), targets.count("1")]
    assert sum(finished["selections"]) == 20
    assert finished["diverged"] == [1]
    assert finished["stopped"] is None
    assert finished["versions"]["python"] == platform.python_version()
    assert finished["versions"]["numpy"] == np.__version__
    assert set(finished["versions"]) == {"adaqn", "jax", "numpy", "gymnasium", "python"}
    assert finished["time"]["elapsed"] > 0


def test_a_summary_is_sorted_and_indented(tmp_path: Path, finished: dict[str, Any]) -> None:
    text = (tmp_path / "summary.json").read_text()
    assert text == json.dumps(finished, indent=2, sort_keys=True) + "\n"
    assert list(finished) == sorted(finished)


def test_but_for_the_times_it_is_the_same_for_the_same_run(
    tmp_path: Path, new_trainer: Any, finished: dict[str, Any]
) -> None:
    again = tmp_path / "again"
    again.mkdir()
    run = recorders_for(RunDirectory(again), log_interval=7, checkpoint_interval=90)
    new_trainer().run(200, run.observers())
    other = json.loads((again / "summary.json").read_text())
    assert other | {"time": None} == finished | {"time": None}


class EndAt40(Observer):
    """Calls a method of the trainer at a given step."""

    def __init__(self, method: str) -> None:
        self.method = method

    def on_step(self, trainer: Any) -> None:
        if trainer.clock.step == 40:
            getattr(trainer, self.method)("enough")


def test_a_run_that_was_interrupted_has_no_summary(tmp_path: Path, trainer: Any) -> None:
    run = recorders_for(RunDirectory(tmp_path), log_interval=50, checkpoint_interval=50)
    trainer.run(200, run.observers([EndAt40("interrupt")]))
    assert not RunDirectory(tmp_path).finished


def test_a_run_that_was_stopped_is_finished_and_tells_why(tmp_path: Path, trainer: Any) -> None:
    run = recorders_for(RunDirectory(tmp_path), log_interval=50, checkpoint_interval=50)
    trainer.run(200, run.observers([EndAt40("stop")]))
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["steps"], summary["stopped"]) == (40, "enough")


def test_the_last_checkpoint_is_there_before_the_summary(
    tmp_path: Path, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorders_for(RunDirectory(tmp_path), log_interval=50, checkpoint_interval=50)
    there: list[bool] = []
    monkeypatch.setattr(
        run.summary,
        "on_finish",
        lambda trainer: there.append((tmp_path / "checkpoint/step-000000120.zip").exists()),
    )
    trainer.run(120, run.observers())
    assert there == [True]
