"""How JAX is set up for this package: a compilation cache that outlives the process, and calls that run at once."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax

from adaqn.compilation_cache import use_checked_cache, warn_of_no_cache
from adaqn.errors import MemoryFault
from adaqn.threads import thread_count

try:
    import resource
except ImportError:  # not on Windows
    resource = None

PRODUCTS = "eigen"  # which library multiplies matrices, as far as XLA lets us choose; their last digits differ

# With small networks a run takes 1.54 GB of it; of real memory it takes a third.
LEAST_ADDRESS_SPACE = 1_600_000_000


@cache
def prepare_jax() -> None:
    """Set JAX up, once, before the first array is made. What the user has set already stays."""
    require_address_space()
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        _keep_programs()
    # A step waits for its result anyway, so handing it to another thread only costs the way there and back:
    # 20 of 400 microseconds for one member of 200 x 200 units.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    jax.monitoring.register_event_duration_secs_listener(_note_duration)
    _keep_freed_memory()


def require_address_space() -> None:
    """Refuse a limit of the address space below which XLA would end the process while it starts."""
    if resource is None:
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
        raise MemoryFault(
            f"the address space is limited to {limit / 1e9:.2f} GB, but JAX needs {LEAST_ADDRESS_SPACE / 1e9:.1f} GB "
            "to start: raise the limit (ulimit -v)"
        )


def _keep_programs() -> None:
    """Use the cache directory, if there is one."""
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
    use_checked_cache(directory)


def _keep_freed_memory() -> None:
    """Let the C library keep what a program frees for its next call, instead of giving it back to the system.

    glibc maps every block above 32 MB afresh, and to have its pages made can take longer than to compute with them: an
    update of an Atari network took 128 ms so and 93 ms without.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    c_library = ctypes.CDLL(None)
    # The number of arenas stays as it is: the compiler has threads that would wait for each other in a single one.
    map_above, trim_above = -3, -1  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
    c_library.mallopt(map_above, 2**30)
    c_library.mallopt(trim_above, 2**31 - 1)


_seconds = [0.0]  # spent on tracing, lowering and compiling (or reading from the cache) in this process


def compile_seconds() -> float:
    """How long this process has spent on getting programs ready."""
    return _seconds[0]


def _note_duration(event: str, duration_secs: float, **_: str | int) -> None:
    if event.startswith("/jax/core/compile/"):
        _seconds[0] += duration_secs


def transition(function: Callable[..., Any], concurrent: bool = False) -> Callable[..., Any]:
    """Compile a transition of a state, its first argument, whose memory the new state takes over.

    `concurrent` is for programs whose kernels are large enough to run side by side on several threads.
    """
    if jax.default_backend() != "cpu":
        return jax.jit(function, donate_argnums=0)
    # The order of the kernels, which does not change what they compute. The concurrent one, which is XLA's own choice,
    # hands small kernels to other threads and waits for them: on Lunar Lander with four members 650 to 760 steps/s on
    # two cores, where the order that saves memory had 890 to 1160.
    order = "CONCURRENCY" if concurrent and thread_count() > 1 else "MEMORY"
    options = {"xla_cpu_scheduler_type": f"CPU_SCHEDULER_TYPE_{order}_OPTIMIZED", **_without_ynnpack()}
    return jax.jit(function, donate_argnums=0, compiler_options=options)


@cache
def _without_ynnpack() -> dict[str, str]:
    """The option that leaves products and convolutions to Eigen, where this jaxlib has a choice.

    On one thread Atari's convolutions take 7.7 ms for a batch with Eigen and 13.1 with YNNPACK, which jaxlib 0.10
    prefers, and an update on Lunar Lander with four members 632 µs of processor time instead of 704.
    """
    option = {"xla_cpu_experimental_ynn_fusion_type": ""}  # the kinds of operations that YNNPACK gets
    try:
        jax.jit(lambda x: x + 1.0, compiler_options=option).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:  # an older one, which does not know YNNPACK
        return {}
    return option


def cache_directory() -> Path | None:
    """Where compiled programs are kept: ADAQN_CACHE_DIR, or `adaqn` in the user's cache directory, if there is one."""
    given = os.environ.get("ADAQN_CACHE_DIR")
    if given:
        return Path(given)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "adaqn"
    try:
        return Path.home() / ".cache" / "adaqn"
    except RuntimeError:  # HOME is not set, and the user has no entry in the system's list
        return None
