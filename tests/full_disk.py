"""A simulated full or failing disk for chosen files of this process."""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast


class _Refusing(io.FileIO):
    """A file whose writes fail halfway once the capacity of `disk` is used up."""

    disk: Disk

    def write(self, data: Any) -> int:
        if self.disk.refuses():
            super().write(bytes(data)[: len(bytes(data)) // 2])
            raise OSError(self.disk.error, os.strerror(self.disk.error))
        return super().write(data)


class Disk:
    """Counts the writes to files of one kind."""

    def __init__(self, pattern: str, writes: int, error: int) -> None:
        self.pattern = pattern
        self.left = writes
        self.error = error
        self.refused = 0

    def refuses(self) -> bool:
        self.left -= 1
        self.refused += self.left < 0
        return self.left < 0


@contextmanager
def full_disk(pattern: str, writes: int = 0, error: int = errno.ENOSPC) -> Iterator[Disk]:
    """Let writes to files with a matching name fail halfway after this many writes."""
    disk, original = Disk(pattern, writes, error), io.open

    def opened(file: Any, mode: str = "r", buffering: int = -1, *others: Any, **options: Any) -> Any:
        path = Path(os.readlink(f"/proc/self/fd/{file}") if isinstance(file, int) else file)
        if "r" in mode or not re.fullmatch(pattern, path.name):
            return original(file, mode, buffering, *others, **options)
        raw = _Refusing(file, mode.replace("b", ""))
        raw.disk = disk
        if buffering == 0:
            return raw
        buffered = cast(BinaryIO, io.BufferedWriter(raw))
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *others, **options)

    io.open = opened  # type: ignore[assignment]
    try:
        yield disk
    finally:
        io.open = original
