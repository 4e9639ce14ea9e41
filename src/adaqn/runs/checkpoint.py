"""Checkpoints of a run: when they are written, what they hold, and how a run is restored from the newest good one."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adaqn import __version__
from adaqn.base.checks import THREADS
from adaqn.base.errors import CheckpointError, UserError
from adaqn.base.exact_file import NOTHING, ExactFile, Written
from adaqn.base.files import Json, writing
from adaqn.base.snapshot import Snapshot, opened, read_arrays, read_head, read_snapshot, write_snapshot
from adaqn.networks.xla.compilation import backend
from adaqn.networks.xla.threads import Threads
from adaqn.replay.protocol import Replay
from adaqn.runs.config import RunConfig
from adaqn.runs.directory import EXACT_FILES, RunDirectory
from adaqn.runs.recorders.progress import Stopwatch
from adaqn.runs.saved_spaces import check_same_spaces, describe_spaces
from adaqn.training.callbacks import crossed, next_multiple
from adaqn.training.observers import Observer

SEGMENT_ROWS = 4096  # 29 MB of Atari frames, 11 MB of Humanoid: the most that each checkpoint rewrites


class Segment(NamedTuple):
    """A file with the replay rows first..last-1, and the digest of its content."""

    first: int
    last: int
    digest: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"rows-{self.first:09d}-{self.last:09d}.zip"


class CheckpointStore:
    """The newest two checkpoints of a run in one directory, and the replay segments that they share.

    A checkpoint file contains the snapshot and the rows after the last full segment; a segment is written only once,
    so the cost of a checkpoint does not grow with the buffer. The order of writes (segments, checkpoint, deletions)
    leaves a complete checkpoint to load whenever the process is killed.
    """

    def __init__(self, directory: Path, segment_rows: int = SEGMENT_ROWS) -> None:
        self._directory = directory
        self._segment_rows = segment_rows
        # Segments written or loaded by this object, contiguous. Another file with such a name may be left over from a
        # killed process, after which the run continued differently: it is overwritten.
        self._segments: list[Segment] = []
        self._refused: set[int] = set()  # steps of checkpoints that `load` could not use

    def steps(self) -> list[int]:
        """The steps of all existing checkpoint files in ascending order, damaged ones included."""
        matches = [re.fullmatch(r"step-(\d{9,})\.zip", name) for name in _names(self._directory)]
        return sorted(int(match[1]) for match in matches if match)

    def save(self, step: int, snapshot: Snapshot, replay: Replay) -> None:
        """Save this as the newest checkpoint; files of later steps are torn or abandoned, and are deleted."""
        with writing(self._directory):
            self._segment_directory.mkdir(parents=True, exist_ok=True)
        tail_first = self._write_full_segments(replay)
        tail = replay.rows(tail_first, replay.added)
        meta = {
            "snapshot": snapshot.meta,
            "first": replay.oldest,
            "tail": tail_first,
            "last": replay.added,
            "segments": self._segments,
        }
        arrays = {f"state/{name}": array for name, array in snapshot.arrays.items()}
        arrays |= {f"tail/{name}": array for name, array in tail.items()}
        write_snapshot(self._path(step), Snapshot(arrays, meta), kind="checkpoint")
        with writing(self._directory):
            self._clean(newest=step)

    def newest_meta(self) -> Json:
        """The metadata of the newest readable checkpoint, without reading its arrays; empty if there is none."""
        for step in reversed(self.steps()):
            path = self._path(step)
            with contextlib.suppress(CheckpointError, KeyError, TypeError, ValueError), opened(path) as archive:
                head, _ = read_head(archive, path, kind="checkpoint")
                return dict(head["meta"]["snapshot"])
        return {}

    def load(self, replay: Replay | None) -> Snapshot:
        """Load the newest usable checkpoint; its rows are restored into the empty replay buffer, if one is given."""
        if replay is not None and replay.added:
            raise ValueError(
                f"a checkpoint can only be restored into an empty replay, but this one has {replay.added} rows"
            )
        steps = self.steps()
        lost_rows: _LostRows | None = None
        for step in reversed(steps):
            try:
                checkpoint = self._read_checkpoint(step)
                if replay is None:
                    return checkpoint.snapshot
                for segment in checkpoint.segments:  # check all of them first: a partial restore cannot be undone
                    self._read_segment(segment)
            except CheckpointError as error:
                self._refused.add(step)
                lost_rows = lost_rows or (error if isinstance(error, _LostRows) else None)
                warnings.warn(f"the checkpoint of step {step} cannot be used: {error}", stacklevel=2)
                continue
            for segment in checkpoint.segments:
                _restore_rows(replay, checkpoint.first, segment.first, self._read_segment(segment))
            _restore_rows(replay, checkpoint.first, checkpoint.tail_first, checkpoint.tail)
            self._segments = checkpoint.segments
            return checkpoint.snapshot
        tried = f" that is complete (tried those of steps {', '.join(map(str, steps))})" if steps else ""
        if lost_rows is not None:
            tried += (
                f": {lost_rows}, and checkpoints share these segments of the replay buffer; restore the file from a "
                "copy to resume, or use the agent as it is: it can still be evaluated and exported"
            )
        raise CheckpointError(f"there is no checkpoint in {self._directory}{tried}")

    def save_end(self, step: int, snapshot: Snapshot) -> None:
        """Save the state at the end of the run, without its replay, next to the checkpoint of its last step."""
        write_snapshot(self._end, Snapshot(snapshot.arrays, {"step": step, "snapshot": snapshot.meta}), kind="end")

    def load_newest_state(self) -> Snapshot:
        """The newest state without its replay: that of the run's end if it was saved, else the newest checkpoint."""
        if self._end.exists():
            try:
                arrays, meta = read_snapshot(self._end, kind="end")
                step, snapshot = int(meta["step"]), Snapshot(arrays, dict(meta["snapshot"]))
            except (CheckpointError, KeyError, TypeError, ValueError) as error:
                warnings.warn(f"the state at the end of the run cannot be used: {error}", stacklevel=2)
            else:
                if step >= max(self.steps(), default=0):  # else the run has been extended since
                    return snapshot
        return self.load(replay=None)

    @property
    def _end(self) -> Path:
        return self._directory / "end.zip"

    @property
    def _segment_directory(self) -> Path:
        return self._directory / "segments"

    def _path(self, step: int) -> Path:
        return self._directory / f"step-{step:09d}.zip"

    def _write_full_segments(self, replay: Replay) -> int:
        """Write the segments that have become full since the last checkpoint; return the first row after them.

        The newest row is not included: it may still be marked as the last of its episode.
        """
        held = [segment for segment in self._segments if segment.last > replay.oldest]
        if not {segment.name for segment in held} <= set(_names(self._segment_directory)):
            held = []  # a file was removed: write its rows again from the replay
        first = held[-1].last if held else replay.oldest
        while (boundary := (first // self._segment_rows + 1) * self._segment_rows) < replay.added:
            path = self._segment_directory / Segment(first, boundary, "").name
            rows = Snapshot(replay.rows(first, boundary), {"first": first, "last": boundary})
            held.append(Segment(first, boundary, write_snapshot(path, rows, kind="segment")))
            first = boundary
        self._segments = held
        return first

    def _read_checkpoint(self, step: int) -> _Checkpoint:
        path = self._path(step)
        arrays, meta = read_snapshot(path, kind="checkpoint")
        try:
            segments = _segments_named(meta)
            first, tail_first, last = int(meta["first"]), int(meta["tail"]), int(meta["last"])
            snapshot = Snapshot(_below("state/", arrays), dict(meta["snapshot"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is damaged: its index is incomplete ({error})") from error
        ranges = [(segment.first, segment.last) for segment in segments] + [(tail_first, last)]
        contiguous = all(one[1] == following[0] for one, following in itertools.pairwise(ranges))
        if not contiguous or not ranges[0][0] <= first <= last:
            raise CheckpointError(f"{path} is damaged: its segments do not cover the rows {first} to {last}")
        tail = _below("tail/", arrays)
        _check_row_count(path, tail, last - tail_first)
        return _Checkpoint(snapshot, segments, tail, first, tail_first)

    def _read_segment(self, segment: Segment) -> dict[str, np.ndarray]:
        path = self._segment_directory / segment.name
        try:
            with opened(path) as archive:
                head, digest = read_head(archive, path, kind="segment")
                if digest != segment.digest:
                    raise CheckpointError(f"{path} is not the segment that belongs to the checkpoint")
                rows = read_arrays(archive, path, head)
            _check_row_count(path, rows, segment.last - segment.first)
        except CheckpointError as error:
            raise _LostRows(str(error)) from error
        return rows

    def _clean(self, newest: int) -> None:
        """Delete everything but the newest two usable checkpoints, including leftovers of a killed process."""
        self._refused.discard(newest)  # just overwritten
        checkpoints: set[str] = set()
        needed: set[str] = set()
        for step in reversed([step for step in self.steps() if step <= newest and step not in self._refused]):
            path = self._path(step)
            # An unreadable checkpoint is no fallback, and must not displace a readable one.
            with contextlib.suppress(CheckpointError, KeyError, TypeError, ValueError):
                with opened(path) as archive:
                    head, _ = read_head(archive, path, kind="checkpoint")
                needed |= {segment.name for segment in _segments_named(head["meta"])}
                checkpoints.add(path.name)
            if len(checkpoints) == 2:
                break
        _delete_others(self._directory, r"step-\d{9,}\.zip", checkpoints)
        _delete_others(self._segment_directory, r"rows-\d{9,}-\d{9,}\.zip", needed)


class _LostRows(CheckpointError):
    """A segment cannot be used, although the checkpoint that lists it can be read."""


class _Checkpoint(NamedTuple):
    snapshot: Snapshot
    segments: list[Segment]
    tail: dict[str, np.ndarray]  # the rows after the last segment
    first: int  # oldest row in the buffer; the first segment may begin before it
    tail_first: int


def _segments_named(meta: Json) -> list[Segment]:
    return [Segment(int(first), int(last), str(digest)) for first, last, digest in meta["segments"]]


def _check_row_count(path: Path, rows: dict[str, np.ndarray], count: int) -> None:
    for name, array in rows.items():
        if array.shape[:1] != (count,):
            raise CheckpointError(f"{path} is damaged: {name!r} has the shape {array.shape} for {count} rows")


def _restore_rows(replay: Replay, oldest: int, first: int, rows: dict[str, np.ndarray]) -> None:
    """Restore the rows that were still in the buffer."""
    start = max(first, oldest)
    held = {name: array[start - first :] for name, array in rows.items()}
    if any(len(array) for array in held.values()):
        replay.restore(start, held)


def _below(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _names(directory: Path) -> list[str]:
    return os.listdir(directory) if directory.is_dir() else []


def _delete_others(directory: Path, pattern: str, kept: set[str]) -> None:
    """Delete the files that match the pattern and are not kept, and unfinished files with such a name."""
    for name in _names(directory):
        unfinished = re.fullmatch(rf"\.{pattern}\.\d+\.tmp", name)
        if unfinished or (re.fullmatch(pattern, name) and name not in kept):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(directory / name)


UNKNOWN = "of an unknown version"  # checkpoints did not always record it


def config_refusal(
    changed: list[str], now: Mapping[str, Any], before: Mapping[str, Any], made_by: str | None
) -> Exception:
    """The error for a run whose configuration differs in the entries `changed` from that of its checkpoint."""
    added = [name for entry in changed for name in added_entries(now.get(entry), before.get(entry), entry) or [""]]
    if added and all(added):
        return CheckpointError(
            f"the run was made by adaqn {made_by or UNKNOWN}, which did not have {', '.join(added)}, and this is adaqn "
            f"{__version__}: resume it with the adaqn that made it, or train it as a new run"
        )
    return CheckpointError(
        f"config.yaml was changed after the checkpoint was written ({', '.join(changed)}); "
        "restore it to resume (`adaqn resume --steps` changes the end of a run), or train it as a new run"
    )


def added_entries(now: Any, before: Any, name: str) -> list[str] | None:
    """Names of the entries that only `now` has, if everything else is equal; None if something else differs."""
    if isinstance(now, Mapping) and isinstance(before, Mapping):
        if not before.keys() <= now.keys():
            return None
        found = [str(key) for key in now if key not in before]
        inner = [added_entries(now[key], value, str(key)) for key, value in before.items()]
    elif isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        found, inner = [], [added_entries(own, other, name) for own, other in zip(now, before, strict=True)]
    else:
        return [] if now == before else None
    if any(names is None for names in inner):
        return None
    return list(dict.fromkeys([*found, *(each for names in inner for each in names or [])]))


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
