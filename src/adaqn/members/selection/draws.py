"""The initial selection, and a helper that several rules share."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from adaqn.members.selection.types import Selection


def initial_selection(size: int) -> Selection:
    """The first members with equal weights, used before there are any losses."""
    return Selection(jnp.arange(size, dtype=jnp.int32), jnp.full(size, 1.0 / size, jnp.float32))


def largest(values: Array, size: int) -> Array:
    """The indices of the `size` largest values, largest first; argmax for one, because sorting is slow. [S]"""
    if size == 1:
        return jnp.argmax(values, keepdims=True).astype(jnp.int32)
    return jax.lax.top_k(values, size)[1].astype(jnp.int32)
