"""A selection rule: the target is the member with the median cumulated loss."""

import jax.numpy as jnp
from jax import Array

from adaqn.members.selection import Selection


def select(uniforms: Array, losses: Array, alive: Array, size: int) -> Selection:
    """The `size` members from the middle of the ranking of those that have not diverged."""
    del uniforms  # a rule without randomness
    order = jnp.lexsort((losses, ~alive))  # by loss, diverged members last
    first = jnp.maximum(alive.sum() - size, 0) // 2
    members = jnp.take(order, first + jnp.arange(size))
    return Selection(members.astype(jnp.int32), jnp.full(size, 1.0 / size, jnp.float32))
