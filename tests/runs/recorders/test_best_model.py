"""The best model of a run: how it is judged, when it is saved, and that a resumed run saves the same one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adaqn.agents.protocol import PolicyEvaluation, TargetUpdate
from adaqn.base.errors import UserError
from adaqn.base.exact_file import ExactFile, Written
from adaqn.runs.reading import BestModel, read_best_model
from adaqn.runs.recorders.best_model import BestModelRecorder
from adaqn.training.observers import Episode
from adaqn.training.trainer import Trainer
from tests.fakes import fake_run

MADE: list[BestModelRecorder] = []


@pytest.fixture(autouse=True)
def closed_files() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().file.close()


class SavedSteps:
    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def save(self, path: Path) -> None:
        path.write_text(str(self.trainer.clock.step))


def make_recorder(path: Path, trainer: Trainer, learning_starts: int = 0) -> BestModelRecorder:
    recorder = BestModelRecorder(ExactFile(path / "best_model.csv"), path / "best_model.zip", learning_starts)
    recorder.bind(SavedSteps(trainer))  # type: ignore[arg-type]
    MADE.append(recorder)
    return recorder


def go(recorder: BestModelRecorder, trainer: Trainer, returns: dict[int, float], until: int, length: int = 100) -> None:
    """Episodes of a hundred steps, one after the other; their returns change at the given steps."""
    if trainer.clock.step == 0:
        recorder.on_start(trainer)
    while trainer.clock.step < until:
        step = trainer.clock.step + length * trainer.environments.count
        trainer.clock = trainer.clock._replace(step=step)
        total = next(value for begin, value in reversed(returns.items()) if step >= begin)
        trainer.recent_episodes.append(Episode(step, total, length))
        recorder.on_step(trainer)


def evaluate(recorder: BestModelRecorder, trainer: Trainer, *returns: float) -> None:
    recorder.on_event(trainer, PolicyEvaluation(trainer.clock.step, returns, (1,) * len(returns)))


def rows(path: Path) -> list[str]:
    return (path / "best_model.csv").read_text().splitlines()[1:]


def saved(path: Path) -> int:
    return int((path / "best_model.zip").read_text())


def test_the_last_ten_training_episodes_decide_and_a_collapse_loses_nothing(tmp_path: Path) -> None:
    trainer = fake_run(1, interval=None)
    recorder = make_recorder(tmp_path, trainer)
    go(recorder, trainer, {0: 1.0, 1_500: 5.0, 3_001: -8.0}, until=6_000)
    # At 2000 six of ten episodes have a return of 5, at 3000 all of them.
    assert rows(tmp_path) == ["1000,1.0,training", "2000,3.4,training", "3000,5.0,training"]
    assert saved(tmp_path) == 3_000
    assert recorder.best == BestModel(3_000, 5.0, "training") == read_best_model(tmp_path / "best_model.csv")
    recorder.on_finish(trainer)
    assert saved(tmp_path) == 3_000


def test_the_end_of_a_run_is_looked_at_too(tmp_path: Path) -> None:
    trainer = fake_run(1, interval=None)
    recorder = make_recorder(tmp_path, trainer)
    go(recorder, trainer, {0: 1.0, 2_001: 5.0}, until=2_500)
    recorder.on_finish(trainer)
    assert rows(tmp_path) == ["1000,1.0,training", "2500,3.0,training"]


def test_an_equal_return_is_not_better(tmp_path: Path) -> None:
    trainer = fake_run(1, interval=None)
    go(make_recorder(tmp_path, trainer), trainer, {0: 4.0}, until=5_000)
    assert rows(tmp_path) == ["1000,4.0,training"]


@pytest.mark.parametrize(("count", "first"), [(1, 3_000), (2, 4_000)])
def test_episodes_before_learning_started_do_not_count(count: int, first: int, tmp_path: Path) -> None:
    trainer = fake_run(count, interval=None)
    # Random actions got higher returns than the learned policy: with one environment the tenth episode from 1501 on
    # ends at 2600, with two at 3600.
    go(make_recorder(tmp_path, trainer, learning_starts=1_501), trainer, {0: 9.0, 1_701: 1.0}, until=5_000)
    assert rows(tmp_path) == [f"{first},1.0,training"]


def test_the_first_evaluation_counts_more_than_all_training_returns(tmp_path: Path) -> None:
    trainer = fake_run(1, interval=None)
    recorder = make_recorder(tmp_path, trainer)
    go(recorder, trainer, {0: 50.0}, until=1_500)
    evaluate(recorder, trainer, 1.0, 3.0)
    go(recorder, trainer, {0: 90.0}, until=3_000)
    evaluate(recorder, trainer, 2.0, 2.0)
    evaluate(recorder, trainer, 2.5)
    recorder.on_event(trainer, TargetUpdate(3_000, 0, (1.0,), (1,), ()))
    assert rows(tmp_path) == ["1000,50.0,training", "1500,2.0,evaluation", "3000,2.5,evaluation"]
    assert saved(tmp_path) == 3_000


@pytest.mark.parametrize(("episodes", "row"), [(3, "300,7.0,training"), (0, "0,nan,training")])
def test_a_run_too_short_to_judge_keeps_its_last_model(episodes: int, row: str, tmp_path: Path) -> None:
    trainer = fake_run(1, interval=None)
    recorder = make_recorder(tmp_path, trainer)
    recorder.on_start(trainer)
    go(recorder, trainer, {0: 7.0}, until=100 * episodes)
    assert not (tmp_path / "best_model.zip").exists()
    recorder.on_finish(trainer)
    assert rows(tmp_path) == [row]
    assert saved(tmp_path) == 100 * episodes


def test_anything_is_better_than_a_return_that_is_not_known(tmp_path: Path) -> None:
    before = b"step,return,judged_by\n300,nan,training\n"
    (tmp_path / "best_model.csv").write_bytes(before)
    trainer = fake_run(1, interval=None)
    recorder = make_recorder(tmp_path, trainer)
    recorder.file.resume(Written.of(before))
    recorder.on_start(trainer)
    assert recorder.best is not None and math.isnan(recorder.best.total)
    go(recorder, trainer, {0: -7.0}, until=1_000)
    assert rows(tmp_path)[-1] == "1000,-7.0,training"


@pytest.mark.parametrize("evaluated", [False, True])
@pytest.mark.parametrize("cut_at", [1_400, 3_700])
def test_cut_back_to_a_checkpoint_it_goes_on_as_if_nothing_had_happened(
    evaluated: bool, cut_at: int, tmp_path: Path
) -> None:
    course = {0: 1.0, 900: 3.0, 2_800: 8.0, 4_001: 6.0}

    def run(path: Path, cut: bool) -> None:
        path.mkdir()
        trainer = fake_run(1, interval=None)
        recorder = make_recorder(path, trainer)
        kept: Any = None
        for until in range(100, 6_100, 100):
            go(recorder, trainer, course, until)
            if evaluated and until % 500 == 0:
                evaluate(recorder, trainer, {500: 2.0, 3_000: 9.0, 5_000: 10.0}.get(until, 1.0))
            if until == cut_at:
                kept = recorder.file.written, trainer.clock, list(trainer.recent_episodes)
            if cut and until == 5_300:  # killed here, after models were saved that the checkpoint does not include
                recorder.on_close(trainer)
                trainer, again = fake_run(1, interval=None), make_recorder(path, trainer)
                again.file.resume(kept[0])
                trainer.clock = kept[1]
                trainer.recent_episodes.extend(kept[2])
                again._model = SavedSteps(trainer)  # type: ignore[assignment]
                again.on_start(trainer)
                recorder, cut = again, False
                for missed in range(cut_at + 100, 5_400, 100):
                    go(recorder, trainer, course, missed)
                    if evaluated and missed % 500 == 0:
                        evaluate(recorder, trainer, {500: 2.0, 3_000: 9.0, 5_000: 10.0}.get(missed, 1.0))
        recorder.on_finish(trainer)

    run(tmp_path / "whole", cut=False)
    run(tmp_path / "cut", cut=True)
    assert len(rows(tmp_path / "whole")) >= 3
    for name in ("best_model.csv", "best_model.zip"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


@pytest.mark.parametrize("row", ["1000,2.0", "1000,much,training", "1000,2.0,luck"])
def test_a_damaged_table_is_named(row: str, tmp_path: Path) -> None:
    path = tmp_path / "best_model.csv"
    path.write_text(f"step,return,judged_by\n{row}\n")
    with pytest.raises(UserError, match=r"^the last row of .*best_model\.csv must be a step, .* but it is '1000"):
        read_best_model(path)
