"""AdaDQN-max, the paper's ablation: the members with the largest cumulated losses."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from adaqn.selection.types import Selection


def select(uniforms: Array, losses: Array, alive: Array, size: int) -> Selection:
    """The `size` living members with the largest losses, largest first; among equals the first."""
    del uniforms
    order = jnp.lexsort((-losses, ~alive))  # the living first, even with an infinite loss; stable
    return Selection(order[:size].astype(jnp.int32), jnp.full(size, 1.0 / size, jnp.float32))
