"""The checkpoints of a run: the newest two, and the replay rows that they share, in segments that are written once.

Fault tolerance: if one checkpoint file is torn, damaged or missing, or a segment that only one of the two needs, the
run can be resumed from the other checkpoint. A damaged segment that both need makes both unusable for resuming. A
separate copy per checkpoint would prevent that, but a full buffer of Atari frames has 7 GB, which would have to be
stored twice and rewritten with every checkpoint; and because a segment is never touched after it has been written,
synced and renamed into place, only a hardware fault or manual changes can damage it. The agent, its clock and its
generators are in each checkpoint file, so evaluating, exporting and `from_run` still work: only replay rows are lost.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from adaqn.errors import CheckpointError
from adaqn.files import Json, writing
from adaqn.replay.protocol import Replay
from adaqn.snapshot import Snapshot, opened, read_arrays, read_head, read_snapshot, write_snapshot

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
