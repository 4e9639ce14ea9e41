"""How an update is divided among lanes: shares of the batch, and the means over it from the means over its shares."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from adaqn.ensemble import EnsembleState, GroupState

Tree = TypeVar("Tree")


def lanes_for(batch_size: int, threads: int, least: int) -> int:
    """The number of lanes that a batch is divided among: a share with fewer than `least` rows is not worth it."""
    return max(1, min(threads, batch_size // least))


def shares(size: int, count: int) -> tuple[slice, ...]:
    """Divide so many rows into nearly equal shares."""
    ends = [size * number // count for number in range(count + 1)]
    return tuple(slice(first, end) for first, end in pairwise(ends))


def mean_of_shares(found: Sequence[Tree], of: Sequence[slice]) -> Tree:
    """The means over the batch, from those over its shares; of truth values, whether any is true."""
    sizes = [share.stop - share.start for share in of]

    def mean(*parts: Array) -> Array:
        if parts[0].dtype == bool:
            return jnp.stack(parts).any(axis=0)
        weighted = [part * (size / sum(sizes)) for part, size in zip(parts, sizes, strict=True)]
        return functools.reduce(operator.add, weighted)

    return jax.tree.map(mean, *found)


def without_optimizers(state: EnsembleState) -> EnsembleState:
    """Only the parameters, for programs that read nothing else: every array of a call takes time."""
    nothing: Any = ()
    return tuple(GroupState(group.parameters, nothing, nothing, {}) for group in state)
