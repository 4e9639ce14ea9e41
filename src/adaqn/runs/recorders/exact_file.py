"""A text file whose bytes are part of the exact result, which a resumed run continues to the byte."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from adaqn.errors import CheckpointError, OutputFault, write_all, writing


class ExactFile:
    """Grows line by line; after a resume it is cut back to where the checkpoint found it.

    Every line reaches the operating system at once, so that the file can be read while the run goes on. The
    file may be used after `close`: it is opened again as needed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    @property
    def size(self) -> int:
        """Its length in bytes."""
        with writing(self.path):
            return self.path.stat().st_size if self.path.exists() else 0

    def append(self, text: str) -> None:
        """Write whole lines at the end; they end with a newline on every system."""
        with writing(self.path):
            if self._file is None:
                # Unbuffered: what the system refused must not be tried again when the file is closed.
                self._file = self.path.open("ab", buffering=0)
            write_all(self._file, text.encode())

    def sync(self) -> None:
        """Make all that was appended survive a loss of power."""
        if self._file is not None and not _names(self.path, self._file):
            raise OutputFault(f"cannot write {self.path}: it was removed or replaced while the run was going on")
        with writing(self.path), self.path.open("ab") as file:
            os.fsync(file.fileno())

    def truncate(self, size: int) -> None:
        """Cut off what came after the checkpoint that recorded this size."""
        if self.size < size:
            raise CheckpointError(
                f"{self.path} has {self.size} bytes, but the checkpoint was made when it had {size}: "
                "lines that it counts on are missing"
            )
        with writing(self.path), self.path.open("ab") as file:
            file.truncate(size)

    def close(self) -> None:
        """Give the handle back to the operating system."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _names(path: Path, file: BinaryIO) -> bool:
    """Whether the path still leads to the file that was opened by it."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
