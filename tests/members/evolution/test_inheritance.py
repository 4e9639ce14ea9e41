"""A child keeps every weight that it shares with its parent, and its outputs follow from that."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaqn.members.hyperparameters import Convolution, Hyperparameters, PaddingName
from adaqn.networks.inheritance import inherit
from adaqn.networks.network import Network

IMAGE, OUTPUTS = (7, 6, 2), 3


def network(
    hidden: Sequence[int],
    convolutions: Sequence[Convolution] = (),
    shape: tuple[int, ...] = IMAGE,
    padding: PaddingName = "same",
) -> Network:
    member = Hyperparameters(hidden=tuple(hidden), convolutions=tuple(convolutions), padding=padding)
    return Network(member.architecture, shape, OUTPUTS)


def weights(net: Network, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(net.size, np.float32)


def outputs(net: Network, flat: np.ndarray) -> np.ndarray:
    observations = np.random.default_rng(9).standard_normal((5, *net.observation_shape), np.float32)
    return np.asarray(net.apply(net.unravel(jnp.asarray(flat)), jnp.asarray(observations)))


def arrays_of(net: Network, flat: np.ndarray) -> list[np.ndarray]:
    return [np.array(array) for array in net.unravel(jnp.asarray(flat))]


def flattened(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([array.ravel() for array in arrays])


ATARI_LIKE = (Convolution(4, 3, 2), Convolution(3, 2, 1))


@pytest.mark.parametrize("convolutions", [(), ATARI_LIKE])
@pytest.mark.parametrize("hidden", [(), (5,), (5, 4)])
def test_the_same_architecture_keeps_all(hidden: tuple[int, ...], convolutions: tuple[Convolution, ...]) -> None:
    net = network(hidden, convolutions)
    parent = weights(net)
    assert inherit(net, parent, net, weights(net, 1)).tolist() == parent.tolist()


def test_a_wider_layer_by_hand() -> None:
    old, new = network((2,), shape=(2,)), network((3,), shape=(2,))
    # Kernel [2, 2], bias [2], kernel [2, 3], bias [3]; the child has [2, 3], [3], [3, 3], [3].
    child = inherit(old, np.arange(1.0, 16.0), new, -np.arange(1.0, 22.0))
    assert child.tolist() == [
        *(1, 2, -3),
        *(3, 4, -6),
        *(5, 6, -9),
        *(7, 8, 9),
        *(10, 11, 12),
        *(-16, -17, -18),
        *(13, 14, 15),
    ]


def test_a_narrower_layer_by_hand() -> None:
    old, new = network((3,), shape=(2,)), network((2,), shape=(2,))
    child = inherit(old, np.arange(1.0, 22.0), new, -np.arange(1.0, 16.0))
    assert child.tolist() == [*(1, 2), *(4, 5), *(7, 8), *(10, 11, 12), *(13, 14, 15), *(19, 20, 21)]


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("layer", [0, 1])
def test_channels_that_start_at_zero_change_no_output(layer: int, padding: PaddingName) -> None:
    wider = [Convolution(c.channels + 2 * (i == layer), c.kernel, c.stride) for i, c in enumerate(ATARI_LIKE)]
    old, new = network((5,), ATARI_LIKE, padding=padding), network((5,), wider, padding=padding)
    parent = weights(old)
    child = inherit(old, parent, new, np.zeros(new.size, np.float32))
    assert np.count_nonzero(child) == old.size
    np.testing.assert_allclose(outputs(new, child), outputs(old, parent), rtol=1e-5, atol=1e-6)


def test_channels_that_are_cut_leave_the_others_where_they_were() -> None:
    narrower = [ATARI_LIKE[0], Convolution(2, 2, 1)]
    old, new = network((5,), ATARI_LIKE), network((5,), narrower)
    parent = weights(old)
    # The parent without its last channel: no unit behind the flattening listens to it.
    deaf = arrays_of(old, parent)
    deaf[4].reshape(4, 3, 3, 5)[:, :, 2] = 0.0
    child = inherit(old, parent, new, weights(new, 1))
    np.testing.assert_allclose(outputs(new, child), outputs(old, flattened(deaf)), rtol=1e-5, atol=1e-6)


def test_units_that_start_at_zero_change_no_output() -> None:
    old, new = network((5, 4), ATARI_LIKE), network((9, 6), ATARI_LIKE)
    parent = weights(old)
    child = inherit(old, parent, new, np.zeros(new.size, np.float32))
    np.testing.assert_allclose(outputs(new, child), outputs(old, parent), rtol=1e-5, atol=1e-6)


def test_an_added_hidden_layer_comes_before_the_output_layer() -> None:
    old, new = network((5,), ATARI_LIKE), network((5, 5), ATARI_LIKE)
    fresh = arrays_of(new, np.zeros(new.size, np.float32))
    fresh[6][:] = np.eye(5)  # passes on what is behind a relu
    parent = weights(old)
    child = inherit(old, parent, new, flattened(fresh))
    np.testing.assert_allclose(outputs(new, child), outputs(old, parent), rtol=1e-5, atol=1e-6)


def test_an_added_convolution_comes_before_the_flattening() -> None:
    old, new = network((5,), ATARI_LIKE), network((5,), [*ATARI_LIKE, Convolution(3, 1, 1)])
    fresh = arrays_of(new, np.zeros(new.size, np.float32))
    fresh[4][:] = np.eye(3)[None, None]
    parent = weights(old)
    child = inherit(old, parent, new, flattened(fresh))
    np.testing.assert_allclose(outputs(new, child), outputs(old, parent), rtol=1e-5, atol=1e-6)


def test_a_removed_hidden_layer_leaves_the_output_layer_to_the_output_layer() -> None:
    old, new = network((5, 4), shape=(2,)), network((5,), shape=(2,))
    parent, fresh = weights(old), weights(new, 1)
    of_parent, of_fresh, of_child = (
        arrays_of(*pair) for pair in ((old, parent), (new, fresh), (new, inherit(old, parent, new, fresh)))
    )
    for one, other in zip(of_child[:2], of_parent[:2], strict=True):
        assert one.tolist() == other.tolist()
    assert of_child[2].tolist() == [*of_parent[4].tolist(), of_fresh[2][4].tolist()]
    assert of_child[3].tolist() == of_parent[5].tolist()


def test_behind_an_image_of_another_size_every_pixel_keeps_its_weights() -> None:
    # A stride of 1 instead of 2 turns the image before the flattening from 4 x 3 into 7 x 6.
    old, new = network((5,), [Convolution(4, 3, 2)]), network((5,), [Convolution(4, 3, 1)])
    parent, fresh = weights(old), weights(new, 1)
    dense = arrays_of(new, inherit(old, parent, new, fresh))[2].reshape(7, 6, 4, 5)
    assert dense[:4, :3].tolist() == arrays_of(old, parent)[2].reshape(4, 3, 4, 5).tolist()
    fresh_dense = arrays_of(new, fresh)[2].reshape(7, 6, 4, 5)
    assert dense[4:].tolist() == fresh_dense[4:].tolist()
    assert dense[:, 3:].tolist() == fresh_dense[:, 3:].tolist()


def test_the_upper_left_corner_of_a_kernel_is_kept() -> None:
    old, new = network((), [Convolution(1, 2, 1)], (3, 3, 1)), network((), [Convolution(1, 3, 1)], (3, 3, 1))
    child = inherit(old, np.arange(1.0, old.size + 1), new, np.zeros(new.size))
    assert child[:9].tolist() == [1, 2, 0, 3, 4, 0, 0, 0, 0]
    back = inherit(new, np.arange(1.0, new.size + 1), old, np.zeros(old.size))
    assert back[:4].tolist() == [1, 2, 4, 5]


def test_parent_and_fresh_weights_are_left_alone() -> None:
    old, new = network((5,), ATARI_LIKE), network((6,), ATARI_LIKE)
    parent, fresh = weights(old), weights(new, 1)
    parent.setflags(write=False)
    fresh.setflags(write=False)
    for net in (old, new):
        child = inherit(old, parent, net, fresh if net is new else parent)
        assert not np.shares_memory(child, parent)
        assert not np.shares_memory(child, fresh)
        assert child.flags.writeable
        assert child.dtype == np.float32


def test_weights_of_another_network_are_refused() -> None:
    old, new = network((5,)), network((6,))
    with pytest.raises(ValueError, match=f"the network has {new.size} parameters, but got an array of shape"):
        inherit(old, weights(old), new, weights(old))
    with pytest.raises(ValueError, match=f"the network has {old.size} parameters, but got an array of shape"):
        inherit(old, weights(new), new, weights(new))


# Networks here read two numbers and have three values. With four hidden units, their parameters are kernel [2, 4],
# bias [4], kernel [4, 3] and bias [3]; without any, kernel [2, 3] and bias [3].
def test_an_output_layer_that_comes_to_read_the_observation_by_hand() -> None:
    child = inherit(network((4,), shape=(2,)), np.arange(1.0, 28.0), network((), shape=(2,)), -np.arange(1.0, 10.0))
    assert child.tolist() == [*(-1, -2, -3), *(-4, -5, -6), *(25, 26, 27)]


def test_an_output_layer_that_comes_to_read_hidden_units_by_hand() -> None:
    child = inherit(network((), shape=(2,)), np.arange(1.0, 10.0), network((4,), shape=(2,)), -np.arange(1.0, 28.0))
    assert child.tolist() == [*range(-1, -25, -1), *(7, 8, 9)]


def test_another_hidden_layer_by_hand() -> None:
    one, two = network((4,), shape=(2,)), network((4, 4), shape=(2,))
    # Kernel [2, 4], bias [4], kernel [4, 4], bias [4], kernel [4, 3], bias [3]: the third and fourth are new, and the
    # output layer reads hidden units as before.
    deeper = inherit(one, np.arange(1.0, 28.0), two, -np.arange(1.0, 48.0))
    assert deeper.tolist() == [*range(1, 13), *range(-13, -33, -1), *range(13, 28)]
    flatter = inherit(two, np.arange(1.0, 48.0), one, -np.arange(1.0, 28.0))
    assert flatter.tolist() == [*range(1, 13), *range(33, 48)]


@pytest.mark.parametrize("hidden", [(), (2,)])
def test_without_its_convolutions_a_network_reads_pixels_with_new_weights_by_hand(hidden: tuple[int, ...]) -> None:
    # The convolution does not change the size of the image, and has as many channels: nothing tells the kernels apart
    # but what they read.
    shape = (2, 1, 1)
    none, some = network(hidden, shape=shape), network(hidden, [Convolution(1, 1, 1)], shape)
    behind = none.size - 2 * (hidden or (3,))[0]  # all but the kernel that reads the two pixels
    parent, fresh = np.arange(1.0, some.size + 1), -np.arange(1.0, none.size + 1)
    child = inherit(some, parent, none, fresh)
    assert child.tolist() == [*fresh[:-behind], *parent[-behind:]]
    parent, fresh = np.arange(1.0, none.size + 1), -np.arange(1.0, some.size + 1)
    child = inherit(none, parent, some, fresh)
    assert child.tolist() == [*fresh[:-behind], *parent[-behind:]]


def test_a_removed_convolution_leaves_the_kernel_behind_the_flattening_by_hand() -> None:
    # The image stays 2 x 1, and what is flattened has one channel instead of two: of the kernel [2, 1, 2, 1] every
    # other weight is kept, and not the first two.
    shape, one, two = (2, 1, 1), Convolution(1, 1, 1), Convolution(2, 1, 1)
    old, new = network((1,), [one, two], shape), network((1,), [one], shape)
    # Convolutions of 1 + 1 and 2 + 2 parameters, a hidden layer of 4 + 1, and an output layer of 3 + 3.
    child = inherit(old, np.arange(1.0, 18.0), new, -np.arange(1.0, 12.0))
    assert child.tolist() == [1, 2, 7, 9, *range(11, 18)]


@st.composite
def networks(draw: st.DrawFn) -> Network:
    sizes = st.integers(1, 3)
    layer = st.builds(Convolution, channels=sizes, kernel=sizes, stride=st.integers(1, 2))
    convolutions = draw(st.lists(layer, max_size=2))
    return network(draw(st.lists(sizes, max_size=2)), convolutions, (4, 3, 2), "same")


def perceptrons() -> st.SearchStrategy[Network]:
    return st.builds(network, st.lists(st.integers(1, 4), max_size=3), shape=st.just((2,)))


def entries(net: Network) -> Iterator[tuple[object, ...]]:
    """The name of every parameter in the order of the flat vector: kind and number of its layer, and its index."""
    if len(net.observation_shape) == 1:
        yield from dense_entries(net, [("observation", i) for i in range(net.observation_shape[0])])
        return
    height, width, channels = net.observation_shape
    for i, layer in enumerate(net.architecture.convolutions):
        window = (range(layer.kernel), range(layer.kernel), range(channels), range(layer.channels))
        yield from (("convolution kernel", i, index) for index in itertools.product(*window))
        yield from (("convolution bias", i, d) for d in range(layer.channels))
        height, width = math.ceil(height / layer.stride), math.ceil(width / layer.stride)
        channels = layer.channels
    read = "channels" if net.architecture.convolutions else "observation"
    yield from dense_entries(net, list(itertools.product([read], range(height), range(width), range(channels))))


def dense_entries(net: Network, inputs: Sequence[tuple[object, ...]]) -> Iterator[tuple[object, ...]]:
    for i, units in enumerate(net.architecture.hidden):
        yield from (("hidden kernel", i, index, unit) for index in inputs for unit in range(units))
        yield from (("hidden bias", i, unit) for unit in range(units))
        inputs = [("hidden unit", unit) for unit in range(units)]
    yield from (("output kernel", index, unit) for index in inputs for unit in range(net.outputs))
    yield from (("output bias", unit) for unit in range(net.outputs))


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.tuples(networks(), networks()), st.tuples(perceptrons(), perceptrons())))
def test_every_entry_is_the_parents_where_it_has_it_and_fresh_elsewhere(both: tuple[Network, Network]) -> None:
    old, new = both
    parent, fresh = np.arange(1.0, old.size + 1), -np.arange(1.0, new.size + 1)
    of_parent = dict(zip(entries(old), parent, strict=True))
    expected = [of_parent.get(entry, value) for entry, value in zip(entries(new), fresh, strict=True)]
    assert inherit(old, parent, new, fresh).tolist() == expected


def kind(hidden: Sequence[int], **changes: Any) -> Network:
    member = Hyperparameters(hidden=tuple(hidden)).replace(**changes)
    return Network(member.architecture, (2,), 1)


def test_layer_norms_are_added_and_removed_by_hand() -> None:
    plain, normalized = kind((2,)), kind((2,), normalization="layer")
    # Kernel [2, 2], bias [2], (scale [2], bias [2],) kernel [2, 1], bias [1].
    added = inherit(plain, np.arange(1.0, 10.0), normalized, -np.arange(1.0, 14.0))
    assert added.tolist() == [*range(1, 7), -7, -8, -9, -10, 7, 8, 9]
    removed = inherit(normalized, np.arange(1.0, 14.0), plain, -np.arange(1.0, 10.0))
    assert removed.tolist() == [*range(1, 7), 11, 12, 13]


def test_residual_blocks_inherit_the_first_layer_and_the_last_bias_of_plain_layers() -> None:
    plain, residual = kind((2, 2)), kind((2, 2), block="residual")
    child = inherit(plain, np.arange(1.0, plain.size + 1), residual, -np.arange(1.0, residual.size + 1))
    assert child[:6].tolist() == [1, 2, 3, 4, 5, 6]
    assert child[-1] == plain.size
    assert (child[6:-1] < 0.0).all()
    back = inherit(residual, np.arange(1.0, residual.size + 1), plain, -np.arange(1.0, plain.size + 1))
    assert back[:6].tolist() == [1, 2, 3, 4, 5, 6]
    assert back[-1] == residual.size
    assert (back[6:-1] < 0.0).all()


def test_another_residual_block_that_adds_nothing_changes_no_output() -> None:
    old, new = kind((3,), block="residual"), kind((3, 3), block="residual")
    parent = weights(old)
    child = inherit(old, parent, new, np.zeros(new.size, np.float32))
    np.testing.assert_allclose(outputs(new, child), outputs(old, parent), rtol=1e-5, atol=1e-6)
    assert inherit(new, child, old, np.zeros(old.size, np.float32)).tolist() == parent.tolist()


def test_a_wider_residual_block_keeps_its_corner() -> None:
    old, new = kind((1,), block="residual"), kind((2,), block="residual")
    child = arrays_of(new, inherit(old, np.arange(1.0, old.size + 1), new, np.zeros(new.size)))
    parent = arrays_of(old, np.arange(1.0, old.size + 1))
    for one, other in zip(child, parent, strict=True):
        assert one[tuple(slice(side) for side in other.shape)].tolist() == other.tolist()
        assert np.count_nonzero(one) == other.size


BINS = {"head": "categorical", "bins": 3, "value_range": (-1, 1)}


def test_another_head_keeps_all_hidden_layers_by_hand() -> None:
    scalar, categorical = kind((2,)), kind((2,), **BINS)
    # Kernel [2, 2], bias [2], kernel [2, 1], bias [1]; the output layer of the other has kernel [2, 3] and bias [3].
    child = inherit(scalar, np.arange(1.0, 10.0), categorical, -np.arange(1.0, 16.0))
    assert child.tolist() == [*range(1, 7), *range(-7, -16, -1)]
    back = inherit(categorical, np.arange(1.0, 16.0), scalar, -np.arange(1.0, 10.0))
    assert back.tolist() == [*range(1, 7), -7, -8, -9]


def test_a_head_with_the_same_bins_keeps_its_output_layer_by_hand() -> None:
    old, new = kind((2,), **BINS), kind((3,), **BINS)
    child = inherit(old, np.arange(1.0, 16.0), new, -np.arange(1.0, 22.0))
    assert child.tolist() == [1, 2, -3, 3, 4, -6, 5, 6, -9, *range(7, 13), -16, -17, -18, 13, 14, 15]


@pytest.mark.parametrize("changes", [{"bins": 4}, {"value_range": (-1, 2)}])
def test_a_head_with_other_bins_has_a_new_output_layer(changes: dict[str, Any]) -> None:
    old, new = kind((2,), **BINS), kind((2,), **(BINS | changes))
    child = inherit(old, np.arange(1.0, 16.0), new, -np.arange(1.0, new.size + 1))
    assert (child > 0.0).tolist() == [True] * 6 + [False] * (new.size - 6)
