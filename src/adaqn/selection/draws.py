"""Choices of members that several rules share, and the one before there are losses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from adaqn.selection.types import Selection


def initial_selection(size: int) -> Selection:
    """The first members, with equal weights, before there are losses to choose by."""
    return Selection(jnp.arange(size, dtype=jnp.int32), jnp.full(size, 1.0 / size, jnp.float32))


def largest(values: Array, size: int) -> Array:
    """The indices of the `size` largest values, largest first; of one alone without sorting, which is slow. [S]"""
    if size == 1:
        return jnp.argmax(values, keepdims=True).astype(jnp.int32)
    return jax.lax.top_k(values, size)[1].astype(jnp.int32)
