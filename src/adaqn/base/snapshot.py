"""Named arrays and JSON in one file, written atomically and read without pickle.

The file is a zip of `.npy` arrays and a `meta.json` that lists them with their checksums. An untrusted file can be
rejected, but it cannot execute anything.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import struct
import tokenize
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from adaqn.base.errors import CheckpointError, UserError
from adaqn.base.files import Json, replacing, require_ours

FORMAT = "adaqn"
VERSION = 1

_META = "meta.json"
_LARGEST_META = 1 << 26  # bytes; that of a run has a few kilobytes
_NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# All exceptions that the standard library and NumPy raise for invalid bytes.
_ZIP_DAMAGE = (zipfile.BadZipFile, EOFError, KeyError, ValueError, RuntimeError, struct.error, OSError)
_NPY_DAMAGE = (ValueError, TypeError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError)


class Snapshot(NamedTuple):
    """A state to save: named arrays, and the rest as JSON."""

    arrays: dict[str, np.ndarray]
    meta: Json


def write_snapshot(path: Path, snapshot: Snapshot, kind: str) -> str:
    """Write one file atomically; returns a digest of its content."""
    for name, array in snapshot.arrays.items():
        if _refused(array.dtype):
            raise CheckpointError(
                f"cannot write {path}: array {name!r} has dtype {array.dtype}, but only numbers and text are allowed"
            )
    index: list[dict[str, str]] = []
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for number, (name, array) in enumerate(snapshot.arrays.items()):
            entry = f"arrays/{number:05d}.npy"
            # An entry beyond 2 GiB needs another zip header, which is written before its content.
            with archive.open(_zip_info(entry), "w", force_zip64=array.nbytes > 1 << 30) as raw:
                sink = _HashedFile(raw)
                np.lib.format.write_array(sink, np.asarray(array, order="C"), allow_pickle=False)  # type: ignore[arg-type]
            index.append({"name": name, "file": entry, "sha256": sink.sha256.hexdigest()})
        head = {"format": FORMAT, "version": VERSION, "kind": kind, "arrays": index, "meta": snapshot.meta}
        text = json.dumps(head).encode()
        archive.writestr(_zip_info(_META), text)
    return hashlib.sha256(text).hexdigest()


def read_snapshot(path: Path, kind: str) -> Snapshot:
    """Read a file written by `write_snapshot`, or raise a CheckpointError that says what is wrong with it."""
    with reading(path, kind) as stored:
        return Snapshot(stored.arrays(), stored.meta)


class StoredSnapshot(NamedTuple):
    """A file of which only the JSON has been read so far."""

    meta: Json
    nbytes: int  # total size of all arrays
    arrays: Callable[[], dict[str, np.ndarray]]


@contextlib.contextmanager
def reading(path: Path, kind: str) -> Iterator[StoredSnapshot]:
    """Open a snapshot, so that its size and metadata can be checked before its arrays are read."""
    with opened(path) as archive:
        head, _ = read_head(archive, path, kind)
        nbytes = sum(info.file_size for info in archive.infolist() if info.filename != _META)
        yield StoredSnapshot(head["meta"], nbytes, lambda: read_arrays(archive, path, head))


def require_plausible_size(what: str, nbytes: int, parameters: int) -> None:
    """Raise if the size of the arrays is impossible for networks with this many bytes of parameters."""
    # Online and target networks, and at most three numbers per parameter in an optimizer.
    largest = 16 * parameters + (1 << 20)
    if not parameters <= nbytes <= largest:
        raise CheckpointError(
            f"{what} has {nbytes:,} bytes of arrays, but its configuration implies {parameters:,} to {largest:,}"
        )


def require_replaceable(path: Path, kind: str, what: str = "") -> None:
    """Raise if the file exists and is not a snapshot of this kind, so that no other file is overwritten."""

    def is_snapshot(path: Path) -> bool:
        try:
            with opened(path) as archive:
                read_head(archive, path, kind)
        except CheckpointError:
            return False
        return True

    require_ours(path, f"{what or kind} that adaqn saved", is_snapshot)


class _HashedFile:
    """A writable file that computes the checksum of everything written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return self._file.write(data)


