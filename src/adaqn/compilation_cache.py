"""A compilation cache on disk whose entries heal: one that is torn or was changed is compiled again and replaced.

JAX's own writes entries in place, never replaces one, and hands the compiler whatever it reads: a process that was
killed while writing leaves an entry that every later process stumbles over.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from pathlib import Path

from jax._src import compilation_cache
from jax._src.compilation_cache_interface import CacheInterface

_DIGEST = hashlib.sha256().digest_size


class CheckedCache(CacheInterface):
    """A file per program: the digest of what follows, and the compiled program."""

    def __init__(self, directory: Path) -> None:
        self._path = directory
        self._writable = True

    def get(self, key: str) -> bytes | None:  # type: ignore[override]  (the interface has no types)
        """The program, or None if there is none that is whole."""
        try:
            content = self._file(key).read_bytes()
        except OSError:
            return None
        digest, program = content[:_DIGEST], content[_DIGEST:]
        return program if hashlib.sha256(program).digest() == digest else None

    def put(self, key: str, value: bytes) -> None:
        """Keep a program, in the place of one that could not be used; what cannot be kept is compiled every time."""
        if not self._writable:
            return
        file = self._file(key)
        beside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
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
        return self._path / f"{key}-cache"


def warn_of_no_cache(reason: str) -> None:
    """Tell once that programs are compiled again in every process."""
    warnings.warn(
        f"compiled programs are not kept for the next start: {reason}; ADAQN_CACHE_DIR names another directory",
        RuntimeWarning,
        stacklevel=3,
    )


def use_checked_cache(directory: Path) -> None:
    """Make JAX keep its programs in a CheckedCache."""
    # There is no public way to give JAX a cache of one's own. Were this name gone, JAX would use its own one there.
    compilation_cache._cache = CheckedCache(directory)
