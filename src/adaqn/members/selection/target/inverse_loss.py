"""A mixture of all members as target, each weighted by the inverse of its cumulated loss."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from adaqn.members.selection.types import Selection

MIXTURE = True
SMALL = 1e-6  # as in the behaviour rule of this name: equal weights if all losses are 0


def select(uniforms: Array, losses: Array, alive: Array, size: int) -> Selection:
    """All members, best first, with weights ∝ 1 / (L_k + 1e-6), 0 if diverged."""
    del uniforms, size
    usable = alive & jnp.isfinite(losses)
    usable = jnp.where(usable.any(), usable, alive)
    shifted = jnp.where(usable & jnp.isfinite(losses), losses, 0.0) + SMALL
    # Relative to the best, so that the sum is at least 1 and nothing underflows.
    weights = jnp.where(usable, jnp.where(usable, shifted, jnp.inf).min() / shifted, 0.0)
    weights = weights / jnp.maximum(weights.sum(), 1.0)
    order = jnp.lexsort((losses, ~alive))
    return Selection(order.astype(jnp.int32), weights[order].astype(jnp.float32))
