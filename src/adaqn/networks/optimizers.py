"""The optimizers of the paper's search space, by name, built inside the compiled step with traced numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import optax
from jax import Array

from adaqn.hyperparameters import OPTIMIZERS, Hyperparameters, unknown_option

# These look at whole tensors (norms, factored moments, covers), so they must see the network's arrays as they are;
# all others work on every weight by itself and may be given one flat vector, which is faster.
_BY_TENSOR = {"adafactor", "fromage", "lamb", "lars", "novograd", "sm3"}
# Options without a number as their default: setting them adds a term to the optimizer.
_OFF_BY_DEFAULT = {"adafactor": ("momentum",), "rmsprop": ("momentum",), "sgd": ("momentum",)}


class OptimizerSpec(NamedTuple):
    """An optimizer that can be built from its learning rate and the numbers of some options."""

    build: Callable[..., optax.GradientTransformation]
    options: tuple[str, ...]  # names of the numbers that may be set
    elementwise: bool  # treats every weight by itself
    draws: bool  # carries a random key of its own


@cache
def optimizer_spec(name: str) -> OptimizerSpec:
    """What there is to know about an optimizer."""
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
    """The optimizer with these numbers, which may be traced; `key` begins the state of those that draw."""
    spec = optimizer_spec(name)
    extra = {"key": key} if spec.draws else {}
    return spec.build(learning_rate, **options, **extra)


def check_options(member: Hyperparameters) -> None:
    """Raise if a member sets an option that its optimizer does not have."""
    allowed = optimizer_spec(member.optimizer).options
    for name, _ in member.optimizer_options:
        if name not in allowed:
            raise unknown_option(member.optimizer, name, allowed)


__all__ = ["OPTIMIZERS", "OptimizerSpec", "build_optimizer", "check_options", "optimizer_spec"]
