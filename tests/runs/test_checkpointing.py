from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adaqn.base.errors import CheckpointError, UserError
from adaqn.base.exact_file import ExactFile
from adaqn.base.snapshot import Snapshot
from adaqn.runs import checkpoint
from adaqn.runs.checkpoint import Checkpointer, CheckpointStore
from adaqn.runs.config import RunConfig
from adaqn.runs.directory import RunDirectory
from adaqn.runs.recorders.composition import RunRecorders, recorders_for
from adaqn.training.observers import Observer

EXACT = ("episodes.csv", "selection.csv", "members.jsonl")
STEPS = 200


class Killed(BaseException):
    """The process is gone."""


class KilledAt(Observer):
    """Ends the run at a step, before any other observer handles the step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer: Any) -> None:
        if trainer.clock.step >= self.step:
            raise Killed


class InterruptedAt(KilledAt):
    def on_step(self, trainer: Any) -> None:
        if trainer.clock.step >= self.step:
            trainer.interrupt("SIGTERM")


class Saves(CheckpointStore):
    """Records the steps of checkpoints, and the size of episodes.csv at each."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, segment_rows=8)
        self.saved: list[int] = []

    def save(self, step: int, snapshot: Any, replay: Any) -> None:
        super().save(step, snapshot, replay)
        self.saved.append(step)


def recorders(path: Path, checkpoint_interval: int = 30, log_interval: int = 17) -> RunRecorders:
    path.mkdir(exist_ok=True)
    return recorders_for(RunDirectory(path), log_interval=log_interval, checkpoint_interval=checkpoint_interval)


def exact(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in EXACT}


def test_it_saves_at_the_start_each_interval_and_the_end(tmp_path: Path, new_trainer: Any) -> None:
    store = Saves(tmp_path)
    new_trainer(n_envs=2).run(100, [Checkpointer(store, 30, RunDirectory(tmp_path))])
    assert store.saved == [0, 30, 60, 90, 100]
    store = Saves(tmp_path / "b")
    new_trainer(n_envs=7).run(100, [Checkpointer(store, 30, RunDirectory(tmp_path))])
    assert store.saved == [0, 35, 63, 91, 105]


def test_it_saves_when_interrupted_also_by_somebody_after_it(tmp_path: Path, trainer: Any) -> None:
    store = Saves(tmp_path)
    trainer.run(100, [Checkpointer(store, 1000, RunDirectory(tmp_path)), InterruptedAt(52)])
    assert store.saved == [0, 52]


def test_a_run_that_somebody_stopped_is_saved_once_at_its_end(tmp_path: Path, trainer: Any) -> None:
    class Stops(Observer):
        def on_step(self, trainer: Any) -> None:
            if trainer.clock.step == 52:
                trainer.stop("good enough")

    store = Saves(tmp_path)
    trainer.run(100, [Checkpointer(store, 1000, RunDirectory(tmp_path)), Stops()])
    assert store.saved == [0, 52]


def test_after_an_error_the_last_checkpoint_stays(tmp_path: Path, trainer: Any) -> None:
    store = Saves(tmp_path)

    class Fails(InterruptedAt):
        def on_step(self, trainer: Any) -> None:
            super().on_step(trainer)
            if trainer.interrupted:
                raise RuntimeError("half done")

    with pytest.raises(RuntimeError, match="half done"):
        trainer.run(100, [Checkpointer(store, 30, RunDirectory(tmp_path)), Fails(52)])
    assert store.saved == [0, 30]


