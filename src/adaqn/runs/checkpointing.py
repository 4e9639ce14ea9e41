"""When checkpoints of a run are saved, and how the run and its exact files continue from one."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from adaqn import __version__
from adaqn.accelerator import backend
from adaqn.checkpoint import CheckpointStore
from adaqn.errors import CheckpointError, UserError
from adaqn.exact_file import NOTHING, ExactFile, Written
from adaqn.files import Json
from adaqn.limits import THREADS
from adaqn.runs.config import RunConfig
from adaqn.runs.config_versions import config_refusal
from adaqn.runs.directory import EXACT_FILES, RunDirectory
from adaqn.runs.gym_spaces import check_same_spaces, describe_spaces
from adaqn.runs.recorders.stopwatch import Stopwatch
from adaqn.snapshot import Snapshot
from adaqn.threads import Threads
from adaqn.training.callbacks import crossed, next_multiple
from adaqn.training.observers import Observer

if TYPE_CHECKING:
    from adaqn.training.trainer import Trainer


# Increased whenever the compiled programs change so that the last bits of a run differ.
ARITHMETIC = 4


class Checkpointer(Observer["Trainer"]):
    """Saves at the start, every `interval` environment steps, when interrupted and at the last step.

    It saves the complete state of a run, so it needs the trainer and not only a view of it. It must come after all
    observers that write exact files, so that a checkpoint includes their lines. A checkpoint covers all exact files of
    the run directory: none is saved if one of these files was moved, removed, replaced or changed, and a run is resumed
    only if each file still begins with what it contained when the checkpoint was saved.
    """

    def __init__(
        self,
        store: CheckpointStore,
        interval: int,
        directory: RunDirectory,
        files: Sequence[ExactFile] = (),
        stopwatch: Stopwatch | None = None,
        config: RunConfig | None = None,
    ) -> None:
        self._store = store
        self._interval = interval
        self._directory = directory
        self._files: dict[str, ExactFile] = {}  # by name; also files of a previous process that no observer writes now
        self._written_by_observers: set[str] = set()
        self._stopwatch = stopwatch or Stopwatch()
        self._config = config
        self._seen = 0  # step of the last call
        self._saved: int | None = None  # step of the last checkpoint
        self.include(files)

    def include(self, files: Sequence[ExactFile]) -> None:
        """Cover these files too, if they are exact files of this run; each must have a single writer."""
        for file in files:
            name = file.path.name
            if name not in EXACT_FILES or not self._directory.holds(file.path) or self._files.get(name) is file:
                continue
            if name in self._written_by_observers:
                raise UserError(
                    f"{file.path} would have two writers: give the EvalCallback another log_path or log_name"
                )
            self._written_by_observers.add(name)
            self._files[name] = file

    def restore(self, trainer: Trainer, accept: Callable[[], None] = lambda: None, finished: bool = False) -> bool:
        """Restore a new trainer and the files from the newest intact checkpoint.

        Returns False for a run that was killed before its first checkpoint: it starts from the beginning. Everything
        is checked before `accept` is called, and nothing is written here: each file is truncated to its length at the
        checkpoint when the run first writes to it. The files of a finished run are left unchanged.
        """
        if not self._store.steps() and all(_lines(self._directory.path / name) <= 1 for name in EXACT_FILES):
            accept()
            for file in self._files.values():
                file.resume(NOTHING)
            return False
        snapshot = self._store.load(trainer.replay)
        self._check_config(snapshot)
        check_same_spaces("the checkpoint", snapshot.meta.get("spaces"), _spaces(trainer))
        if not finished:
            _require_same_arithmetic(snapshot)
            self._resume_files(_written(snapshot))
            _warn_of_another_platform(snapshot, trainer.threads)
        trainer.restore(snapshot)
        self._stopwatch.set(float(snapshot.meta.get("elapsed", 0.0)))
        self._saved = trainer.clock.step
        accept()
        return True

    def _resume_files(self, written: dict[str, Written]) -> None:
        if missing := [name for name in self._files if name not in written]:
            raise CheckpointError(f"the checkpoint has no record of the content of {', '.join(missing)}")
        for name, content in written.items():
            file = self._files.setdefault(name, ExactFile(self._directory.path / name))
            file.resume(content)

    def _check_config(self, snapshot: Snapshot) -> None:
        if self._config is None:
            return
        before = snapshot.meta.get("config") or {}
        if changed := self._config.differences(before, int(snapshot.meta.get("step", 0))):
            raise config_refusal(changed, self._config.to_dict(), before, snapshot.meta.get("adaqn"))

    def on_start(self, trainer: Trainer) -> None:
        """Save the first checkpoint of a new run."""
        self._seen = trainer.clock.step
        if not self._store.steps():
            self._save(trainer)

    def on_step(self, trainer: Trainer) -> None:
        """Save every `interval` steps."""
        step = trainer.clock.step
        if crossed(self._interval, self._seen, step):
            self._save(trainer)
        self._seen = step

    def next_step(self, step: int) -> int:
        """The next multiple of the interval."""
        return next_multiple(self._interval, step)

    def on_last_step(self, trainer: Trainer) -> None:
        """Save the run before its last updates, so that it can be extended exactly.

        A longer run performs the last of these updates and its next action in one compiled program.
        """
        self._save(trainer)

    def on_finish(self, trainer: Trainer) -> None:
        """Save the agent after its last updates, for use after training."""
        snapshot = trainer.snapshot()
        meta = snapshot.meta | {"spaces": _spaces(trainer)}
        self._store.save_end(trainer.clock.step, Snapshot(snapshot.arrays, meta))

    def on_close(self, trainer: Trainer) -> None:
        """Save an interrupted run.

        After an error the state may be incomplete, so the last checkpoint is kept.
        """
        interrupted = trainer.interrupted and sys.exc_info()[0] is None
        try:
            # A checkpoint of this step was saved before its due operations, some of which may have been done since.
            if interrupted and (self._saved != trainer.clock.step or trainer.pending):
                self._save(trainer)
        finally:
            for file in self._files.values():
                file.close()

    def _save(self, trainer: Trainer) -> None:
        for file in self._files.values():
            self._sync(file)
        snapshot = trainer.snapshot()
        written = {name: file.written._asdict() for name, file in self._files.items()}
        config = None if self._config is None else self._config.to_dict()
        meta = snapshot.meta | {
            "step": trainer.clock.step,
            "files": written,
            "elapsed": self._stopwatch.elapsed,
            "config": config,
        }
        meta |= {"spaces": _spaces(trainer), "platform": platform_facts(trainer.threads)}
        meta |= {"adaqn": __version__, "arithmetic": ARITHMETIC}
        self._store.save(trainer.clock.step, Snapshot(snapshot.arrays, meta), trainer.replay)
        self._saved = trainer.clock.step

    def _sync(self, file: ExactFile) -> None:
        try:
            file.sync()
        except CheckpointError as error:
            kept, where = "no checkpoint has been saved yet", shlex.quote(str(self._directory.path))
            if not (self._directory.path.is_dir() if self._config is None else self._directory.config.is_file()):
                kept = f"the run directory {where} is gone"
            elif self._saved is not None:
                kept = (
                    f"the checkpoint of step {self._saved} is kept: restore the file, and "
                    f"`adaqn resume {where}` continues from there"
                )
            raise CheckpointError(f"{error}; {kept}") from error


def platform_facts(threads: Threads) -> Json:
    """What the last bits of results depend on besides the configuration: large products are split among threads."""
    versions = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy", "gymnasium")}
    facts = {"machine": platform.machine(), "threads": threads.number, "XLA_FLAGS": os.environ.get("XLA_FLAGS", "")}
    divided = {"lanes": threads.lanes, "xla_threads": threads.xla} if threads.lanes > 1 else {}
    return {**versions, **facts, **divided, "backend": backend()}


def recorded_threads(store: CheckpointStore) -> Threads | None:
    """The threads that the newest checkpoint was computed with, if there is one."""
    return _threads_among(store.newest_meta().get("platform"))


def _threads_among(facts: object) -> Threads | None:
    if not isinstance(facts, dict):
        return None
    names = ("xla_threads", "lanes") if "lanes" in facts else ("threads",)
    found = [facts[name] for name in names if type(facts.get(name)) is int and 1 <= facts[name] <= THREADS]
    return Threads(*found) if len(found) == len(names) else None


def _require_same_arithmetic(snapshot: Snapshot) -> None:
    if snapshot.meta.get("arithmetic") != ARITHMETIC:
        raise CheckpointError(
            "the checkpoint was saved by a version of adaqn whose compiled programs round differently, so the run "
            "cannot be resumed exactly: finish it with the version that started it, or start a new run"
        )


def _warn_of_another_platform(snapshot: Snapshot, threads: Threads) -> None:
    facts = snapshot.meta.get("platform") or {}
    before, now = _in_words(facts, _threads_among(facts)), _in_words(platform_facts(threads), threads)
    changed = [
        f"{name} was {before.get(name)!r} and is {now.get(name)!r}"
        for name in dict.fromkeys((*now, *before))
        if before.get(name) != now.get(name)
    ]
    if changed:
        warnings.warn(
            f"the resumed run may differ in the last digits from an uninterrupted one: {', '.join(changed)}",
            RuntimeWarning,
            stacklevel=3,
        )


def _in_words(facts: Json, threads: Threads | None) -> Json:
    """The facts for a message, which has one lane where a checkpoint has no entry for lanes."""
    others = {name: fact for name, fact in facts.items() if name not in ("threads", "lanes", "xla_threads")}
    if threads is None:
        return others
    return others | {"the number of XLA's threads": threads.xla, "the number of lanes": threads.lanes}


def _spaces(trainer: Trainer) -> Json:
    return describe_spaces(trainer.environments.observation_space, trainer.environments.action_space)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def _written(snapshot: Snapshot) -> dict[str, Written]:
    """The files that the checkpoint covers, by name; a foreign checkpoint could name files that are not a run's."""
    try:
        files = {str(name): Written(**content) for name, content in snapshot.meta["files"].items()}
        sound = all(type(content.size) is int and content.size >= 0 for content in files.values())
    except (KeyError, TypeError, AttributeError):
        files, sound = {}, False
    if not sound or not files.keys() <= set(EXACT_FILES):
        raise CheckpointError(
            f"the checkpoint has no record of the content of the run's files, but {snapshot.meta.get('files')!r}"
        )
    return files
