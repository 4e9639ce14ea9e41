"""The optimizers of the paper's search space by name, built inside the compiled step with traced numbers."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.extend import core

from adaqn.members.hyperparameters import Hyperparameters, numeric_options, unknown_option

# These depend on whole tensors (norms, factored moments, covers), so they need the network's arrays; all others are
# element-wise and can work on one flat vector, which is faster.
_BY_TENSOR = {"adafactor", "fromage", "lamb", "lars", "novograd", "sm3"}


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
    draws = "key" in inspect.signature(build).parameters
    return OptimizerSpec(build, numeric_options(name), elementwise=name not in _BY_TENSOR, draws=draws)


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


def guarded_step(
    optimizer: optax.GradientTransformation, gradient: Any, state: Any, parameters: Any, taken: Array
) -> tuple[Any, Any]:
    """The parameters and the state after a step, or both as they were where `taken` [] is False."""
    closed, shapes = jax.make_jaxpr(optimizer.update, return_shape=True)(gradient, state, parameters)
    program, old = closed.jaxpr, jax.tree.leaves(state)
    following = program.outvars[-len(old) :] if old else []
    made = {var for equation in program.eqns for var in equation.outvars}
    computed = [(var, was) for var, was in zip(following, old, strict=True) if isinstance(var, core.Var)]
    often = Counter(var for var, _ in computed)
    chosen = {var: was for var, was in computed if var in made and often[var] == 1}  # the others are chosen at the end

    values: dict[Any, Any] = dict(zip(program.constvars, closed.consts, strict=True))
    values |= zip(program.invars, jax.tree.leaves((gradient, state, parameters)), strict=True)

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else values[atom]

    for equation in program.eqns:
        bound = equation.primitive.get_bind_params(equation.params)
        functions, options = bound if isinstance(bound, tuple) else ((), bound)  # until JAX 0.9, and since
        found = equation.primitive.bind(*functions, *map(read, equation.invars), **options)
        results = found if equation.primitive.multiple_results else [found]
        for var, value in zip(equation.outvars, results, strict=True):
            values[var] = _chosen(taken, value, chosen[var]) if var in chosen else value

    change, next_state = jax.tree.unflatten(jax.tree.structure(shapes), [read(atom) for atom in program.outvars])
    done = {id(values[var]) for var in chosen}
    kept = [
        new if id(new) in done or new is was else jnp.where(taken, new, was)
        for new, was in zip(jax.tree.leaves(next_state), old, strict=True)
    ]
    moved = jax.tree.map(
        lambda new, was: jnp.where(taken, new, was), optax.apply_updates(parameters, change), parameters
    )
    return moved, jax.tree.unflatten(jax.tree.structure(state), kept)


def _chosen(taken: Array, new: Array, old: Array) -> Array:
    value = jnp.where(taken, new, old)
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return value
    # Without the barrier, XLA would compute the new value a second time from the old one wherever it is used, and so
    # keep the old one.
    return jax.lax.optimization_barrier(value)
