"""A text file whose bytes are part of the exact result, which a resumed run continues to the byte."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO, NamedTuple

from adaqn.errors import CheckpointError
from adaqn.files import write_all, writing


class Written(NamedTuple):
    """What a run wrote to a file up to some point.

    With the digest, a file that somebody edited is noticed before a run goes on with it. It is kept up while the
    lines are written and costs one reading of the file when the run is resumed: milliseconds for megabytes.
    """

    size: int  # bytes
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> Written:
        """The whole of a file with this content."""
        return cls(len(data), hashlib.sha256(data).hexdigest())


NOTHING = Written.of(b"")


class ExactFile:
    """Grows line by line, and knows at any time what it must hold.

    Every line reaches the operating system at once, so that the file can be read while the run goes on. The
    file may be used after `close`: it is opened again as needed. It is never written through a symbolic link.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._size = 0
        self._sha256 = hashlib.sha256()
        self._begun = False  # the file is there
        self._longer = False  # what a killed process wrote after the checkpoint may still be there

    @property
    def written(self) -> Written:
        """What it holds."""
        return Written(self._size, self._sha256.hexdigest())

    def append(self, text: str) -> None:
        """Write whole lines at the end; they end with a newline on every system."""
        data = text.encode()
        file = self._opened()
        with writing(self.path):
            self._longer = True  # should the system take only a part, the next process to write cuts it off
            write_all(file, data)
            self._longer = False
        self._size += len(data)
        self._sha256.update(data)

    def sync(self) -> None:
        """Make all that was appended survive a loss of power; raise if the file is no longer the one written to."""
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
        """Go on behind what was written when a checkpoint was made, or raise if that is not there any more.

        Nothing is changed yet: what comes after it is cut off when the file is next written to.
        """
        if written != NOTHING or os.path.lexists(self.path):
            self._sha256 = hashlib.sha256(self._require(written))
            self._begun = self._longer = True
        self._size = written.size

    def cut(self) -> None:
        """Cut off now what comes after the checkpoint that the file was resumed from."""
        self._opened()

    def close(self) -> None:
        """Give the handle back to the operating system."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> BinaryIO:
        if self._file is not None:
            return self._file
        if self._begun:  # by somebody else, or before it was closed: is it still what it was?
            self._require(self.written)
        flags = os.O_RDWR | os.O_APPEND | _no_follow() | (0 if self._begun else os.O_CREAT | os.O_EXCL)
        with writing(self.path):
            # Unbuffered: what the system refused must not be tried again when the file is closed.
            file = os.fdopen(os.open(self.path, flags, 0o666), "ab", buffering=0)
            if self._longer:
                file.truncate(self._size)
        self._begun, self._longer, self._file = True, False, file
        return file

    def _require(self, written: Written) -> bytes:
        """The content up to there, if it is what was written."""
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
                "lines that it counts on are missing"
            )
        if Written.of(data) != written:
            raise CheckpointError(
                f"{self.path} was changed after the checkpoint was made: its first {written.size} bytes are others"
            )
        return data

    def _names(self, ours: os.stat_result) -> bool:
        """Whether the path still names the file that is open."""
        try:
            return os.path.samestat(ours, os.lstat(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return False


def _no_follow() -> int:
    return getattr(os, "O_NOFOLLOW", 0)  # not on Windows
