"""The paper's behaviour in infinite spaces: a member acts the more often, the smaller its cumulated loss is."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from adaqn.selection.draws import largest
from adaqn.selection.types import Selection

SMALL = 1e-6  # keeps the weights finite, and equal just after the losses were reset


def draw(uniforms: Array, epsilon: Array, losses: Array, alive: Array, target: Selection) -> Array:
    """Distinct living members, each drawn with probability proportional to 1 / (L_k + 1e-6); ε_b plays no part."""
    del epsilon
    # The largest of log weights plus Gumbel noise is a draw by weight; the next largest are draws without replacement.
    gumbel = -jnp.log(-jnp.log(jnp.maximum(uniforms[1:], jnp.finfo(jnp.float32).tiny)))
    scores = gumbel - jnp.log(losses + SMALL)
    return largest(jnp.where(alive & jnp.isfinite(losses), scores, -jnp.inf), target.members.shape[0])
