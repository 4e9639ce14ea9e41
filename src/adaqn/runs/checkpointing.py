"""When a run is checkpointed, and how it goes on from a checkpoint together with its exact files."""

from __future__ import annotations

import os
import platform
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

from adaqn.checkpoint import CheckpointStore
from adaqn.errors import CheckpointError
from adaqn.runs.config import RunConfig
from adaqn.runs.recorders.exact_file import ExactFile
from adaqn.runs.recorders.stopwatch import Stopwatch
from adaqn.runs.spaces import check_same_spaces, describe_spaces
from adaqn.snapshot import Snapshot
from adaqn.training.callbacks import crossed
from adaqn.training.observers import Observer

if TYPE_CHECKING:
    from adaqn.training.trainer import Trainer


class Checkpointer(Observer):
    """Saves at the start, every `interval` environment steps, when interrupted and at the last step.

    It must come after all observers that write the exact files, so that a checkpoint finds their lines.
    """

    def __init__(
        self,
        store: CheckpointStore,
        interval: int,
        files: Sequence[ExactFile] = (),
        stopwatch: Stopwatch | None = None,
        config: RunConfig | None = None,
    ) -> None:
        self._store = store
        self._interval = interval
        self._files = tuple(files)
        self._stopwatch = stopwatch or Stopwatch()
        self._config = config
        self._seen = 0  # the last step that was looked at
        self._saved: int | None = None  # the last step that was saved

    def restore(self, trainer: Trainer, accept: Callable[[], None] = lambda: None, finished: bool = False) -> bool:
        """Put a fresh trainer and the files where the newest whole checkpoint stood.

        `accept` is called when all has been checked and nothing has been written yet. The files of a finished run stay
        as they are. The answer is False for a run that was killed before its first checkpoint: it begins anew.
        """
        if not self._store.steps() and all(_lines(file) <= 1 for file in self._files):
            sizes: dict[str, int] = {}
            restored = False
        else:
            snapshot = self._store.load(trainer.replay)
            sizes = _sizes(snapshot)
            self._check_config(snapshot)
            check_same_spaces("the checkpoint", snapshot.meta.get("spaces"), _spaces(trainer))
            _warn_of_another_platform(snapshot)
            trainer.restore(snapshot)
            self._stopwatch.set(float(snapshot.meta.get("elapsed", 0.0)))
            restored = True
        accept()
        for file in () if finished else self._files:
            file.truncate(sizes.get(file.path.name, 0))
        return restored

    def _check_config(self, snapshot: Snapshot) -> None:
        if self._config is None:
            return
        if changed := self._config.differences(snapshot.meta.get("config") or {}, int(snapshot.meta.get("step", 0))):
            raise CheckpointError(
                f"config.yaml was changed after the checkpoint was written ({', '.join(changed)}); "
                "put it back to resume (`adaqn resume --steps` gives a run another end), or train it as a new run"
            )

    def on_start(self, trainer: Trainer) -> None:
        """Save a run that is new."""
        self._seen = trainer.clock.step
        if not self._store.steps():
            self._save(trainer)

    def on_step(self, trainer: Trainer) -> None:
        """Save if it is time."""
        step = trainer.clock.step
        if crossed(self._interval, self._seen, step):
            self._save(trainer)
        self._seen = step

    def on_last_step(self, trainer: Trainer) -> None:
        """Save the run as it is before its last updates, from where it can be extended.

        A longer run makes the last of these updates and its next action in one program.
        """
        self._save(trainer)

    def on_finish(self, trainer: Trainer) -> None:
        """Save the end, when the last updates have been made, for those who use the agent."""
        self._store.save_end(trainer.clock.step, trainer.snapshot())

    def on_close(self, trainer: Trainer) -> None:
        """Save a run that was interrupted.

        While an error is on its way out, something may be half done: then the last checkpoint stays.
        """
        interrupted = trainer.interrupted and sys.exc_info()[0] is None
        # What is saved at a step is what was before all that is due for it, and some of that may be done since.
        if interrupted and (self._saved != trainer.clock.step or trainer.pending):
            self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        for file in self._files:
            file.sync()
        snapshot = trainer.snapshot()
        sizes = {file.path.name: file.size for file in self._files}
        config = None if self._config is None else self._config.to_dict()
        meta = snapshot.meta | {
            "step": trainer.clock.step,
            "files": sizes,
            "elapsed": self._stopwatch.elapsed,
            "config": config,
        }
        meta |= {"spaces": _spaces(trainer), "platform": platform_facts()}
        self._store.save(trainer.clock.step, Snapshot(snapshot.arrays, meta), trainer.replay)
        self._saved = trainer.clock.step


def platform_facts() -> dict[str, Any]:
    """What the last bits of a result depend on beside the configuration: XLA divides large products among cores."""
    versions = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy", "gymnasium")}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {**versions, "machine": platform.machine(), "cores": cores, "XLA_FLAGS": os.environ.get("XLA_FLAGS", "")}


def _warn_of_another_platform(snapshot: Snapshot) -> None:
    before, now = snapshot.meta.get("platform") or {}, platform_facts()
    changed = [
        f"{name} was {before.get(name)!r} and is {value!r}" for name, value in now.items() if before.get(name) != value
    ]
    if changed:
        warnings.warn(
            f"the run may go on differently in the last digits than without the interruption: {', '.join(changed)}",
            RuntimeWarning,
            stacklevel=3,
        )


def _spaces(trainer: Trainer) -> dict[str, Any]:
    return describe_spaces(trainer.environments.observation_space, trainer.environments.action_space)


def _lines(file: ExactFile) -> int:
    return file.path.read_bytes().count(b"\n") if file.path.exists() else 0


def _sizes(snapshot: Snapshot) -> dict[str, int]:
    sizes = snapshot.meta.get("files")
    if not isinstance(sizes, dict) or not all(isinstance(size, int) and size >= 0 for size in sizes.values()):
        raise CheckpointError(f"the checkpoint does not tell how long the files of the run were, but {sizes!r}")
    return sizes
