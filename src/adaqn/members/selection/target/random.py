"""RandDQN and RandSAC, the paper's ablation: distinct members drawn uniformly, regardless of their losses."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from adaqn.members.selection.types import Selection


def select(uniforms: Array, losses: Array, alive: Array, size: int) -> Selection:
    """`size` distinct non-diverged members, drawn uniformly."""
    del losses
    order = jnp.argsort(jnp.where(alive, uniforms, jnp.inf))
    return Selection(order[:size].astype(jnp.int32), jnp.full(size, 1.0 / size, jnp.float32))
