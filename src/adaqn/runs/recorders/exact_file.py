"""A text file whose bytes are part of the exact result, which a resumed run continues to the byte."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from adaqn.errors import CheckpointError, UserError


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
        return self.path.stat().st_size if self.path.exists() else 0

    def append(self, text: str) -> None:
        """Write whole lines at the end; they end with a newline on every system."""
        try:
            if self._file is None:
                self._file = self.path.open("ab")
            self._file.write(text.encode())
            self._file.flush()
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror or error}") from error

    def sync(self) -> None:
        """Make all that was appended survive a loss of power."""
        with self.path.open("ab") as file:
            os.fsync(file.fileno())

    def truncate(self, size: int) -> None:
        """Cut off what came after the checkpoint that recorded this size."""
        if self.size < size:
            raise CheckpointError(
                f"{self.path} has {self.size} bytes, but the checkpoint was made when it had {size}: "
                "lines that it counts on are missing"
            )
        with self.path.open("ab") as file:
            file.truncate(size)

    def close(self) -> None:
        """Give the handle back to the operating system."""
        if self._file is not None:
            self._file.close()
            self._file = None
