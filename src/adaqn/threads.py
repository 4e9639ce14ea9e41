"""How many threads XLA computes with on a CPU: one number for the process, fixed when JAX starts.

jaxlib sizes its thread pool by the environment variable PJRT_NPROC, else NPROC, else the cores that the process may
use. The flags `--xla_cpu_multi_thread_eigen=false` and `intra_op_parallelism_threads=1` have no effect in jaxlib 0.10:
with both, half of a product's processor time was spent on other threads; with PJRT_NPROC=1 none was. The pool's threads
come on top of the one that calls, to which a program with independent kernels may still add the one of the pool.
"""

from __future__ import annotations

import os
import sys

from adaqn.checks import count
from adaqn.errors import UserError
from adaqn.limits import THREADS

VARIABLE = "PJRT_NPROC"


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count() -> int:
    """The threads that XLA computes with, or will once JAX starts."""
    for name in (VARIABLE, "NPROC"):
        try:
            return max(1, int(os.environ[name]))
        except (KeyError, ValueError):  # as jaxlib, which takes no notice of what is not a number
            continue
    return available_cores()


def jax_has_started() -> bool:
    """Whether JAX has a backend already, so that its threads cannot be changed any more."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bridge.backends_are_initialized()


def chosen_outside() -> bool:
    """Whether the number was set by who started this process, or JAX has started with one."""
    return VARIABLE in os.environ or jax_has_started()


def checked_threads(given: object) -> int:
    """A number of threads that a user gave."""
    return count("threads", given, low=1, high=THREADS)


def use_threads(number: int) -> None:
    """Let XLA compute with so many threads, which must be said before JAX starts."""
    if number == thread_count():
        return
    if jax_has_started():
        raise UserError(
            f"threads={number} must be given before JAX is first used in this process, which has started with "
            f"{thread_count()}: set the environment variable {VARIABLE}={number}, or leave it out"
        )
    os.environ[VARIABLE] = str(number)
