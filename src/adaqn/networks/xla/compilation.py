"""How programs are compiled: for CPUs and accelerators, with a persistent cache, and synchronous dispatch."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import threading
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
from jax._src import compilation_cache
from jax._src.compilation_cache_interface import CacheInterface

from adaqn.base.errors import MemoryFault
from adaqn.networks.xla.threads import thread_count

# Without it, XLA's reductions and convolutions on a GPU may differ in the last bits from run to run.
OPTIONS = {"xla_gpu_deterministic_ops": True}


def backend() -> str:
    """The kind of device that JAX computes on: cpu or gpu. Starts JAX, so it is not called on import."""
    return jax.default_backend()


def on_cpu() -> bool:
    """Whether JAX computes on the CPU."""
    return backend() == "cpu"


def jit_step_on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a state transition for a GPU; its first argument, the state, is donated to the new state.

    The state stays on the device. The other arguments, such as the arrays of a batch, come from NumPy and are
    transferred in a single call, instead of one for each array; byte images become floats only on the device.
    """
    compiled: Any = jax.jit(function, donate_argnums=0, compiler_options=OPTIONS)

    def transferring(state: Any, *arguments: Any) -> Any:
        return compiled(state, *jax.device_put(arguments))

    program: Any = transferring
    program.lower, program._cache_size = compiled.lower, compiled._cache_size  # as callers know a jitted function
    return program


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


try:
    import resource
except ImportError:  # not on Windows
    resource = None

# A run with small networks needs 1.54 GB of address space, and a third of that in real memory.
LEAST_ADDRESS_SPACE = 1_600_000_000


@cache
def prepare_jax() -> None:
    """Configure JAX once, before the first array is created. A cache directory set by the user is kept."""
    require_address_space()
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        _keep_programs()
    # A step waits for its result anyway, so dispatching to another thread only adds overhead: 20 of 400 microseconds
    # for one member with 200 x 200 units.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    jax.monitoring.register_event_duration_secs_listener(_note_duration)
    _keep_freed_memory()


def require_address_space() -> None:
    """Raise if the address space limit is so low that XLA would abort the process at its start."""
    if resource is None:
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
        raise MemoryFault(
            f"the address space is limited to {limit / 1e9:.2f} GB, but JAX needs {LEAST_ADDRESS_SPACE / 1e9:.1f} GB "
            "to start: raise the limit (ulimit -v)"
        )


def _keep_programs() -> None:
    """Enable the persistent compilation cache, if there is a directory for it."""
    directory = cache_directory()
    if directory is None:
        warn_of_no_cache("there is no home directory")
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        warn_of_no_cache(f"cannot make {directory} ({error.strerror or error})")
        return
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # XLA divides the loops of a program among the threads that it is compiled for. With another number it runs up to
    # four times slower, and JAX's keys do not distinguish them.
    use_checked_cache(directory, lambda: f"-{thread_count()}")


def _keep_freed_memory() -> None:
    """Let the C library reuse freed memory instead of returning it to the system.

    glibc maps new pages for every block above 32 MB, which can take longer than the computation on them: an update of
    an Atari network took 128 ms with new pages and 93 ms with reused ones.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    c_library = ctypes.CDLL(None)
    # The number of arenas is not changed: the compiler's threads would wait for each other in a single arena.
    map_above, trim_above = -3, -1  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
    c_library.mallopt(map_above, 2**30)
    c_library.mallopt(trim_above, 2**31 - 1)


# Disjoint intervals (begin, end) in which this process traced, lowered or compiled, or read from the cache.
_compiling: list[tuple[float, float]] = []
_lock = threading.Lock()


def compile_seconds() -> float:
    """Seconds that this process has spent on tracing and compiling; what threads do at the same time counts once."""
    with _lock:
        return sum(end - begin for begin, end in _compiling)


def _note_duration(event: str, duration_secs: float, **_: str | int) -> None:
    if not event.startswith("/jax/core/compile/"):
        return
    end = time.monotonic()
    begin = end - duration_secs
    with _lock:
        while _compiling and _compiling[-1][1] >= begin:
            begin = min(begin, _compiling.pop()[0])
        _compiling.append((begin, end))


def jit_step(function: Callable[..., Any], concurrent: bool = False) -> Callable[..., Any]:
    """Compile a state transition; its first argument, the state, is donated to the new state.

    `concurrent` is for programs whose kernels are large enough to run side by side on several threads.
    """
    if not on_cpu():
        return jit_step_on_device(function)
    return jax.jit(function, donate_argnums=0, compiler_options=_cpu_options(concurrent))


def small_program(function: Callable[..., Any], static_argnums: int | None = None) -> Callable[..., Any]:
    """Compile a function of small networks, which donates nothing."""
    options = _cpu_options(concurrent=False) if on_cpu() else OPTIONS
    return jax.jit(function, static_argnums=static_argnums, compiler_options=options)


def _cpu_options(concurrent: bool) -> dict[str, str]:
    # The scheduler orders kernels and does not change what they compute. The concurrency-optimized one, XLA's default,
    # hands small kernels to other threads and waits for them: with four members on Lunar Lander 650 to 760 steps/s on
    # two cores, against 890 to 1160 with the memory-optimized one.
    order = "CONCURRENCY" if concurrent and thread_count() > 1 else "MEMORY"
    return {"xla_cpu_scheduler_type": f"CPU_SCHEDULER_TYPE_{order}_OPTIMIZED", **_without_ynnpack()}


@cache
def _without_ynnpack() -> dict[str, str]:
    """The option that leaves products and convolutions to Eigen, if this jaxlib offers a choice.

    On one thread Atari's convolutions take 7.7 ms for a batch with Eigen and 13.1 with YNNPACK, which jaxlib 0.10
    prefers, and an update on Lunar Lander with four members 632 µs of processor time instead of 704.
    """
    option = {"xla_cpu_experimental_ynn_fusion_type": ""}  # operations left to YNNPACK
    try:
        jax.jit(lambda x: x + 1.0, compiler_options=option).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:  # an older jaxlib, without YNNPACK
        return {}
    return option


def cache_directory() -> Path | None:
    """The directory of compiled programs: ADAQN_CACHE_DIR, or `adaqn` in the user's cache directory if it has one."""
    given = os.environ.get("ADAQN_CACHE_DIR")
    if given:
        return Path(given)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "adaqn"
    try:
        return Path.home() / ".cache" / "adaqn"
    except RuntimeError:  # HOME is not set, and the user has no entry in the password database
        return None
