"""A mixture of all members as target, weighted by a softmax over their cumulated losses.

The paper names a mixture of Q-functions as future work. Losses are divided by their mean over the non-diverged
members, so that the meaning of the temperature is independent of the scale of the rewards.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from adaqn.members.selection.types import Selection

MIXTURE = True
SMALL = 1e-12  # keeps the ratio finite if all losses are 0


def select(uniforms: Array, losses: Array, alive: Array, size: int, temperature: float = 1.0) -> Selection:
    """All members, best first, with weights ∝ exp(-L_k / (temperature · mean L)), 0 if diverged."""
    del uniforms, size
    usable = alive & jnp.isfinite(losses)
    # If no loss is finite, all non-diverged members have equal weights.
    usable = jnp.where(usable.any(), usable, alive)
    finite = jnp.where(usable & jnp.isfinite(losses), losses, 0.0)
    mean = finite.sum() / jnp.maximum(usable.sum(), 1)
    scores = jnp.where(usable, -finite / (temperature * (mean + SMALL)), -jnp.inf)
    weights = jnp.where(usable, jnp.exp(scores - scores.max()), 0.0)
    weights = weights / jnp.maximum(weights.sum(), 1.0)
    order = jnp.lexsort((losses, ~alive))
    return Selection(order.astype(jnp.int32), weights[order].astype(jnp.float32))
