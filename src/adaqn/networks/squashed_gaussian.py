"""SAC's policy: a normal distribution squashed into (-1, 1) by tanh."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

LOG_STD_LOWEST, LOG_STD_HIGHEST = -20.0, 2.0


class SquashedSample(NamedTuple):
    """Sampled actions and their log-probabilities."""

    action: Array  # [B, A] in (-1, 1)
    log_probability: Array  # [B]


def sample(outputs: Array, noise: Array) -> SquashedSample:
    """Sample actions with standard normal noise; `outputs` [B, 2A] are means and log standard deviations."""
    mean, log_std = jnp.split(outputs, 2, axis=-1)
    log_std = jnp.clip(log_std, LOG_STD_LOWEST, LOG_STD_HIGHEST)
    before = mean + jnp.exp(log_std) * noise
    return SquashedSample(jnp.tanh(before), log_probability(before, noise, log_std))


def log_probability(before: Array, noise: Array, log_std: Array) -> Array:
    """log π(tanh u) for u = mean + std * noise. [B, A] each -> [B]

    The density of u is divided by the derivative of tanh, 1 - tanh²u. Its logarithm is computed as
    2 (log 2 - u - softplus(-2u)), which is exact even if tanh u rounds to one.
    """
    gaussian = -0.5 * jnp.square(noise) - log_std - 0.5 * math.log(2.0 * math.pi)
    squash = 2.0 * (math.log(2.0) - before - jax.nn.softplus(-2.0 * before))
    return (gaussian - squash).sum(axis=-1)


def mode(outputs: Array) -> Array:
    """The action without noise. [B, 2A] -> [B, A]"""
    return jnp.tanh(jnp.split(outputs, 2, axis=-1)[0])
