"""The optimizers of the paper's search space by name, built inside the compiled step with traced numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from adaqn.hyperparameters import OPTIMIZERS, Hyperparameters, unknown_option

# These depend on whole tensors (norms, factored moments, covers), so they need the network's arrays; all others are
# element-wise and can work on one flat vector, which is faster.
_BY_TENSOR = {"adafactor", "fromage", "lamb", "lars", "novograd", "sm3"}
# Options whose default is None, not a number: setting them adds a term to the optimizer.
_OFF_BY_DEFAULT = {"adafactor": ("momentum",), "rmsprop": ("momentum",), "sgd": ("momentum",)}


class OptimizerSpec(NamedTuple):
    """An optimizer that is built from its learning rate and numeric options."""

    build: Callable[..., optax.GradientTransformation]
    options: tuple[str, ...]  # names of its numeric options
    elementwise: bool  # updates every weight independently
    draws: bool  # has a random key in its state


@cache
def optimizer_spec(name: str) -> OptimizerSpec:
    """Look up an optimizer and its options by name."""
    build = getattr(optax, name)
    parameters = inspect.signature(build).parameters.values()
    numbers = tuple(p.name for p in parameters if type(p.default) is float)
    draws = "key" in inspect.signature(build).parameters
    return OptimizerSpec(
        build, numbers + _OFF_BY_DEFAULT.get(name, ()), elementwise=name not in _BY_TENSOR, draws=draws
    )


def build_optimizer(
    name: str, learning_rate: Array | float, options: Mapping[str, Any], key: Array | int = 0
) -> optax.GradientTransformation:
    """Build an optimizer; its numbers may be traced, and `key` seeds stochastic optimizers.

    With the option `max_grad_norm`, the gradient is clipped before the optimizer gets it.
    """
    spec = optimizer_spec(name)
    extra = {"key": key} if spec.draws else {}
    own = {option: value for option, value in options.items() if option != "max_grad_norm"}
    optimizer = spec.build(learning_rate, **own, **extra)
    return clipped(optimizer, options["max_grad_norm"]) if "max_grad_norm" in options else optimizer


def clipped(optimizer: optax.GradientTransformation, max_norm: Array | float) -> optax.GradientTransformation:
    """The optimizer with gradients scaled down to at most this global norm; its state is the same."""

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        norm = jnp.sqrt(sum(jnp.square(part).sum() for part in jax.tree.leaves(updates)))
        scaled = jax.tree.map(lambda part: part * (max_norm / jnp.maximum(norm, max_norm)), updates)
        return optimizer.update(scaled, state, params)

    return optax.GradientTransformation(optimizer.init, update)


def check_options(member: Hyperparameters) -> None:
    """Raise if a member sets an option that its optimizer does not have."""
    allowed = optimizer_spec(member.optimizer).options
    for name, _ in member.optimizer_options:
        if name not in allowed:
            raise unknown_option(member.optimizer, name, allowed)


__all__ = ["OPTIMIZERS", "OptimizerSpec", "build_optimizer", "check_options", "clipped", "optimizer_spec"]
