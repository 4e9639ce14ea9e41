"""Values recorded by users' callbacks, which are written together with the run's metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsFloat

from adaqn.base.errors import UserError


class Logger:
    """The latest value of each key since the last row of the logs, as in Stable-Baselines3's logger."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._counts: dict[str, int] = {}  # number of values in each mean
        self._reserved: frozenset[str] = frozenset()

    def record(self, key: str, value: SupportsFloat) -> None:
        """Add a value to the next row of progress.csv and TensorBoard; a later value replaces it."""
        self._values[self._checked(key)] = _number(key, value)
        self._counts.pop(key, None)

    def record_mean(self, key: str, value: SupportsFloat) -> None:
        """Add the mean of all values since the last row to the next row."""
        number, count = _number(key, value), self._counts.get(self._checked(key), 0)
        mean = self._values[key] if count else 0.0
        self._values[key] = mean + (number - mean) / (count + 1)
        self._counts[key] = count + 1

    def reserve(self, names: Iterable[str]) -> None:
        """Reject the names of metrics that the run itself writes."""
        self._reserved = frozenset(names)

    @property
    def waits(self) -> bool:
        """Whether there are recorded values that `take` has not returned yet."""
        return bool(self._values)

    def take(self) -> dict[str, float]:
        """Return and clear all values recorded since the last call."""
        taken, self._values, self._counts = self._values, {}, {}
        return taken

    def _checked(self, key: object) -> str:
        if not isinstance(key, str) or not key or not key.isprintable():
            raise UserError(f"a value is recorded under a name such as 'custom/height', but got {key!r}")
        if key in self._reserved:
            raise UserError(f"{key!r} is recorded by the run itself; choose another name, such as 'custom/{key}'")
        return key


def _number(key: object, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"the value recorded as {key!r} must be a number, but got {value!r}") from None
