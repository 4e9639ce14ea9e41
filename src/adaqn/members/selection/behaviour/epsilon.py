"""The paper's rule for finite sets: a random member with probability ε_b, else the target member (line 3, Alg. 1)."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from adaqn.members.selection.draws import largest
from adaqn.members.selection.types import Selection


def draw(uniforms: Array, epsilon: Array, losses: Array, alive: Array, target: Selection) -> Array:
    """Distinct, uniformly random members with probability ε_b; else the target members.

    Diverged members are never chosen, even if a target member diverged after it was chosen.
    """
    del losses
    size = target.members.shape[0]
    anyone = largest(jnp.where(alive, uniforms[1:], -1.0), size)
    follow = (uniforms[0] >= epsilon) & alive[target.members].all()
    return jnp.where(follow, target.members, anyone)
