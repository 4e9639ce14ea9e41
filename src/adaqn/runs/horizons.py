"""Runs whose end is changed, and the step at which schedules "until the end of the run" end.

The horizon of a run is a list of (step, end): from that step on, such schedules end at `end`. An extended run usually
keeps its horizon; if its schedules are stretched, a further entry gives the new end and the step from which it holds.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from adaqn.checks import count
from adaqn.errors import UserError

if TYPE_CHECKING:
    from adaqn.runs.config import RunConfig

Horizons = tuple[tuple[int, int], ...]


def horizon_from(given: object) -> int | Horizons | None:
    """The horizon from a configuration: None (its steps), one number, or a list of [step, end]."""
    if given is None:
        return None
    if not isinstance(given, list | tuple):
        return count("horizon", given, low=1)
    if not given or not all(isinstance(entry, list | tuple) and len(entry) == 2 for entry in given):
        raise UserError(f"horizon must be one step, or a list of [step, end] pairs, but got {given!r}")
    entries = tuple((count("a step of horizon", step), count("horizon", end, low=1)) for step, end in given)
    steps = [step for step, _ in entries]
    if steps[0] != 0 or steps != sorted(set(steps)):
        raise UserError(f"the steps of horizon must begin with 0 and increase, but they are {steps}")
    return entries[0][1] if len(entries) == 1 else entries


def horizons(horizon: object, steps: int) -> Horizons:
    """The horizon of a run of `steps` steps, always as a list."""
    known = horizon_from(horizon)
    if known is None:
        return ((0, steps),)
    return ((0, known),) if isinstance(known, int) else known


def until(entries: Horizons, step: int) -> Horizons:
    """The entries of a horizon that have affected a run up to this step."""
    return tuple(entry for entry in entries if entry[0] <= step)


def extended(config: RunConfig, steps: int, done: int, stretch_schedules: bool) -> RunConfig:
    """The configuration of a run that has taken `done` steps and gets a new end."""
    if steps < done:
        raise UserError(f"the run has taken {done:,} steps already, so it cannot end at step {steps:,}")
    seen = horizons(config.horizon, config.steps)
    if stretch_schedules:
        # Some operations due at the last step may already have been performed with the old end.
        seen = (*until(seen, done), (done + 1, steps)) if done else ((0, steps),)
    horizon = None if seen == ((0, steps),) else horizon_from(seen)
    return dataclasses.replace(config, steps=steps, horizon=horizon)
