"""A compilation cache on disk that repairs itself: a truncated or modified entry is compiled again and replaced.

JAX's own cache writes entries in place, never replaces one, and passes whatever it reads to the compiler: a process
killed while writing leaves an entry that breaks every later process.
"""

from __future__ import annotations

import hashlib
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

from jax._src import compilation_cache
from jax._src.compilation_cache_interface import CacheInterface

_DIGEST = hashlib.sha256().digest_size


class CheckedCache(CacheInterface):
    """One file per program: the SHA-256 digest of the compiled program, then the program.

    `label` is added to the names of files, for what programs are compiled for and JAX's keys leave out.
    """

    def __init__(self, directory: Path, label: Callable[[], str] = lambda: "") -> None:
        self._path = directory
        self._label = label
        self._writable = True

    def get(self, key: str) -> bytes | None:  # type: ignore[override]  (the interface has no types)
        """The program, or None if its file is missing or damaged."""
        try:
            content = self._file(key).read_bytes()
        except OSError:
            return None
        digest, program = content[:_DIGEST], content[_DIGEST:]
        return program if hashlib.sha256(program).digest() == digest else None

    def put(self, key: str, value: bytes) -> None:
        """Store a program, replacing a damaged one; after a failed write, nothing more is stored."""
        if not self._writable:
            return
        file = self._file(key)
        # Members that differ only in their optimizer share a program, which threads may compile at the same time.
        beside = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}.tmp")
        try:
            try:
                beside.write_bytes(hashlib.sha256(value).digest() + value)
                os.replace(beside, file)
            finally:
                beside.unlink(missing_ok=True)
        except OSError as error:
            self._writable = False
            warn_of_no_cache(f"cannot write {self._path} ({error.strerror or error})")

    def _file(self, key: str) -> Path:
        return self._path / f"{key}{self._label()}-cache"


def warn_of_no_cache(reason: str) -> None:
    """Warn that programs are compiled again in every process."""
    warnings.warn(
        f"compiled programs are not cached for the next start: {reason}; ADAQN_CACHE_DIR sets another directory",
        RuntimeWarning,
        stacklevel=3,
    )


def use_checked_cache(directory: Path, label: Callable[[], str] = lambda: "") -> None:
    """Make JAX store compiled programs in a CheckedCache."""
    # JAX has no public way to set a custom cache. If this attribute disappears, JAX falls back to its own cache.
    compilation_cache._cache = CheckedCache(directory, label)