def test_the_exact_files_are_synced_and_measured_before_a_checkpoint(
    tmp_path: Path, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    file = ExactFile(tmp_path / "episodes.csv")
    file.append("step,return,length\n")
    monkeypatch.setattr(file, "sync", lambda: order.append("sync"))
    store = Saves(tmp_path / "checkpoint")
    monkeypatch.setattr(store, "save", lambda step, snapshot, replay: order.append(snapshot.meta["files"]))
    Checkpointer(store, 30, RunDirectory(tmp_path), [file]).on_start(trainer)
    file.close()
    digest = hashlib.sha256(b"step,return,length\n").hexdigest()
    assert order == ["sync", {"episodes.csv": {"size": 19, "sha256": digest}}]


@pytest.mark.parametrize(
    ("end", "step", "restored"),
    [
        *((KilledAt, 2, 0), (KilledAt, 58, 30), (KilledAt, 60, 30), (KilledAt, 62, 60), (KilledAt, 200, 180)),
        *((InterruptedAt, 2, 2), (InterruptedAt, 58, 58), (InterruptedAt, 60, 60), (InterruptedAt, 200, 200)),
    ],
)
def test_interrupted_and_resumed_is_uninterrupted_to_the_byte(
    tmp_path: Path, new_trainer: Any, end: type[KilledAt], step: int, restored: int
) -> None:
    whole = new_trainer()
    whole.run(STEPS, recorders(tmp_path / "whole").observers())

    first = recorders(tmp_path / "parts")
    with contextlib.suppress(Killed):
        new_trainer().run(STEPS, first.observers([end(step)]))
    # A line that was half written when the process went away.
    with (tmp_path / "parts/episodes.csv").open("a") as file:
        file.write("99,0.")

    resumed = new_trainer()
    second = recorders(tmp_path / "parts", checkpoint_interval=25, log_interval=11)
    assert second.checkpointer.restore(resumed)
    assert resumed.clock.step == restored
    resumed.run(STEPS, second.observers())
    assert exact(tmp_path / "parts") == exact(tmp_path / "whole")
    assert len(exact(tmp_path / "whole")["episodes.csv"].splitlines()) > 20
    assert resumed.snapshot().meta == whole.snapshot().meta
    span = whole.replay.oldest, whole.replay.added
    assert (resumed.replay.oldest, resumed.replay.added) == span
    assert resumed.replay.rows(*span)["observation"].tolist() == whole.replay.rows(*span)["observation"].tolist()


def test_a_run_killed_before_its_first_checkpoint_begins_anew(tmp_path: Path, new_trainer: Any) -> None:
    new_trainer().run(STEPS, recorders(tmp_path / "whole").observers())
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/episodes.csv").write_text("step,return,length\n")
    (tmp_path / "parts/selection.csv").write_text("step,targ")
    again, trainer = recorders(tmp_path / "parts"), new_trainer()
    assert again.checkpointer.restore(trainer) is False
    trainer.run(STEPS, again.observers())
    assert exact(tmp_path / "parts") == exact(tmp_path / "whole")


def test_results_are_not_cut_because_the_checkpoints_are_gone(tmp_path: Path, trainer: Any) -> None:
    episodes = "step,return,length\n8,1.0,4\n"
    (tmp_path / "episodes.csv").write_text(episodes)
    with pytest.raises(CheckpointError, match="there is no checkpoint in"):
        recorders(tmp_path).checkpointer.restore(trainer)
    assert (tmp_path / "episodes.csv").read_text() == episodes


def test_missing_lines_are_an_error(tmp_path: Path, new_trainer: Any) -> None:
    new_trainer().run(STEPS, recorders(tmp_path).observers([InterruptedAt(100)]))
    size = (tmp_path / "episodes.csv").stat().st_size
    (tmp_path / "episodes.csv").write_text("step,return,length\n")
    with pytest.raises(CheckpointError, match=f"episodes.csv has 19 bytes, but .* when it had {size}"):
        recorders(tmp_path).checkpointer.restore(new_trainer())


class Does(KilledAt):
    """Calls a function with a file when a step is reached."""

    def __init__(self, step: int, action: Callable[[], Any]) -> None:
        super().__init__(step)
        self.action = action

    def on_step(self, trainer: Any) -> None:
        if trainer.clock.step == self.step:
            self.action()


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_goes_away_meanwhile_is_noticed_and_nothing_is_lost(
    tmp_path: Path, new_trainer: Any, name: str, replaced: bool
) -> None:
    new_trainer().run(STEPS, recorders(tmp_path / "whole").observers())
    path, moved = tmp_path / "parts" / name, tmp_path / "moved"

    def move() -> None:
        path.rename(moved)
        if replaced:
            path.write_text("step,return,length\n")

    first = recorders(tmp_path / "parts", checkpoint_interval=30)
    with pytest.raises(CheckpointError) as caught:
        new_trainer().run(STEPS, first.observers([Does(100, move)]))
    assert f"{path} was moved, removed or replaced while the run was writing it" in str(caught.value)
    assert f"the checkpoint of step 90 is kept: restore the file, and `adaqn resume {path.parent}`" in str(caught.value)
    assert path.exists() == replaced, "it does not come back empty"
    assert first.checkpointer._store.steps() == [60, 90]
    second, resumed = recorders(tmp_path / "parts"), new_trainer()
    with pytest.raises(CheckpointError, match=r"is missing|lines are missing|was changed"):
        second.checkpointer.restore(new_trainer())
    moved.replace(path)
    second = recorders(tmp_path / "parts")
    assert second.checkpointer.restore(resumed)
    resumed.run(STEPS, second.observers())
    assert exact(tmp_path / "parts") == exact(tmp_path / "whole")


def test_a_file_that_went_away_is_noticed_at_the_end_of_a_run_at_the_latest(tmp_path: Path, trainer: Any) -> None:
    remove = Does(STEPS - 2, (tmp_path / "episodes.csv").unlink)
    with pytest.raises(CheckpointError, match=r"episodes.csv was moved, .* the checkpoint of step 0 is kept"):
        trainer.run(STEPS, recorders(tmp_path, checkpoint_interval=1000).observers([remove]))
    assert not (tmp_path / "summary.json").exists() and not (tmp_path / "episodes.csv").exists()


def test_and_when_it_is_interrupted(tmp_path: Path, trainer: Any) -> None:
    remove = Does(98, (tmp_path / "selection.csv").unlink)
    with pytest.raises(CheckpointError, match=r"selection.csv is missing.* the checkpoint of step 0 is kept"):
        trainer.run(STEPS, recorders(tmp_path, checkpoint_interval=1000).observers([remove, InterruptedAt(100)]))
    assert not (tmp_path / "selection.csv").exists()


class Writes(Observer):
    """An observer that writes a file of its own."""

    def __init__(self, path: Path) -> None:
        self.file = ExactFile(path)

    def exact_files(self) -> list[ExactFile]:
        return [self.file]


def test_each_exact_file_has_one_writer(tmp_path: Path) -> None:
    run = recorders(tmp_path / "run")
    for path in (tmp_path / "run/mine.csv", tmp_path / "episodes.csv"):  # neither is one of the run's files
        run.observers([Writes(path)])
    run.observers([Writes(tmp_path / "run/evaluations.csv")])
    for name in ("episodes.csv", "evaluations.csv"):
        with pytest.raises(UserError, match=f"{name} would have two writers: give the EvalCallback another"):
            run.observers([Writes(tmp_path / "run/../run" / name)])


@pytest.mark.parametrize(
    "files",
    [
        None,
        {"episodes.csv": 19},
        {"episodes.csv": {"size": -1, "sha256": ""}},
        {"episodes.csv": {"size": True, "sha256": ""}},
        {"config.yaml": {"size": 0, "sha256": hashlib.sha256().hexdigest()}},
        {"../notes": {"size": 0, "sha256": hashlib.sha256().hexdigest()}},
        {},
    ],
)
def test_a_forged_checkpoint_cuts_no_file(tmp_path: Path, new_trainer: Any, files: Any) -> None:
    run = recorders(tmp_path / "run")
    new_trainer().run(STEPS, run.observers([InterruptedAt(100)]))
    (tmp_path / "run/config.yaml").write_text("precious")
    (tmp_path / "notes").write_text("precious")
    trainer = new_trainer()
    store = CheckpointStore(tmp_path / "run/checkpoint")
    snapshot = store.load(trainer.replay)
    store.save(120, Snapshot(snapshot.arrays, snapshot.meta | {"files": files}), trainer.replay)
    before = exact(tmp_path / "run")
    with pytest.raises(CheckpointError, match="the checkpoint has no record of the content of"):
        recorders(tmp_path / "run").checkpointer.restore(new_trainer())
    assert exact(tmp_path / "run") == before
    assert (tmp_path / "run/config.yaml").read_text() == (tmp_path / "notes").read_text() == "precious"


def test_a_configuration_that_was_changed_meanwhile_is_not_resumed(tmp_path: Path, new_trainer: Any) -> None:
    def run(**changes: Any) -> RunRecorders:
        values = {"env": "CartPole-v1", "steps": 5_000, "log_interval": 100} | changes
        config = RunConfig.from_dict(values)
        return recorders_for(RunDirectory(tmp_path), log_interval=50, checkpoint_interval=50, config=config)

    new_trainer().run(STEPS, run().observers([InterruptedAt(100)]))
    before = exact(tmp_path)
    with pytest.raises(CheckpointError, match=r"config\.yaml was changed .* \(steps, seed\)"):
        run(seed=1, steps=6_000).checkpointer.restore(new_trainer())
    assert exact(tmp_path) == before
    assert run(log_interval=7).checkpointer.restore(new_trainer())


def test_time_goes_on_from_where_it_was(tmp_path: Path, new_trainer: Any) -> None:
    first = recorders(tmp_path)
    first.checkpointer._stopwatch.set(3600.0)
    new_trainer().run(STEPS, first.observers([InterruptedAt(100)]))
    second = recorders(tmp_path)
    second.checkpointer.restore(new_trainer())
    assert 3600.0 < second.checkpointer._stopwatch.elapsed < 3700.0


@pytest.mark.parametrize("before", (None, 1))
def test_a_checkpoint_of_a_version_that_rounds_differently_is_refused(
    tmp_path: Path, new_trainer: Any, monkeypatch: pytest.MonkeyPatch, before: int | None
) -> None:
    monkeypatch.setattr(checkpoint, "ARITHMETIC", before)
    run = recorders(tmp_path)
    new_trainer().run(60, run.observers([InterruptedAt(40)]))
    monkeypatch.undo()
    content = exact(tmp_path)
    with pytest.raises(CheckpointError, match="saved by a version of adaqn whose compiled programs round differently"):
        recorders(tmp_path).checkpointer.restore(new_trainer())
    assert exact(tmp_path) == content
