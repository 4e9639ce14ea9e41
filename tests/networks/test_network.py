"""One network: its flat vector, its outputs and its initial weights."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import Convolution, Hyperparameters, PaddingName
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


def convolutional(
    convolutions: Sequence[Convolution],
    shape: tuple[int, ...],
    hidden: tuple[int, ...] = (),
    padding: PaddingName = "same",
    scale: float = 1.0,
) -> Network:
    member = Hyperparameters(convolutions=tuple(convolutions), hidden=hidden, activation="tanh", padding=padding)
    return Network(member.architecture, shape, 2, scale)


def sides(size: int, layer: Convolution, padding: PaddingName) -> tuple[int, int]:
    """The output size, and the padding before the image: half of the total padding, rounded down."""
    if padding == "valid":
        return (size - layer.kernel) // layer.stride + 1, 0
    count = math.ceil(size / layer.stride)
    return count, max((count - 1) * layer.stride + layer.kernel - size, 0) // 2


def convolved(x: np.ndarray, kernel: np.ndarray, layer: Convolution, padding: PaddingName) -> np.ndarray:
    """A convolution computed window by window. [B, H, W, C] -> [B, H', W', D]"""
    (height, top), (width, left) = (sides(size, layer, padding) for size in x.shape[1:3])
    zeros = layer.kernel + layer.stride
    padded = np.pad(x, ((0, 0), (top, zeros), (left, zeros), (0, 0)))
    result = np.zeros((len(x), height, width, layer.channels))
    for i, j in itertools.product(range(height), range(width)):
        rows, columns = (slice(n * layer.stride, n * layer.stride + layer.kernel) for n in (i, j))
        result[:, i, j] = np.einsum("bijc,ijcd->bd", padded[:, rows, columns], kernel)
    return result


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("hidden", [(), (7, 3)])
@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        ([Convolution(4, 3, 1)], (5, 6, 2)),
        ([Convolution(3, 4, 2), Convolution(5, 2, 1)], (9, 8, 3)),
        ([Convolution(2, 5, 3), Convolution(4, 3, 2), Convolution(3, 1, 1)], (20, 17, 1)),
    ],
)
def test_outputs_are_those_of_convolutions_in_numpy(
    layers: list[Convolution], shape: tuple[int, ...], hidden: tuple[int, ...], padding: PaddingName
) -> None:
    net = convolutional(layers, shape, hidden, padding)
    rng = np.random.default_rng(1)
    weights = rng.standard_normal(net.size, np.float32)
    images = rng.standard_normal((3, *shape), np.float32)

    rest, x = weights, images
    for layer in layers:
        kernel_shape = (layer.kernel, layer.kernel, x.shape[3], layer.channels)
        kernel, bias, rest = np.split(rest, np.cumsum([math.prod(kernel_shape), layer.channels]))
        x = np.tanh(convolved(x, kernel.reshape(kernel_shape), layer, padding) + bias)
    x = x.reshape(3, -1)  # height by height, then width, then channel
    for i, units in enumerate((*hidden, 2)):
        kernel, bias, rest = np.split(rest, np.cumsum([x.shape[1] * units, units]))
        x = (np.tanh(x) if i else x) @ kernel.reshape(-1, units) + bias

    assert rest.size == 0
    outputs = net.apply(net.unravel(jnp.asarray(weights)), jnp.asarray(images))
    np.testing.assert_allclose(outputs, x, rtol=2e-5, atol=2e-5)


def test_bytes_are_scaled() -> None:
    net = convolutional([Convolution(1, 1, 1)], (1, 2, 1), scale=1 / 255)
    arrays = [jnp.ones((1, 1, 1, 1)), jnp.zeros(1), jnp.eye(2), jnp.asarray([0.0, 2.0])]
    outputs = net.apply(arrays, jnp.asarray([[[[255], [51]]]], jnp.uint8))
    np.testing.assert_allclose(outputs, [[math.tanh(1.0), 2.0 + math.tanh(0.2)]], rtol=1e-6)


def test_images_without_convolutions_are_flattened() -> None:
    net = convolutional([], (2, 1, 2), scale=0.5)
    arrays = [jnp.asarray([[1.0, 0.0], [10.0, 0.0], [100.0, 0.0], [0.0, 1.0]]), jnp.zeros(2)]
    assert net.apply(arrays, jnp.asarray([[[[2, 4]], [[6, 8]]]], jnp.uint8)).tolist() == [[321.0, 4.0]]


def test_shapes_of_the_network_for_atari() -> None:
    layers = [Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1)]
    net = convolutional(layers, (84, 84, 4), (512,), "valid")
    before = ((8, 8, 4, 32), (32,), (4, 4, 32, 64), (64,), (3, 3, 64, 64), (64,))
    after = ((512,), (512, 2), (2,))
    assert net.shapes == (*before, (7 * 7 * 64, 512), *after)
    assert net.structured_shapes == (*before, (7, 7, 64, 512), *after)
    assert convolutional(layers, (84, 84, 4), (512,)).structured_shapes[6] == (11, 11, 64, 512)


def test_the_structured_shape_behind_an_observation_is_that_of_the_observation() -> None:
    assert network((4,)).structured_shapes == network((4,)).shapes == ((3, 4), (4,), (4, 2), (2,))
    assert convolutional([], (5, 6, 3)).structured_shapes == ((5, 6, 3, 2), (2,))
    assert convolutional([], (5, 6, 3)).shapes == ((90, 2), (2,))


def test_with_convolutions_all_kernels_vary_by_their_average_fan_and_biases_are_zero() -> None:
    net = convolutional([Convolution(60, 8, 4)], (16, 16, 4))
    kernel, bias, dense, _ = net.unravel(jnp.asarray(net.init(np.random.default_rng(0))))
    assert not bias.any()
    values = np.asarray(kernel, np.float64).ravel()
    fan = 8 * 8 * (4 + 60) / 2
    assert values.var() * fan == pytest.approx(1.0, rel=4.0 * math.sqrt(1.37 / values.size))
    largest = 2.0 / 0.8796 / math.sqrt(fan)
    assert 0.99 * largest < np.abs(values).max() < 1.001 * largest
    dense_values = np.asarray(dense, np.float64).ravel()
    dense_fan = (4 * 4 * 60 + dense.shape[1]) / 2
    assert dense_values.var() * dense_fan == pytest.approx(1.0, rel=4.0 * math.sqrt(1.37 / dense_values.size))


@pytest.mark.parametrize("shape", [(4,), (4, 4), (2, 4, 4, 1)])
def test_convolutions_need_image_observations(shape: tuple[int, ...]) -> None:
    sentence = (
        f"convolutions need image observations of shape (height, width, channels), but these have the shape {shape}"
    )
    with pytest.raises(UserError, match=f"^{re.escape(sentence)}$"):
        convolutional([Convolution(8, 3, 1)], shape)


@pytest.mark.parametrize(("shape", "given"), [((7, 9, 1), "2 x 3"), ((9, 7, 1), "3 x 2")])
def test_an_image_that_shrinks_below_the_kernel_is_an_error(shape: tuple[int, ...], given: str) -> None:
    # Every two pixels, a window of four fits three times into eight or nine pixels and twice into seven.
    layers = [Convolution(2, 4, 2), Convolution(2, 1, 1), Convolution(2, 3, 1)]
    assert convolutional(layers, (8, 9, 1), padding="valid").images[-1] == (1, 1, 2)
    sentence = (
        f"a convolution with padding 'valid' needs an image of at least its kernel, 3 x 3, but its input is {given}"
    )
    with pytest.raises(UserError, match=f"^{sentence}$"):
        convolutional(layers, shape, padding="valid")
