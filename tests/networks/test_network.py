"""One network: its flat vector, its outputs and its initial weights."""

from __future__ import annotations

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.errors import UserError
from adaqn.hyperparameters import Convolution, Hyperparameters
from adaqn.networks.network import Network


def network(hidden: tuple[int, ...], shape: tuple[int, ...] = (3,), outputs: int = 2) -> Network:
    return Network(Hyperparameters(hidden=hidden, activation="tanh").architecture, shape, outputs)


def test_the_flat_vector_holds_kernel_and_bias_of_each_layer_in_turn() -> None:
    net = network((4,))
    arrays = net.unravel(jnp.arange(26.0))
    assert net.size == 26
    assert arrays[0].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert arrays[1].tolist() == [12, 13, 14, 15]
    assert arrays[2].tolist() == [[16, 17], [18, 19], [20, 21], [22, 23]]
    assert arrays[3].tolist() == [24, 25]


@pytest.mark.parametrize("hidden", [(), (5,), (7, 3, 4)])
def test_ravel_and_unravel_are_inverse(hidden: tuple[int, ...]) -> None:
    net = network(hidden)
    flat = jnp.asarray(np.random.default_rng(0).standard_normal(net.size, np.float32))
    assert net.ravel(net.unravel(flat)).tolist() == flat.tolist()


@pytest.mark.parametrize("hidden", [(), (5,), (7, 3, 4)])
@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_outputs_are_those_of_a_perceptron_in_numpy(hidden: tuple[int, ...], shape: tuple[int, ...]) -> None:
    net = network(hidden, shape)
    rng = np.random.default_rng(1)
    weights = rng.standard_normal(net.size, np.float32)
    observations = rng.standard_normal((6, *shape), np.float32)

    widths = [math.prod(shape), *hidden, 2]
    x, start = observations.reshape(6, -1), 0
    for layer, (fan_in, units) in enumerate(itertools.pairwise(widths)):
        kernel = weights[start : start + fan_in * units].reshape(fan_in, units)
        bias = weights[start + fan_in * units : start + (fan_in + 1) * units]
        start += (fan_in + 1) * units
        x = (np.tanh(x) if layer else x) @ kernel + bias

    assert start == net.size
    np.testing.assert_allclose(
        net.apply(net.unravel(jnp.asarray(weights)), jnp.asarray(observations)), x, rtol=2e-5, atol=2e-6
    )


def test_observations_may_be_whole_numbers() -> None:
    net = network(())
    arrays = [jnp.asarray([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), jnp.asarray([0.25, 0.0])]
    assert net.apply(arrays, jnp.asarray([[200, 100, 3]], jnp.uint8)).tolist() == [[201.75, 101.5]]


def test_kernels_are_lecun_normal_and_biases_zero() -> None:
    net = network((400,), shape=(100,), outputs=300)
    first, first_bias, second, second_bias = net.unravel(jnp.asarray(net.init(np.random.default_rng(0))))
    assert not first_bias.any()
    assert not second_bias.any()
    for kernel, fan_in in ((first, 100), (second, 400)):
        values = np.asarray(kernel, np.float64).ravel()
        count = values.size
        # Of a normal distribution cut at two deviations, the mean of the fourth powers is 2.37 variances squared,
        # so four deviations of the estimated variance are 4 * sqrt(1.37 / count) of it.
        assert values.var() * fan_in == pytest.approx(1.0, rel=4.0 * math.sqrt(1.37 / count))
        assert abs(values.mean()) < 4.0 / math.sqrt(fan_in * count)
        # Cut at two deviations of the uncut distribution, which is 1 / 0.8796 as wide; and filled up to there.
        largest = 2.0 / 0.8796 / math.sqrt(fan_in)
        assert 0.99 * largest < np.abs(values).max() < 1.001 * largest


def test_initial_weights_follow_the_generator() -> None:
    net = network((4,))
    first, again, other = (net.init(np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert first.tolist() == again.tolist()
    assert (first != other).sum() == 20  # all but the six biases


def test_convolutions_on_vectors_are_told() -> None:
    member = Hyperparameters(convolutions=(Convolution(8, 3, 1),))
    with pytest.raises(UserError, match="convolutions are for image observations, which are not supported yet"):
        Network(member.architecture, (4,), 2)
