"""The paper's rule for infinite spaces: members with smaller cumulated losses act more often."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from adaqn.members.selection.draws import largest
from adaqn.members.selection.types import Selection

SMALL = 1e-6  # keeps the weights finite, and equal just after the losses were reset


def draw(uniforms: Array, epsilon: Array, losses: Array, alive: Array, target: Selection) -> Array:
    """Distinct members, drawn with probability ∝ 1 / (L_k + 1e-6), 0 if diverged; ε_b is ignored."""
    del epsilon
    # Gumbel top-k trick: the largest log weights plus Gumbel noise are a weighted sample without replacement.
    gumbel = -jnp.log(-jnp.log(jnp.maximum(uniforms[1:], jnp.finfo(jnp.float32).tiny)))
    scores = gumbel - jnp.log(losses + SMALL)
    return largest(jnp.where(alive & jnp.isfinite(losses), scores, -jnp.inf), target.members.shape[0])
