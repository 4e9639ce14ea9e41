"""The target that critics learn from, whatever the value of the next state is made of."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from adaqn.replay.protocol import Batch


def bellman_target(next_value: Array, batch: Batch[Array], discount: Array) -> Array:
    """y = Σ_i γ^i r_i + γ^m V(s'), cut where the episode terminated; V [B] and γ [] are given. [B]"""
    powers = discount ** jnp.arange(batch.rewards.shape[1], dtype=jnp.float32)
    bootstrap = discount**batch.steps * (1.0 - batch.terminated) * next_value
    return (batch.rewards * powers[None, :]).sum(axis=-1) + bootstrap
