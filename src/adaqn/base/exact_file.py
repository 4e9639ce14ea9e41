"""A result file that a resumed run continues exactly, byte for byte."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO, NamedTuple

from adaqn.base.errors import CheckpointError
from adaqn.base.files import write_all, writing


class Written(NamedTuple):
    """The size and digest of what a run has written to a file.

    With the digest, an edited file is detected before a resumed run continues it. It is updated as lines are written,
    and costs one pass over the file when the run is resumed: milliseconds for megabytes.
    """

    size: int  # bytes
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> Written:
        """The size and digest of this content."""
        return cls(len(data), hashlib.sha256(data).hexdigest())


NOTHING = Written.of(b"")


class ExactFile:
    """A file that grows line by line, with a digest of its expected content.

    Every line is passed to the operating system at once, so that the file can be read during the run. The file can be
    used after `close`: it is reopened as needed. It is never written through a symbolic link.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._size = 0
        self._sha256 = hashlib.sha256()
        self._begun = False  # the file exists
        self._longer = False  # the file may have bytes beyond `_size`, e.g. from a killed process

    @property
    def written(self) -> Written:
        """The size and digest of the expected content."""
        return Written(self._size, self._sha256.hexdigest())

    def append(self, text: str) -> None:
        """Append whole lines, with the same line endings on every system."""
        data = text.encode()
        file = self._opened()
        with writing(self.path):
            self._longer = True  # if only a part is written, the next process to write truncates it
            write_all(file, data)
            self._longer = False
        self._size += len(data)
        self._sha256.update(data)

    def sync(self) -> None:
        """Sync the file to disk; raise if it was replaced or changed while it was written."""
        file = self._opened()
        with writing(self.path):
            ours = os.fstat(file.fileno())
            if not self._names(ours):
                raise CheckpointError(f"{self.path} was moved, removed or replaced while the run was writing it")
            if ours.st_size != self._size:
                raise CheckpointError(
                    f"{self.path} was changed while the run was writing it: it has {ours.st_size} bytes, but "
                    f"{self._size} were written"
                )
            os.fsync(file.fileno())

    def resume(self, written: Written) -> None:
        """Continue after the content that a checkpoint recorded, or raise if the file no longer starts with it.

        The file is not changed yet: anything after that content is cut off at the next write.
        """
        if written != NOTHING or os.path.lexists(self.path):
            self._sha256 = hashlib.sha256(self._require(written))
            self._begun = self._longer = True
        self._size = written.size

    def cut(self) -> None:
        """Cut off everything after the resumed checkpoint now."""
        self._opened()

    def close(self) -> None:
        """Close the file handle."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> BinaryIO:
        if self._file is not None:
            return self._file
        if self._begun:  # resumed or closed before: check that the content is unchanged
            self._require(self.written)
        flags = os.O_RDWR | os.O_APPEND | _no_follow() | (0 if self._begun else os.O_CREAT | os.O_EXCL)
        with writing(self.path):
            # Unbuffered: a failed write must not be retried when the file is closed.
            file = os.fdopen(os.open(self.path, flags, 0o666), "ab", buffering=0)
            if self._longer:
                file.truncate(self._size)
        self._begun, self._longer, self._file = True, False, file
        return file

    def _require(self, written: Written) -> bytes:
        """The content up to this size; raises if it is not what was written."""
        try:
            with os.fdopen(os.open(self.path, os.O_RDONLY | _no_follow()), "rb") as file:
                data = file.read(written.size)
        except FileNotFoundError:
            raise CheckpointError(
                f"{self.path} is missing, but the checkpoint was made when it had {written.size} bytes"
            ) from None
        except OSError as error:
            raise CheckpointError(f"cannot read {self.path}: {error.strerror or error}") from error
        if len(data) < written.size:
            raise CheckpointError(
                f"{self.path} has {len(data)} bytes, but the checkpoint was made when it had {written.size}: "
                "lines are missing"
            )
        if Written.of(data) != written:
            raise CheckpointError(
                f"{self.path} was changed after the checkpoint was made: its first {written.size} bytes differ"
            )
        return data

    def _names(self, ours: os.stat_result) -> bool:
        """Whether the path still refers to the open file."""
        try:
            return os.path.samestat(ours, os.lstat(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return False


def _no_follow() -> int:
    return getattr(os, "O_NOFOLLOW", 0)  # not on Windows
