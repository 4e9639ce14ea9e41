"""The categorical value head HL-Gauss (Farebrother et al., 2024, "Stop Regressing: Training Value Functions via
Classification for Scalable Deep RL").

A value is the expectation of a histogram over m equal bins, Σ_i p_i z_i with p = softmax(logits) and the centres z of
the bins. A target y becomes a histogram too, the normal distribution N(y, σ²) integrated over every bin, and the head
is trained by the cross-entropy between the two. So it needs only a scalar target, as all other members do.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.members.hyperparameters import Support

DEVIATION = 0.75  # σ in widths of a bin, as in the paper


def bin_edges(support: Support) -> np.ndarray:
    """The borders of the bins. [m + 1]"""
    return np.linspace(support.low, support.high, support.bins + 1)


def bin_centres(support: Support) -> np.ndarray:
    """The value z that each bin stands for. [m]"""
    edges = bin_edges(support)
    return 0.5 * (edges[:-1] + edges[1:])


def histogram(support: Support, target: Array) -> Array:
    """The masses of N(y, σ²) in the bins, divided by their sum; y is clipped to the support. [...] -> [..., m]

    At least half of the distribution is within the support, so the sum is never small. No gradient passes through y.
    """
    edges = _last_axis(bin_edges(support), target.ndim + 1)
    deviation = DEVIATION * (support.high - support.low) / support.bins
    y = jnp.clip(jax.lax.stop_gradient(target), support.low, support.high)
    # Twice the cumulative distribution, up to a constant; both cancel in the quotient.
    cumulated = jax.lax.erf((edges - y[..., None]) / (math.sqrt(2.0) * deviation))
    return jnp.diff(cumulated) / (cumulated[..., -1:] - cumulated[..., :1])


def cross_entropy(logits: Array, masses: Array) -> Array:
    """-Σ_i q_i log p_i of a histogram q, given the logits of p. [..., m] -> [...]"""
    return -(masses * jax.nn.log_softmax(logits)).sum(axis=-1)


def expectation(support: Support, logits: Array) -> Array:
    """The value Σ_i p_i z_i. [..., m] -> [...]"""
    return (jax.nn.softmax(logits) * _last_axis(bin_centres(support), logits.ndim)).sum(axis=-1)


def _last_axis(numbers: np.ndarray, dimensions: int) -> Array:
    """A vector as the last axis of an array with so many dimensions."""
    return jnp.asarray(numbers.reshape((1,) * (dimensions - 1) + numbers.shape), jnp.float32)
