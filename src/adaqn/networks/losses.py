"""Training losses as functions of the error e = prediction - target of one sample."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array


def l2(error: Array) -> Array:
    """½ e²; members are always compared by this loss, whichever loss they are trained with."""
    return 0.5 * jnp.square(error)


def l1(error: Array) -> Array:
    """|e|."""
    return jnp.abs(error)


def huber(error: Array) -> Array:
    """½ e² up to |e| = 1, |e| - ½ beyond."""
    size = jnp.abs(error)
    inner = jnp.minimum(size, 1.0)
    return 0.5 * jnp.square(inner) + (size - inner)


def log_cosh(error: Array) -> Array:
    """log cosh e, in a form that does not overflow."""
    size = jnp.abs(error)
    return size + jax.nn.softplus(-2.0 * size) - math.log(2.0)


LOSS_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "huber": huber,
    "l1": l1,
    "l2": l2,
    "log_cosh": log_cosh,
}
