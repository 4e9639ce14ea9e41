"""Entries of a search space as users write them: lists of names, bounds, and bounds of layers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TypeVar

from adaqn.checks import count, number
from adaqn.errors import UserError, unknown_name

IntegerBounds = tuple[int, int]  # inclusive
FloatBounds = tuple[float, float]
Number = TypeVar("Number", int, float)
Section = TypeVar("Section")

LEAST_POSITIVE = 1e-12  # ConfigSpace rounds bounds to 13 places


@dataclass(frozen=True, kw_only=True)
class DenseLayers:
    """Bounds on the number of hidden layers and their width."""

    layers: IntegerBounds = (1, 3)
    neurons: IntegerBounds = (25, 200)

    def __post_init__(self) -> None:
        _read_bounds(self, "hidden")


@dataclass(frozen=True, kw_only=True)
class ConvolutionLayers:
    """Bounds on the number of convolutions and on their channels, kernel and stride."""

    layers: IntegerBounds = (1, 3)
    channels: IntegerBounds = (16, 64)
    kernel: IntegerBounds = (2, 8)
    stride: IntegerBounds = (2, 5)

    def __post_init__(self) -> None:
        _read_bounds(self, "convolutions")


Layers = DenseLayers | ConvolutionLayers


def names_from(kind: str, given: object, allowed: Sequence[str]) -> tuple[str, ...]:
    """A list of different names, all of them allowed; a single name is a list of one."""
    names = (given,) if isinstance(given, str) else given
    if isinstance(names, Mapping) or not isinstance(names, Sequence) or not names:
        raise UserError(f"{kind} in a search space must be a list of at least one name, but got {given!r}")
    for name in names:
        if name not in allowed:
            raise unknown_name(kind, name, allowed)
        if names.count(name) > 1:
            raise UserError(f"every {kind} in a search space must be listed once, but {name!r} is listed twice")
    return tuple(names)


def bounds_from(what: str, given: object, read: Callable[[str, object], Number]) -> tuple[Number, Number]:
    """A lower and an upper bound; a single number is both."""
    pair = (given, given) if isinstance(given, Real | str) else given
    if not isinstance(pair, Sequence) or len(pair) != 2:
        raise UserError(f"{what} in a search space must be a lower and an upper bound, but got {given!r}")
    low, high = read(what, pair[0]), read(what, pair[1])
    if low > high:
        raise UserError(f"the bounds of {what} must be in ascending order, but got {given!r}")
    return low, high


def section_from(kind: type[Section], name: str, given: object) -> Section:
    """Bounds of layers from a mapping."""
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise UserError(f"{name} in a search space must be a mapping of names to bounds, but got {given!r}")
    names = field_names(kind)
    for entry in given:
        if entry not in names:
            raise unknown_name(f"bound of {name}", entry, names)
    return kind(**given)


def positive(what: str, given: object) -> float:
    """A number above 0."""
    return number(what, given, low=LEAST_POSITIVE)


def share(what: str, given: object) -> float:
    """A number from 0 to 1."""
    return number(what, given, 0.0, 1.0)


def plain(of_layers: Layers) -> dict[str, list[int]]:
    """Bounds of layers as plain values."""
    return {name: list(getattr(of_layers, name)) for name in field_names(of_layers)}


def field_names(of: Layers | type) -> list[str]:
    """The names of a dataclass's fields."""
    return [entry.name for entry in dataclasses.fields(of)]


def _read_bounds(of_layers: Layers, section: str) -> None:
    for name in field_names(of_layers):
        least = 0 if name == "layers" else 1
        read = lambda what, given, low=least: count(what, given, low=low)  # noqa: E731
        object.__setattr__(of_layers, name, bounds_from(f"{section}.{name}", getattr(of_layers, name), read))
