"""The threads of an agent: those that a user gave, that a resumed run had before, or that fit an update."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

from adaqn.agents.execution.work import can_have, threads_for, worth_sharing
from adaqn.agents.population import Population
from adaqn.agents.registry import Traits
from adaqn.networks.xla.threads import (
    Resumed,
    Threads,
    available_cores,
    checked_threads,
    chosen_outside,
    jax_has_started,
    thread_count,
    try_threads,
    use_threads,
)


class ThreadChoice(NamedTuple):
    """What was chosen for an agent; XLA's threads are set."""

    given: int | None  # the number that the user gave, if any
    lanes: int  # among which updates are divided
    imposed: bool  # XLA's threads were set in the environment


def choose_threads(
    given: int | Literal["auto"] | Resumed | None,
    traits: Traits,
    population: Population,
    settings: Any,
    observation_shape: tuple[int, ...],
) -> ThreadChoice:
    """Set XLA's threads, which is possible before JAX starts, and choose the number of lanes."""
    divided = partial(_divided, partial(threads_for, traits, population, settings, observation_shape))
    imposed = chosen_outside()
    if isinstance(given, Resumed):
        if isinstance(given.before, Threads):
            # A damaged checkpoint may record any number of lanes.
            possible = can_have(traits, population, settings, given.before.lanes)
            before = given.before if possible else Threads(given.before.xla)
            return ThreadChoice(None, try_threads(before, replace=True), imposed)
        given = _number_or_warning(given.before, divided(given.before))
    if given is None or (given == "auto" and imposed):
        return ThreadChoice(None, 1, imposed)
    if given == "auto":
        large = worth_sharing(population, settings, observation_shape)
        wanted = divided(available_cores() if large else 1)
        return ThreadChoice(None, try_threads(wanted, replace=False), imposed)
    number = checked_threads(given)
    threads = divided(number)
    use_threads(threads.xla)
    return ThreadChoice(number, threads.lanes, imposed)


def _divided(wanted: Callable[[int], Threads], number: int) -> Threads:
    """How this number of threads is used: in lanes if XLA has or can have the threads that these need."""
    threads = wanted(number)
    return Threads(number) if jax_has_started() and thread_count() != threads.xla else threads


def _number_or_warning(number: int, divided: Threads) -> int | Literal["auto"]:
    """The number of a configuration, or a warning if JAX has started with another one."""
    if not jax_has_started() or thread_count() == divided.xla:
        return number
    warnings.warn(
        f"the run cannot have the threads={number} of its configuration, because JAX was already in use with "
        f"{thread_count()}",
        RuntimeWarning,
        stacklevel=3,
    )
    return "auto"
