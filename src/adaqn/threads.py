"""The number of threads that a run computes with on a CPU.

They are either XLA's, whose number is one per process and fixed when JAX starts, or lanes, among which an algorithm
divides its updates (`adaqn.lanes`).

jaxlib sizes its thread pool by the environment variable PJRT_NPROC, else NPROC, else the cores that the process may
use. The flags `--xla_cpu_multi_thread_eigen=false` and `intra_op_parallelism_threads=1` have no effect in jaxlib 0.10:
with both, half of a product's processor time was spent on other threads; with PJRT_NPROC=1 none was. The calling thread
comes on top of the pool: with a pool of one, a program with independent kernels may still use two threads.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

from adaqn.checks import count
from adaqn.errors import UserError
from adaqn.limits import THREADS

VARIABLE = "PJRT_NPROC"

_lanes = 1
_chosen: str | None = None  # the value of the variable that `try_threads` has set


class Threads(NamedTuple):
    """The threads of a run: XLA's, and the lanes among which its updates are divided."""

    xla: int
    lanes: int = 1


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


def lane_count() -> int:
    """The number of lanes of the run that is being created or trained; 1: its updates are not divided."""
    return _lanes


def threads_in_use() -> int:
    """The number of threads that a run is said to have: its lanes, or XLA's threads."""
    return max(lane_count(), thread_count())


def jax_has_started() -> bool:
    """Whether JAX has initialized a backend, so that its number of threads is fixed."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bridge.backends_are_initialized()


def chosen_outside() -> bool:
    """Whether the number of XLA's threads was set in the environment, and not by `try_threads`."""
    return VARIABLE in os.environ and os.environ[VARIABLE] != _chosen


def use_one_thread() -> None:
    """Make XLA use one thread, unless the number was set in the environment or is already fixed."""
    if not chosen_outside() and not jax_has_started():
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


def try_threads(wanted: Threads) -> int:
    """Make XLA use these threads if it still can; returns the number of lanes, 1 if it cannot."""
    global _chosen
    if jax_has_started() and thread_count() != wanted.xla:
        return 1
    if os.environ.get(VARIABLE) != str(wanted.xla) and not jax_has_started():
        os.environ[VARIABLE] = _chosen = str(wanted.xla)
    return wanted.lanes


@contextlib.contextmanager
def in_lanes(number: int) -> Iterator[None]:
    """Agents that are created within divide their updates among this number of lanes."""
    global _lanes
    before, _lanes = _lanes, number
    try:
        yield
    finally:
        _lanes = before
