"""Layer norms and residual blocks, checked by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.members.hyperparameters import Convolution, Hyperparameters
from adaqn.networks.ensemble import Ensemble
from adaqn.networks.layers import layer_norm, with_arrays
from adaqn.networks.network import Network


def network(member: Hyperparameters, inputs: int = 1, outputs: int = 1) -> Network:
    return Network(member.architecture, (inputs,), outputs)


def test_a_layer_norm_by_hand() -> None:
    # Mean 2 and variance 1; mean 0 and variance 4; a constant, whose variance is 0.
    x = jnp.asarray([[1.0, 3.0], [-2.0, 2.0], [5.0, 5.0]])
    found = layer_norm(x, jnp.asarray([2.0, 3.0]), jnp.asarray([0.5, -1.0]))
    np.testing.assert_allclose(found, [[-1.5, 2.0], [-1.5, 2.0], [0.5, -1.0]], atol=1e-5)


def test_a_small_spread_around_a_large_mean_is_not_lost() -> None:
    # E[x²] - E[x]² would be 0 in single precision.
    x = jnp.asarray([[9999.0, 10001.0]])
    np.testing.assert_allclose(layer_norm(x, jnp.ones(2), jnp.zeros(2)), [[-1.0, 1.0]], atol=1e-5)


def test_a_normalized_layer_by_hand() -> None:
    net = network(Hyperparameters(hidden=(2,), normalization="layer"))
    assert [layer.kind for layer in net.layers] == ["flatten", "dense", "layer_norm", "activation", "dense"]
    assert net.shapes == ((1, 2), (2,), (2,), (2,), (2, 1), (1,))
    flat = [1.0, 3.0, 0.0, 0.0, *(1.0, 2.0), *(0.0, -0.5), 10.0, 7.0, 0.25]
    # Dense: 1, 3. Norm: -1, 1; scaled and shifted: -1, 1.5. Relu: 0, 1.5. Output: 1.5 * 7 + 0.25.
    outputs = net.apply(net.unravel(jnp.asarray(flat)), jnp.asarray([[1.0]]))
    assert outputs[0, 0] == pytest.approx(10.75, abs=1e-4)


def test_a_residual_block_by_hand() -> None:
    net = network(Hyperparameters(hidden=(2,), block="residual"))
    assert [layer.kind for layer in net.layers] == ["flatten", "dense", "residual", "layer_norm", "dense"]
    assert [layer.kind for layer in net.layers[2].inner] == ["layer_norm", "dense", "activation", "dense"]
    assert net.shapes == ((1, 2), (2,), (2,), (2,), (2, 8), (8,), (8, 2), (2,), (2,), (2,), (2, 1), (1,))
    arrays = [np.zeros(shape, np.float32) for shape in net.shapes]
    arrays[0][:] = [[1.0, 3.0]]  # projection
    arrays[2][:] = 1.0  # norm: -1, 1
    arrays[4][:, :2] = np.eye(2)  # -1, 1 and six zeros; relu: 0, 1
    arrays[6][:2] = [[100.0, 100.0], [4.0, 0.0]]  # 4, 0
    arrays[7][:] = [0.0, -2.0]  # 4, -2; added to the projection: 5, 1
    arrays[8][:] = 1.0  # mean 3, variance 4: 1, -1
    arrays[10][:] = [[10.0], [7.0]]
    arrays[11][:] = 0.5
    outputs = net.apply([jnp.asarray(array) for array in arrays], jnp.asarray([[1.0]]))
    assert outputs[0, 0] == pytest.approx(3.5, abs=1e-4)


def test_every_hidden_layer_is_one_block_of_its_width() -> None:
    net = network(Hyperparameters(hidden=(3, 3), block="residual"), inputs=5, outputs=2)
    assert [layer.kind for layer in net.layers].count("residual") == 2
    # Projection; per block a norm, 3 to 12 units and back; the last norm; the output layer.
    assert net.size == (5 * 3 + 3) + 2 * (6 + 3 * 12 + 12 + 12 * 3 + 3) + 6 + (3 * 2 + 2)


def test_the_activation_of_the_member_is_used_inside_a_block() -> None:
    net = network(Hyperparameters(hidden=(2,), block="residual", activation="tanh"), inputs=2)
    arrays = [np.zeros(shape, np.float32) for shape in net.shapes]
    arrays[7][:] = [3.0, -3.0]
    arrays[5][:] = 0.5
    arrays[6][:, 0] = 1.0  # 8 tanh 0.5 is added to the first unit, and the norm turns any difference into its sign
    arrays[9][:] = [0.0, 0.0]
    arrays[8][:] = 1.0
    arrays[10][:] = [[1.0], [0.0]]
    found = net.apply([jnp.asarray(array) for array in arrays], jnp.zeros((1, 2)))
    first, second = 3.0 + 8.0 * np.tanh(0.5), -3.0
    assert found[0, 0] == pytest.approx((first - (first + second) / 2) / np.std([first, second]), abs=1e-5)


def test_scales_start_at_one_and_biases_at_zero() -> None:
    net = network(Hyperparameters(hidden=(4, 4), block="residual"), inputs=3)
    arrays = net.unravel(jnp.asarray(net.init(np.random.default_rng(0))))
    for layer, (first, bias) in zip(with_arrays(net.layers), zip(arrays[::2], arrays[1::2], strict=True), strict=True):
        assert not bias.any()
        if layer.kind == "layer_norm":
            assert first.tolist() == [1.0] * 4
        else:
            assert len(set(first.ravel().tolist())) == first.size


def test_the_draws_of_kernels_do_not_depend_on_layer_norms() -> None:
    plain, normalized = (
        network(Hyperparameters(hidden=(4, 3), normalization=name), inputs=3) for name in ("none", "layer")
    )
    first, second = (net.unravel(jnp.asarray(net.init(np.random.default_rng(7)))) for net in (plain, normalized))
    for one, other in zip(first[::2], (second[0], second[4], second[8]), strict=True):
        assert one.tolist() == other.tolist()


def test_hidden_layers_behind_convolutions_are_normalized_too() -> None:
    member = Hyperparameters(convolutions=(Convolution(2, 2, 1),), hidden=(3,), normalization="layer")
    net = Network(member.architecture, (3, 3, 1), 2)
    kinds = ["convolution", "activation", "flatten", "dense", "layer_norm", "activation", "dense"]
    assert [layer.kind for layer in net.layers] == kinds
    residual = Network(member.replace(block="residual").architecture, (3, 3, 1), 2)
    assert residual.structured_shapes[2] == (3, 3, 2, 3)


def test_the_kinds_of_layers_that_make_no_difference_share_an_architecture() -> None:
    linear = Hyperparameters(hidden=())
    assert linear.replace(normalization="layer").architecture == linear.architecture
    assert linear.replace(block="residual").architecture == linear.architecture
    residual = Hyperparameters(block="residual")
    assert residual.replace(normalization="layer").architecture == residual.architecture
    assert len({Hyperparameters(normalization=n).architecture for n in ("none", "layer")}) == 2


@pytest.mark.thorough
def test_members_with_all_kinds_of_layers_learn_in_one_ensemble() -> None:
    plain = Hyperparameters(hidden=(4,), learning_rate=0.1, optimizer="sgd", activation="tanh")
    members = [plain, plain.replace(normalization="layer"), plain.replace(block="residual"), plain]
    ensemble = Ensemble.of(members, (2,), 1)
    assert ensemble.groups == ((0, 3), (1,), (2,))
    state = ensemble.init(members, np.random.default_rng(0))
    observations = jnp.asarray(np.random.default_rng(1).standard_normal((8, 2), np.float32))
    targets = jnp.ones((4, 8))
    values = ensemble.values(ensemble.parameters(state), observations)
    step = jax.jit(lambda state: ensemble.update(state, observations, targets, lambda q: q[:, 0]))
    after, predictions = step(state)
    np.testing.assert_allclose(predictions, values[:, :, 0], rtol=1e-5, atol=1e-6)
    for k in range(4):
        net = ensemble.network(k)
        flat = ensemble.member(ensemble.parameters(state), k)

        def loss(flat: jax.Array, net: Network = net) -> jax.Array:
            return 0.5 * jnp.square(net.apply(net.unravel(flat), observations)[:, 0] - 1.0).mean()

        gradient = jax.grad(loss)(flat)
        found = ensemble.member(ensemble.parameters(after), k)
        assert (np.asarray(gradient) != 0.0).any()
        np.testing.assert_allclose(found, flat - 0.1 * gradient, rtol=1e-4, atol=1e-6)
