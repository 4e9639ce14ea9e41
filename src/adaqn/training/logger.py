"""Values that a user's callbacks record, to be written with the metrics of the run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsFloat

from adaqn.errors import UserError


class Logger:
    """The latest value of each name since the last row of the logs, as Stable-Baselines3's logger has it."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._counts: dict[str, int] = {}  # of values in a mean
        self._reserved: frozenset[str] = frozenset()

    def record(self, key: str, value: SupportsFloat) -> None:
        """Have a value in the next row of progress.csv and TensorBoard; a later one replaces it."""
        self._values[self._checked(key)] = _number(key, value)
        self._counts.pop(key, None)

    def record_mean(self, key: str, value: SupportsFloat) -> None:
        """Have the mean of all values since the last row."""
        number, count = _number(key, value), self._counts.get(self._checked(key), 0)
        mean = self._values[key] if count else 0.0
        self._values[key] = mean + (number - mean) / (count + 1)
        self._counts[key] = count + 1

    def reserve(self, names: Iterable[str]) -> None:
        """Refuse names that the run itself writes."""
        self._reserved = frozenset(names)

    @property
    def waits(self) -> bool:
        """Whether something was recorded since the last time."""
        return bool(self._values)

    def take(self) -> dict[str, float]:
        """All that was recorded since the last time."""
        taken, self._values, self._counts = self._values, {}, {}
        return taken

    def _checked(self, key: object) -> str:
        if not isinstance(key, str) or not key or not key.isprintable():
            raise UserError(f"a value is recorded under a name such as 'custom/height', but got {key!r}")
        if key in self._reserved:
            raise UserError(f"{key!r} is recorded by the run itself; take another name, such as 'custom/{key}'")
        return key


def _number(key: object, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"the value recorded as {key!r} must be a number, but got {value!r}") from None
