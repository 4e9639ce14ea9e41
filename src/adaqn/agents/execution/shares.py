"""How an update is divided among lanes: shares of the batch, and the means over it from the means over its shares."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from adaqn.networks.ensemble import EnsembleState, GroupState

Tree = TypeVar("Tree")


def lanes_for(batch_size: int, threads: int, least: int) -> int:
    """The number of lanes for a batch: the largest that gives equal shares of at least `least` rows."""
    most = max(1, min(threads, batch_size // least))
    return next(count for count in range(most, 0, -1) if batch_size % count == 0)


def shares(size: int, count: int) -> tuple[slice, ...]:
    """Divide so many rows into equal shares, for which a program is compiled once."""
    assert size % count == 0, "`lanes_for` chooses a number of lanes that divides the batch"
    rows = size // count
    return tuple(slice(number * rows, (number + 1) * rows) for number in range(count))


def mean_of_shares(of_shares: Sequence[Tree]) -> Tree:
    """The means over the batch, from those over its shares; of truth values, whether any is true."""

    def mean(*parts: Array) -> Array:
        if parts[0].dtype == bool:
            return jnp.stack(parts).any(axis=0)
        return functools.reduce(operator.add, parts) / len(parts)

    return jax.tree.map(mean, *of_shares)


def without_optimizers(state: EnsembleState) -> EnsembleState:
    """Only the parameters, for programs that read nothing else: every array of a call takes time."""
    nothing: Any = ()
    return tuple(GroupState(group.parameters, nothing, nothing, {}) for group in state)
