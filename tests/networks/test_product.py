from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.networks.convolution import product


@pytest.mark.parametrize(("batch", "inputs", "units"), [(2, 3, 4), (3, 3, 2), (5, 2, 3), (1, 1, 1)])
def test_gradients_are_those_of_a_matrix_product(batch: int, inputs: int, units: int) -> None:
    # Whole numbers, so that no order of summation rounds.
    rng = np.random.default_rng(0)
    x, kernel, weights = (
        rng.integers(-9, 9, shape).astype(np.float32) for shape in ((batch, inputs), (inputs, units), (batch, units))
    )
    value, pull_back = jax.vjp(product, x, kernel)
    assert (np.asarray(value) == x @ kernel).all()
    of_x, of_kernel = pull_back(jnp.asarray(weights))
    assert (np.asarray(of_x) == weights @ kernel.T).all()
    assert (np.asarray(of_kernel) == x.T @ weights).all()


@pytest.mark.parametrize("batch", [2, 8])
def test_members_of_a_group_have_the_gradients_of_each_one(batch: int) -> None:
    rng = np.random.default_rng(1)
    x, kernels = rng.integers(-9, 9, (batch, 4)), rng.integers(-9, 9, (3, 4, 5))
    x, kernels = x.astype(np.float32), kernels.astype(np.float32)

    def squares(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return (product(x, kernel) ** 2).sum()

    of_x, of_kernel = jax.vmap(jax.grad(squares, argnums=(0, 1)), in_axes=(None, 0))(x, kernels)
    for k in range(3):
        twice = 2.0 * (x @ kernels[k])
        assert (np.asarray(of_x)[k] == twice @ kernels[k].T).all()
        assert (np.asarray(of_kernel)[k] == x.T @ twice).all()


def test_a_gradient_can_be_differentiated_again() -> None:
    x, kernel = jnp.asarray([[2.0, 3.0]]), jnp.asarray([[5.0], [7.0]])

    # d/dx (x w)^2 = 2 (x w) w = 2 * 31 * (5, 7); their sum is 24 (x w), whose gradient is 24 w.
    def slopes(x: jax.Array) -> jax.Array:
        return jax.grad(lambda x: (product(x, kernel) ** 2).sum())(x).sum()

    assert float(slopes(x)) == 744.0
    assert np.asarray(jax.grad(slopes)(x)).tolist() == [[120.0, 168.0]]
