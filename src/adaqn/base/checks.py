"""Checks of values that come from users and files, each an error of one sentence; and upper bounds of settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from adaqn.base.errors import UserError, unknown_name

# Every member is a separate network, and most are a separate part of the compiled program: sixteen take 10 s to
# compile, a hundred take minutes.
MEMBERS = 1_000

# Environments are stepped one after the other in this process, and all wait for the slowest; the memory of each is
# unknown before it is made.
ENVIRONMENTS = 1_024

# Updates between two environment steps. They are planned as one list, and an interruption waits for only one of them,
# but a million updates take minutes even with the smallest networks.
GRADIENT_STEPS = 100_000

# An n-step return sums n rewards, which are gathered for every transition of a batch. The longest episodes of common
# benchmarks, Atari's, have 27,000 steps.
N_STEPS = 100_000

# Trials in the first rung of a search's bracket; each trains an agent.
TRIALS = 100_000

# Threads of XLA; the largest machines have no more cores.
THREADS = 1_024

_BY_SETTING = {
    "population": MEMBERS,
    "n_envs": ENVIRONMENTS,
    "gradient_steps": GRADIENT_STEPS,
    "n_steps": N_STEPS,
}


def most(setting: str) -> int | None:
    """The upper bound of a setting, or None if it has none or is limited by memory only."""
    return _BY_SETTING.get(setting)


Check = Callable[[str, Any], Any]  # (name of the setting, given value) -> value


def number(what: str, given: object, low: float = -math.inf, high: float = math.inf) -> float:
    """The given value as a finite number within [low, high]; converts text, because YAML reads "1e-3" as a string."""
    try:
        value = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{what} must be a number, but got {given!r}") from None
    if isinstance(given, bool) or not (math.isfinite(value) and low <= value <= high):
        raise UserError(f"{what} must be a finite number{_limits(low, high)}, but got {given!r}")
    return value


def count(what: str, given: object, low: int = 0, high: int | None = None) -> int:
    """The given value as a whole number of at least `low` and at most `high`."""
    # Not converted to float, which would lose the last digits of a large seed.
    if isinstance(given, int) and not isinstance(given, bool) and abs(given) < 2**63:
        value: float = given
    else:
        value = number(what, given)
    if value != int(value) or value < low:
        raise UserError(f"{what} must be a whole number of at least {low}, but got {given!r}")
    if high is not None and value > high:
        raise UserError(f"{what} must be a whole number of at most {high}, but got {given!r}")
    return int(value)


def at_least(low: int) -> Check:
    """A whole number of at least `low` and at most the limit defined for the setting of this name."""
    return lambda name, given: count(name, given, low, most(name))


def between(low: float, high: float = math.inf) -> Check:
    """A finite number within [low, high]."""
    return lambda name, given: number(name, given, low, high)


def flag(name: str, given: object) -> bool:
    """True or false."""
    if not isinstance(given, bool):
        raise UserError(f"{name} must be true or false, but got {given!r}")
    return given


def one_of(names: Callable[[], Sequence[str]]) -> Check:
    """One of these names."""

    def check(name: str, given: object) -> str:
        if given not in names():
            raise unknown_name(name, given, names())
        return str(given)

    return check


def some_of(names: Callable[[], Sequence[str]]) -> Check:
    """One or more of these names without duplicates: a sequence, or comma-separated text."""

    def check(name: str, given: object) -> tuple[str, ...]:
        values = given.split(",") if isinstance(given, str) else given
        if not isinstance(values, (list, tuple)) or not values:
            raise UserError(f"{name} must be names such as {','.join(names()[:2])}, but got {given!r}")
        chosen = tuple(one_of(names)(name, value) for value in values)
        if len(set(chosen)) != len(chosen):
            raise UserError(f"{name} must be different names, but got {given!r}")
        return chosen

    return check


def optional(check: Check) -> Check:
    """None, or a value that another check allows."""
    return lambda name, given: None if given is None else check(name, given)


def auto_or(check: Check, auto: str = "auto") -> Check:
    """The word `auto`, or a value that another check allows."""
    return lambda name, given: auto if given == auto else check(f"{name} ({auto}, or a number)", given)


def _limits(low: float, high: float) -> str:
    if math.isinf(low) and math.isinf(high):
        return ""
    if math.isinf(high):
        return f" of at least {low:g}"
    return f" between {low:g} and {high:g}"
