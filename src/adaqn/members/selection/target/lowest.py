"""AdaQN: the members with the smallest cumulated losses (line 14 of Algorithm 1, Equation 4)."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from adaqn.members.selection.types import Selection


def select(uniforms: Array, losses: Array, alive: Array, size: int) -> Selection:
    """The `size` non-diverged members with the smallest losses, best first; ties go to the first."""
    del uniforms
    order = jnp.lexsort((losses, ~alive))  # non-diverged first, even with an infinite loss; stable
    return Selection(order[:size].astype(jnp.int32), jnp.full(size, 1.0 / size, jnp.float32))
