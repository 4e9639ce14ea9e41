"""The number of threads that XLA computes with on a CPU: one per process, fixed when JAX starts.

jaxlib sizes its thread pool by the environment variable PJRT_NPROC, else NPROC, else the cores that the process may
use. The flags `--xla_cpu_multi_thread_eigen=false` and `intra_op_parallelism_threads=1` have no effect in jaxlib 0.10:
with both, half of a product's processor time was spent on other threads; with PJRT_NPROC=1 none was. The calling thread
comes on top of the pool: with a pool of one, a program with independent kernels may still use two threads.
"""

from __future__ import annotations

import os
import sys

from adaqn.checks import count
from adaqn.errors import UserError
from adaqn.limits import THREADS

VARIABLE = "PJRT_NPROC"


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count() -> int:
    """The number of threads that XLA uses, or will use once JAX starts."""
    for name in (VARIABLE, "NPROC"):
        try:
            return max(1, int(os.environ[name]))
        except (KeyError, ValueError):  # jaxlib ignores values that are not numbers, too
            continue
    return available_cores()


def jax_has_started() -> bool:
    """Whether JAX has initialized a backend, so that its number of threads is fixed."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bridge.backends_are_initialized()


def chosen_outside() -> bool:
    """Whether the number was set in the environment, or is already fixed."""
    return VARIABLE in os.environ or jax_has_started()


def use_one_thread() -> None:
    """Make XLA use one thread, unless the number was set in the environment or is already fixed."""
    if not chosen_outside():
        use_threads(1)


def checked_threads(given: object) -> int:
    """Validate a number of threads given by a user."""
    return count("threads", given, low=1, high=THREADS)


def use_threads(number: int) -> None:
    """Make XLA use this number of threads; possible only before JAX starts."""
    if number == thread_count():
        return
    if jax_has_started():
        raise UserError(
            f"threads={number} must be given before JAX is first used in this process, which has started with "
            f"{thread_count()}: set the environment variable {VARIABLE}={number}, or leave it out"
        )
    os.environ[VARIABLE] = str(number)
