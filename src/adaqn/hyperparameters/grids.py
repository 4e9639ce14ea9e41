"""Sets of members: grids, and lists as users give them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from adaqn.errors import UserError
from adaqn.hyperparameters.member import Hyperparameters, unknown_hyperparameter
from adaqn.limits import MEMBERS


def grid(base: Hyperparameters | None = None, /, **values: Iterable[Any]) -> tuple[Hyperparameters, ...]:
    """The Cartesian product of values of some hyperparameters; the last one varies fastest.

    `grid(hidden=[(25, 25), (50, 50)], learning_rate=[3e-4, 1e-3])` returns four members. An option of the optimizer
    is written `optimizer.eps`: `grid(**{"optimizer.eps": [1.5e-8, 1.5e-4]})`. `base` provides the other fields. All
    members of a grid must be different; a list of members may repeat them.
    """
    base = base or Hyperparameters()
    names = [field.name for field in dataclasses.fields(Hyperparameters)]
    columns: list[tuple[str, list[Any]]] = []
    for name, column in values.items():
        if name not in names and not name.startswith("optimizer."):
            raise unknown_hyperparameter(name, [*names, "optimizer.eps"])
        if isinstance(column, str) or not isinstance(column, Iterable):
            raise UserError(f"grid needs a list of values for {name}, but got {column!r}")
        column = list(column)
        if not column:
            raise UserError(f"grid needs at least one value for {name}, but got an empty list")
        columns.append((name, column))
    by_name = [name for name, _ in columns if name.startswith("optimizer.")]
    if by_name and "optimizer_options" in values:
        raise UserError(f"grid takes either optimizer_options or single options, but got both ({by_name[0]})")
    _require_count("this grid makes", math.prod(len(column) for _, column in columns))
    members: dict[Hyperparameters, int] = {}  # with their indices
    for row in itertools.product(*(column for _, column in columns)):
        changes: dict[str, Any] = {}
        options = dict(base.optimizer_options)
        for (name, _), value in zip(columns, row, strict=True):
            if name.startswith("optimizer."):
                options[name.removeprefix("optimizer.")] = value
            else:
                changes[name] = value
        changes.setdefault("optimizer_options", options)
        member = base.replace(**changes)
        if member in members:
            raise _repeated(columns, members[member], len(members))
        members[member] = len(members)
    return tuple(members)


def members_from(values: Sequence[Any]) -> tuple[Hyperparameters, ...]:
    """Convert a non-empty list of Hyperparameters or mappings to the members of an ensemble."""
    if isinstance(values, (str, Mapping, Hyperparameters)) or not isinstance(values, Iterable):
        raise UserError(f"members must be a list of Hyperparameters, but got {values!r}")
    members = tuple(v if isinstance(v, Hyperparameters) else Hyperparameters.from_dict(v) for v in values)
    if not members:
        raise UserError("members is empty, but an ensemble needs at least one member")
    _require_count("members has", len(members))
    return members


def _require_count(what: str, members: int) -> None:
    if members > MEMBERS:
        raise UserError(f"{what} {members} members, but there can be at most {MEMBERS}")


# A user who lists a layer twice may mean one network with two layers.
_OF_SEVERAL_LAYERS = {
    "hidden": "64x64 on the command line, (64, 64) in Python",
    "convolutions": "64k3s1+64k3s1 on the command line, (Convolution(64, 3, 1), Convolution(64, 3, 1)) in Python",
}


def _repeated(columns: Sequence[tuple[str, list[Any]]], first: int, second: int) -> UserError:
    """The error for two equal members of a grid."""
    hint = ""
    for name, column in columns:
        if name not in _OF_SEVERAL_LAYERS:
            continue
        networks = [getattr(Hyperparameters(**{name: value}), name) for value in column]
        if len(set(networks)) < len(networks):
            hint = f"; one network with several layers is written {_OF_SEVERAL_LAYERS[name]}"
    return UserError(
        f"members {first} and {second} of this grid are equal, but a grid must list every value once (a list, "
        f"members=[...], may repeat members on purpose){hint}"
    )