def _zip_info(name: str) -> zipfile.ZipInfo:
    # A constant date (the oldest that zip supports), so that equal content gives equal bytes.
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _refused(dtype: np.dtype) -> bool:
    """Whether a dtype needs pickle, or would become void in `.npy`, as non-NumPy types such as bfloat16 do."""
    return dtype.hasobject or dtype.kind == "V"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive; every kind of damage raises a CheckpointError."""
    try:
        with path.open("rb") as file:
            begins_as_zip = file.read(4) == b"PK\x03\x04"
            if not begins_as_zip:
                raise CheckpointError(f"{path} is not a file that adaqn wrote: it is not a zip archive")
            if not zipfile.is_zipfile(file):
                raise CheckpointError(f"{path} is truncated: the end of the archive is missing")
            with zipfile.ZipFile(file) as archive:
                # Our files have no compressed or duplicate entries, so they never unpack to more than their size.
                if sum(info.file_size for info in archive.infolist()) > path.stat().st_size:
                    raise CheckpointError(f"{path} is not a file that adaqn wrote: it unpacks to more than its size")
                yield archive
    except UserError:
        raise
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no file {path}") from error
    except _ZIP_DAMAGE as error:
        raise CheckpointError(f"{path} is damaged or cannot be read: {error}") from error


def read_head(archive: zipfile.ZipFile, path: Path, kind: str) -> tuple[Json, str]:
    """The validated content of `meta.json`, and its digest."""
    if _META not in archive.namelist():
        raise CheckpointError(f"{path} is a zip archive, but not one that adaqn wrote: it has no {_META}")
    if (size := archive.getinfo(_META).file_size) > _LARGEST_META:
        raise CheckpointError(
            f"{path} is damaged: its index has {size:,} bytes, and at most {_LARGEST_META:,} are read"
        )
    if archive.getinfo(_META).compress_type != zipfile.ZIP_STORED:
        raise CheckpointError(f"{path} is not a file that adaqn wrote: its index is compressed")
    text = archive.read(_META)
    head = json.loads(text)
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise CheckpointError(f"{path} is a zip archive, but not one that adaqn wrote: its format is not {FORMAT!r}")
    version = head.get("version")
    if not isinstance(version, int) or version < 1:
        raise CheckpointError(f"{path} has the format version {version!r}, which never existed (1 to {VERSION} did)")
    if version > VERSION:
        raise CheckpointError(
            f"{path} was written by a newer adaqn (format version {version}, this one reads up to {VERSION})"
        )
    if head.get("kind") != kind:
        raise CheckpointError(f"{path} is a file of kind {head.get('kind')!r}, but {kind!r} is needed")
    if not isinstance(head.get("meta"), dict) or not isinstance(head.get("arrays"), list):
        raise CheckpointError(f"{path} is damaged: its index is incomplete")
    return head, hashlib.sha256(text).hexdigest()


def read_arrays(archive: zipfile.ZipFile, path: Path, head: Json) -> dict[str, np.ndarray]:
    """Read the arrays listed in the head, and verify their checksums."""
    arrays: dict[str, np.ndarray] = {}
    read: set[str] = set()
    for entry in head["arrays"]:
        try:
            name, file, sha256 = str(entry["name"]), str(entry["file"]), str(entry["sha256"])
            stored = archive.getinfo(file).compress_type == zipfile.ZIP_STORED
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{path} is damaged: its index is incomplete ({error})") from error
        if not stored:  # an uncompressed entry cannot unpack to more than the file's size
            raise CheckpointError(f"{path} is not a file that adaqn wrote: array {name!r} is compressed")
        if file in read:  # several arrays from one entry could exceed the file's size
            raise CheckpointError(f"{path} is damaged: {file} is listed for more than one array")
        read.add(file)
        data = archive.read(file)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise CheckpointError(f"{path} is damaged: array {name!r} does not match its checksum")
        try:
            arrays[name] = _parse_npy(data, f"{path}: array {name!r}")
        except CheckpointError:
            raise
        except _NPY_DAMAGE as error:
            raise CheckpointError(f"{path} is damaged: array {name!r} is not a valid .npy ({error})") from error
    return arrays


def _parse_npy(data: bytes, what: str) -> np.ndarray:
    """Parse an array into new memory; `numpy.load` would allocate whatever size the header claims."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in _NPY_HEADERS:
        raise ValueError(f"version {version} of .npy")
    shape, fortran_order, dtype = _NPY_HEADERS[version](stream)
    if _refused(dtype):
        raise CheckpointError(f"{what} has dtype {dtype}, which is not allowed: it must be numbers or text")
    if fortran_order:
        raise ValueError("Fortran order")
    content = memoryview(data)[stream.tell() :]
    flat = np.frombuffer(content, dtype) if len(content) else np.empty(0, dtype)
    return flat.reshape(shape).copy()
