"""The number of threads that a run computes with on a CPU.

They are either XLA's, whose number is one per process and fixed when JAX starts, or lanes, among which an algorithm
divides its updates (`adaqn.networks.xla.lanes`).

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
from contextvars import ContextVar
from typing import NamedTuple

from adaqn.base.checks import THREADS, count
from adaqn.base.errors import UserError

VARIABLE = "PJRT_NPROC"
# The value of VARIABLE if adaqn has chosen it, so that it is not taken for a number that a user has set. This is in the
# environment too, because processes that are started later inherit both.
CHOICE = "ADAQN_PJRT_NPROC"

_lanes: ContextVar[int] = ContextVar("lanes", default=1)


class Threads(NamedTuple):
    """The threads of a run: XLA's, and the lanes among which its updates are divided."""

    xla: int
    lanes: int = 1

    @property
    def number(self) -> int:
        """The number of threads that the run is said to have."""
        return max(self)


class Resumed(NamedTuple):
    """The threads that a run had before, which it uses again if it can."""

    before: Threads | int  # of its newest checkpoint; the number in its configuration if there is none


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
    """Whether the number of XLA's threads was set in the environment, and not by adaqn."""
    return VARIABLE in os.environ and os.environ[VARIABLE] != os.environ.get(CHOICE)


def outside_environment() -> dict[str, str]:
    """The environment without the number of threads that adaqn has chosen for this process."""
    own = (CHOICE,) if chosen_outside() else (VARIABLE, CHOICE)
    return {name: value for name, value in os.environ.items() if name not in own}


def use_one_thread() -> None:
    """Make XLA use one thread, as if set in the environment, unless another number was set or is already fixed."""
    if not chosen_outside() and not jax_has_started():
        os.environ[VARIABLE] = "1"
        os.environ.pop(CHOICE, None)


def checked_threads(given: object) -> int:
    """Validate a number of threads given by a user."""
    return count("threads", given, low=1, high=THREADS)


def use_threads(number: int) -> None:
    """Make XLA use this number of threads; possible only before JAX starts."""
    if jax_has_started():
        if number != thread_count():
            raise UserError(
                f"threads={number} must be given before JAX is first used in this process, which has started with "
                f"{thread_count()}: set the environment variable {VARIABLE}={number}, or leave it out"
            )
    elif number != thread_count() or not chosen_outside():
        os.environ[VARIABLE] = os.environ[CHOICE] = str(number)


def try_threads(wanted: Threads, replace: bool) -> int:
    """Make XLA use these threads if it still can; returns the number of lanes, 1 if it cannot.

    A number that was set in the environment or by an earlier agent of this process is changed only with `replace`.
    """
    if not jax_has_started() and (replace or VARIABLE not in os.environ):
        use_threads(wanted.xla)
    return wanted.lanes if thread_count() == wanted.xla else 1


def lane_count() -> int:
    """The number of lanes of agents that are created here; 1: their updates are not divided."""
    return _lanes.get()


@contextlib.contextmanager
def in_lanes(number: int) -> Iterator[None]:
    """Agents that are created within, in this thread, divide their updates among this number of lanes."""
    before = _lanes.set(number)
    try:
        yield
    finally:
        _lanes.reset(before)


def _forget_choice_of_parent() -> None:
    """Remove the number that adaqn has chosen for the process that started this one."""
    if CHOICE in os.environ and not chosen_outside() and not jax_has_started():
        del os.environ[VARIABLE], os.environ[CHOICE]


_forget_choice_of_parent()
