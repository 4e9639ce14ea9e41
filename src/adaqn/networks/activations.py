"""The activation functions of the paper's search space, by name. Those that normalise do so over the last axis."""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax import Array

ACTIVATION_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "celu": jax.nn.celu,
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
    "hard_sigmoid": jax.nn.hard_sigmoid,
    "hard_silu": jax.nn.hard_silu,
    "hard_tanh": jax.nn.hard_tanh,
    "leaky_relu": jax.nn.leaky_relu,
    "log_sigmoid": jax.nn.log_sigmoid,
    "log_softmax": jax.nn.log_softmax,
    "relu": jax.nn.relu,
    "selu": jax.nn.selu,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "soft_sign": jax.nn.soft_sign,
    "softmax": jax.nn.softmax,
    "softplus": jax.nn.softplus,
    "standardize": jax.nn.standardize,
    "tanh": jax.numpy.tanh,
}
