"""The first members in order: TD3 trains its actor against the first of its two critics."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from adaqn.members.selection.types import Selection


def draw(uniforms: Array, epsilon: Array, losses: Array, alive: Array, target: Selection) -> Array:
    """The first non-diverged members; losses and ε_b are ignored."""
    del uniforms, epsilon, losses
    return jnp.argsort(~alive, stable=True)[: target.members.shape[0]].astype(jnp.int32)
