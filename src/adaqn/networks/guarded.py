"""A step of an optimizer that is taken or not, decided inside its own pass over the parameters.

Choosing afterwards between the new state and the old one keeps both alive, and XLA then copies every moment. Here the
choice is made where a moment is computed, and what follows reads the chosen one: each array is updated in its place.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.extend import core


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
