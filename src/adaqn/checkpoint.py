"""Saving exactly, atomically and without pickle: snapshots, and a store of checkpoints with replay segments.

A snapshot is one zip file of `.npy` arrays and a `meta.json` that names them with their checksums. A file
from elsewhere can be refused; it cannot execute anything.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import re
import struct
import tokenize
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np

from adaqn.errors import CheckpointError, UserError
from adaqn.replay.protocol import Replay

FORMAT = "adaqn"
VERSION = 1
SEGMENT_ROWS = 4096  # 29 MB of Atari frames, 11 MB of Humanoid: the most that is written again and again

_META = "meta.json"
_NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# All that the standard library and NumPy raise for bytes that are not what they should be.
_ZIP_DAMAGE = (zipfile.BadZipFile, EOFError, KeyError, ValueError, RuntimeError, struct.error, OSError)
_NPY_DAMAGE = (ValueError, TypeError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError)


class Snapshot(NamedTuple):
    """Something savable: named arrays, and the rest as JSON."""

    arrays: dict[str, np.ndarray]
    meta: dict[str, Any]


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file written beside `path` that takes its place on success: `path` is always whole, old or new."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _sync_directory(path.parent)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside)


def write_snapshot(path: Path, snapshot: Snapshot, kind: str) -> str:
    """Write one file atomically; the answer is a digest of all that it holds."""
    for name, array in snapshot.arrays.items():
        if _refused(array.dtype):
            raise CheckpointError(
                f"cannot write {path}: array {name!r} has dtype {array.dtype}, allowed are numbers and text"
            )
    index: list[dict[str, str]] = []
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for number, (name, array) in enumerate(snapshot.arrays.items()):
            entry = f"arrays/{number:05d}.npy"
            # An entry beyond 2 GiB has another zip header, which is written before its content.
            with archive.open(_zip_info(entry), "w", force_zip64=array.nbytes > 1 << 30) as raw:
                sink = _HashedFile(raw)
                np.lib.format.write_array(sink, np.asarray(array, order="C"), allow_pickle=False)  # type: ignore[arg-type]
            index.append({"name": name, "file": entry, "sha256": sink.sha256.hexdigest()})
        head = {"format": FORMAT, "version": VERSION, "kind": kind, "arrays": index, "meta": snapshot.meta}
        text = json.dumps(head).encode()
        archive.writestr(_zip_info(_META), text)
    return hashlib.sha256(text).hexdigest()


def read_snapshot(path: Path, kind: str) -> Snapshot:
    """What `write_snapshot` wrote, or a CheckpointError that says what is wrong with the file."""
    with _opened(path) as archive:
        head, _ = _read_head(archive, path, kind)
        return Snapshot(_read_arrays(archive, path, head), head["meta"])


class Segment(NamedTuple):
    """A file with the replay rows first..last-1, and the digest of what is in it."""

    first: int
    last: int
    digest: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"rows-{self.first:09d}-{self.last:09d}.zip"


class CheckpointStore:
    """The newest two checkpoints of a run in one directory, and the replay segments that they share.

    A checkpoint file holds the snapshot and the rows after the last full segment; a segment is written once,
    so the cost of a checkpoint does not grow with the buffer. The order (segments, checkpoint, deletions)
    leaves something whole to load whenever the process is killed.
    """

    def __init__(self, directory: Path, segment_rows: int = SEGMENT_ROWS) -> None:
        self._directory = directory
        self._segment_rows = segment_rows
        # Those written or loaded here, contiguous. Another file of such a name may be left from a process
        # that was killed, after which the run went on differently: it is written anew.
        self._segments: list[Segment] = []

    def steps(self) -> list[int]:
        """The steps of the checkpoints that are there, ascending, whole or not."""
        matches = [re.fullmatch(r"step-(\d{9,})\.zip", name) for name in _names(self._directory)]
        return sorted(int(match[1]) for match in matches if match)

    def save(self, step: int, snapshot: Snapshot, replay: Replay) -> None:
        """Make this the newest checkpoint; a file of a later step was torn or abandoned, and is deleted."""
        try:
            self._segment_directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write {self._directory}: {error.strerror or error}") from error
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
        self._clean(newest=step)

    def load(self, replay: Replay | None) -> Snapshot:
        """The newest whole checkpoint, its rows put into the given empty replay; without one they are not read."""
        if replay is not None and replay.added:
            raise ValueError(
                f"a checkpoint needs an empty replay to restore, this one has {replay.added} rows"
            )
        steps = self.steps()
        for step in reversed(steps):
            try:
                checkpoint = self._read_checkpoint(step)
                if replay is None:
                    return checkpoint.snapshot
                for segment in checkpoint.segments:  # all of them first: a replay cannot be emptied again
                    self._read_segment(segment)
            except CheckpointError as error:
                warnings.warn(f"the checkpoint of step {step} cannot be used: {error}", stacklevel=2)
                continue
            for segment in checkpoint.segments:
                _restore_rows(replay, checkpoint.first, segment.first, self._read_segment(segment))
            _restore_rows(replay, checkpoint.first, checkpoint.tail_first, checkpoint.tail)
            self._segments = checkpoint.segments
            return checkpoint.snapshot
        tried = f" that is whole (tried those of steps {', '.join(map(str, steps))})" if steps else ""
        raise CheckpointError(f"there is no checkpoint in {self._directory}{tried}")

    @property
    def _segment_directory(self) -> Path:
        return self._directory / "segments"

    def _path(self, step: int) -> Path:
        return self._directory / f"step-{step:09d}.zip"

    def _write_full_segments(self, replay: Replay) -> int:
        """Write the segments that became full since the last time, and give the first row after them."""
        held = [segment for segment in self._segments if segment.last > replay.oldest]
        if not {segment.name for segment in held} <= set(_names(self._segment_directory)):
            held = []  # somebody removed a file: what it held is still in the replay
        first = held[-1].last if held else replay.oldest
        while (boundary := (first // self._segment_rows + 1) * self._segment_rows) <= replay.added:
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
            raise CheckpointError(f"{path} is damaged: its index is not complete ({error})") from error
        ranges = [(segment.first, segment.last) for segment in segments] + [(tail_first, last)]
        contiguous = all(one[1] == following[0] for one, following in itertools.pairwise(ranges))
        if not contiguous or not ranges[0][0] <= first <= last:
            raise CheckpointError(f"{path} is damaged: its segments do not cover the rows {first} to {last}")
        tail = _below("tail/", arrays)
        _check_row_count(path, tail, last - tail_first)
        return _Checkpoint(snapshot, segments, tail, first, tail_first)

    def _read_segment(self, segment: Segment) -> dict[str, np.ndarray]:
        path = self._segment_directory / segment.name
        with _opened(path) as archive:
            head, digest = _read_head(archive, path, kind="segment")
            if digest != segment.digest:
                raise CheckpointError(f"{path} is not the segment that the checkpoint was written with")
            rows = _read_arrays(archive, path, head)
        _check_row_count(path, rows, segment.last - segment.first)
        return rows

    def _clean(self, newest: int) -> None:
        """Delete what is neither of the newest two checkpoints, and what a killed process left behind."""
        kept = [step for step in self.steps() if step <= newest][-2:]
        needed: set[str] = set()
        for step in kept:
            # One that cannot be read needs nothing.
            with contextlib.suppress(CheckpointError, KeyError, TypeError, ValueError):
                with _opened(self._path(step)) as archive:
                    head, _ = _read_head(archive, self._path(step), kind="checkpoint")
                needed |= {segment.name for segment in _segments_named(head["meta"])}
        checkpoints = {self._path(step).name for step in kept}
        _delete_others(self._directory, r"step-\d{9,}\.zip", checkpoints)
        _delete_others(self._segment_directory, r"rows-\d{9,}-\d{9,}\.zip", needed)


class _Checkpoint(NamedTuple):
    snapshot: Snapshot
    segments: list[Segment]
    tail: dict[str, np.ndarray]  # the rows after the last segment
    first: int  # oldest row that was held; the first segment may begin before it
    tail_first: int


class _HashedFile:
    """A file to write that learns the checksum of all that goes through."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return self._file.write(data)


