"""A guarded step is the optimizer's own where it is taken, and nothing at all where it is not."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from adaqn.members.hyperparameters import OPTIMIZERS
from adaqn.networks.optimizers import build_optimizer, guarded_step, optimizer_spec


def arrays(tree: Any) -> list[np.ndarray]:
    return [
        np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)
        for leaf in jax.tree.leaves(tree)
    ]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_steps_or_stays(name: str) -> None:
    rng = np.random.default_rng(0)
    draws = [jnp.asarray(rng.standard_normal((4, 3)), jnp.float32) for _ in range(3)]
    parameters = draws[0][0] if optimizer_spec(name).elementwise else [draws[0]]
    gradients = [g[0] if optimizer_spec(name).elementwise else [g] for g in draws[1:]]
    key = jax.random.key(0)

    @jax.jit
    def plain(gradient: Any, state: Any, parameters: Any) -> Any:
        optimizer = build_optimizer(name, jnp.float32(0.1), {}, key)
        change, state = optimizer.update(gradient, state, parameters)
        return optax.apply_updates(parameters, change), state

    @jax.jit
    def guarded(gradient: Any, state: Any, parameters: Any, taken: Any) -> Any:
        return guarded_step(build_optimizer(name, jnp.float32(0.1), {}, key), gradient, state, parameters, taken)

    state = build_optimizer(name, jnp.float32(0.1), {}, key).init(parameters)
    for gradient in gradients:
        expected = plain(gradient, state, parameters)
        stepped = guarded(gradient, state, parameters, True)
        assert jax.tree.structure(stepped) == jax.tree.structure(expected)
        for one, other in zip(arrays(stepped), arrays(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
        infinite = jax.tree.map(lambda g: jnp.full_like(g, jnp.nan), gradient)
        stayed = guarded(infinite, state, parameters, False)
        for one, other in zip(arrays(stayed), arrays((parameters, state)), strict=True):
            assert one.tobytes() == other.tobytes()
        # Of some, the first step only moves the state.
        assert any(a.tobytes() != b.tobytes() for a, b in zip(arrays(expected), arrays(stayed), strict=True))
        parameters, state = expected


def test_no_moment_is_copied() -> None:
    def step(state: Any, inputs: jax.Array, guard: Any) -> Any:
        parameters, moments = state
        gradient = jax.grad(lambda p: jnp.mean((inputs @ p[:900].reshape(30, 30)) ** 2) + (p**2).sum())(parameters)
        return guard(optax.adam(1e-3), gradient, moments, parameters, jnp.isfinite(inputs).all())

    def afterwards(optimizer: Any, gradient: Any, state: Any, parameters: Any, taken: Any) -> Any:
        change, following = optimizer.update(gradient, state, parameters)
        new = optax.apply_updates(parameters, change), following
        return jax.tree.map(lambda one, other: jnp.where(taken, one, other), new, (parameters, state))

    def copies(guard: Any) -> int:
        parameters = jnp.zeros(1000)
        given = (parameters, optax.adam(1e-3).init(parameters)), np.zeros((4, 30), np.float32)
        program = jax.jit(step, donate_argnums=0, static_argnums=2).lower(*given, guard).compile().as_text()
        return len(re.findall(r"f32\[1000\]\S* copy\(", program or ""))

    assert copies(guarded_step) == 0
    assert copies(afterwards) > 0, "there is nothing to be gained any more"