def _zip_info(name: str) -> zipfile.ZipInfo:
    # With the oldest date that the format knows, equal content gives equal bytes.
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _refused(dtype: np.dtype) -> bool:
    """Objects would need pickle; void is what `.npy` makes of types that are not NumPy's own, as bfloat16."""
    return dtype.hasobject or dtype.kind == "V"


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip archive to read, in which every kind of damage is a CheckpointError."""
    try:
        with path.open("rb") as file:
            begins_as_zip = file.read(4) == b"PK\x03\x04"
            if not begins_as_zip:
                raise CheckpointError(f"{path} is not a file that adaqn wrote: it is not a zip archive")
            if not zipfile.is_zipfile(file):
                raise CheckpointError(f"{path} is truncated: the end of the archive is missing")
            with zipfile.ZipFile(file) as archive:
                yield archive
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no file {path}") from error
    except _ZIP_DAMAGE as error:
        raise CheckpointError(f"{path} is damaged or cannot be read: {error}") from error


def _read_head(archive: zipfile.ZipFile, path: Path, kind: str) -> tuple[dict[str, Any], str]:
    """The content of `meta.json` as far as it could be checked, and its digest."""
    if _META not in archive.namelist():
        raise CheckpointError(f"{path} is a zip archive, but not one that adaqn wrote: it has no {_META}")
    text = archive.read(_META)
    head = json.loads(text)
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is a zip archive, but not one that adaqn wrote: its format is not {FORMAT!r}"
        )
    version = head.get("version")
    if not isinstance(version, int) or version < 1:
        raise CheckpointError(
            f"{path} has the format version {version!r}, which never existed (1 to {VERSION} did)"
        )
    if version > VERSION:
        raise CheckpointError(
            f"{path} was written by a newer adaqn (format version {version}, this one reads up to {VERSION})"
        )
    if head.get("kind") != kind:
        raise CheckpointError(f"{path} holds a file of kind {head.get('kind')!r}, where {kind!r} is needed")
    if not isinstance(head.get("meta"), dict) or not isinstance(head.get("arrays"), list):
        raise CheckpointError(f"{path} is damaged: its index is not complete")
    return head, hashlib.sha256(text).hexdigest()


def _read_arrays(archive: zipfile.ZipFile, path: Path, head: dict[str, Any]) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for entry in head["arrays"]:
        try:
            name, file, sha256 = str(entry["name"]), str(entry["file"]), str(entry["sha256"])
            stored = archive.getinfo(file).compress_type == zipfile.ZIP_STORED
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{path} is damaged: its index is not complete ({error})") from error
        if not stored:  # and so no entry unpacks to more than the file has
            raise CheckpointError(f"{path} is not a file that adaqn wrote: array {name!r} is compressed")
        data = archive.read(file)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise CheckpointError(f"{path} is damaged: array {name!r} does not match its checksum")
        try:
            arrays[name] = _parse_npy(data, f"{path}: array {name!r}")
        except CheckpointError:
            raise
        except _NPY_DAMAGE as error:
            raise CheckpointError(
                f"{path} is damaged: array {name!r} is not a valid .npy ({error})"
            ) from error
    return arrays


def _parse_npy(data: bytes, what: str) -> np.ndarray:
    """An array of its own memory; `numpy.load` would trust the header's size, and allocate it."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in _NPY_HEADERS:
        raise ValueError(f"version {version} of .npy")
    shape, fortran_order, dtype = _NPY_HEADERS[version](stream)
    if _refused(dtype):
        raise CheckpointError(f"{what} has dtype {dtype}, which is refused: allowed are numbers and text")
    content = memoryview(data)[stream.tell() :]
    flat = np.frombuffer(content, dtype) if len(content) else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if fortran_order else "C").copy()


def _segments_named(meta: dict[str, Any]) -> list[Segment]:
    return [Segment(int(first), int(last), str(digest)) for first, last, digest in meta["segments"]]


def _check_row_count(path: Path, rows: dict[str, np.ndarray], count: int) -> None:
    for name, array in rows.items():
        if array.shape[:1] != (count,):
            raise CheckpointError(f"{path} is damaged: {name!r} has the shape {array.shape} for {count} rows")


def _restore_rows(replay: Replay, oldest: int, first: int, rows: dict[str, np.ndarray]) -> None:
    """Put back those of the rows that the ring still held."""
    start = max(first, oldest)
    held = {name: array[start - first :] for name, array in rows.items()}
    if any(len(array) for array in held.values()):
        replay.restore(start, held)


def _below(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _names(directory: Path) -> list[str]:
    return os.listdir(directory) if directory.is_dir() else []


def _delete_others(directory: Path, pattern: str, kept: set[str]) -> None:
    """Delete the files named by the pattern that are not kept, and the unfinished ones of such a name."""
    for name in _names(directory):
        unfinished = re.fullmatch(rf"\.{pattern}\.\d+\.tmp", name)
        if unfinished or (re.fullmatch(pattern, name) and name not in kept):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(directory / name)


def _sync_directory(directory: Path) -> None:
    """Make a rename durable; Windows has no such call, and needs none."""
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
