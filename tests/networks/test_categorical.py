"""The categorical head: histograms of targets and their expectations by hand, and its gradient."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.members.hyperparameters import Convolution, Hyperparameters, Support
from adaqn.networks.categorical import bin_centres, cross_entropy, expectation, histogram
from adaqn.networks.ensemble import Ensemble
from adaqn.networks.layers import with_arrays
from adaqn.networks.network import Network

FOUR = Support(-4.0, 4.0, 4)  # centres -3, -1, 1, 3; σ = 1.5
FINE = Support(-10.0, 10.0, 50)  # width 0.4, σ = 0.3
LINEAR = Hyperparameters(hidden=(), head="categorical", bins=4, value_range=(-4, 4), optimizer="sgd", learning_rate=1.0)


def masses_of(support: Support, target: float) -> np.ndarray:
    (masses,) = np.asarray(histogram(support, jnp.asarray([target])))
    return masses


def test_a_target_in_the_middle_has_symmetric_masses_by_hand() -> None:
    assert bin_centres(FOUR).tolist() == [-3.0, -1.0, 1.0, 3.0]
    # Φ(4 / 1.5) = 0.996170 and Φ(2 / 1.5) = 0.908789, so the outer bins have 0.087381 each and the inner ones 0.408789;
    # all of them together have 0.992340.
    masses = masses_of(FOUR, 0.0)
    np.testing.assert_allclose(masses, [0.088056, 0.411944, 0.411944, 0.088056], atol=2e-6)
    np.testing.assert_array_equal(masses, masses[::-1])


def test_a_target_at_the_centre_of_a_bin_by_hand() -> None:
    # A bin is 4/3 σ wide. Around the centre there are 2 Φ(2/3) - 1 = 0.495015, beside it Φ(2) - Φ(2/3) = 0.229743, and
    # two bins away Φ(10/3) - Φ(2) = 0.022321; below the support, 1 - Φ(2) is lost.
    inside = np.array([0.229743, 0.495015, 0.229743, 0.022321])
    np.testing.assert_allclose(masses_of(FOUR, -1.0), inside / inside.sum(), atol=3e-6)


@pytest.mark.parametrize(("target", "clipped"), [(4.5, 4.0), (1e30, 4.0), (-1e6, -4.0)])
def test_targets_outside_of_the_range_are_clipped_to_it(target: float, clipped: float) -> None:
    np.testing.assert_array_equal(masses_of(FOUR, target), masses_of(FOUR, clipped))
    # Half of the distribution is lost at an edge. Of the rest, 2 Φ(4/3) - 1 = 0.817578 is in the outermost bin, and
    # 2 (Φ(8/3) - Φ(4/3)) = 0.174762 in the next.
    expected = np.array([0.817578, 0.174762, 0.007597, 0.000063])
    masses = masses_of(FOUR, clipped)
    np.testing.assert_allclose(masses[::-1] if clipped > 0.0 else masses, expected, atol=3e-6)


def test_away_from_the_edges_the_histogram_has_the_target_as_its_mean() -> None:
    # Four σ away from an edge, the mean is the target up to rounding; over one σ, it is 0.11 inside; at the edge, 0.28.
    for targets, tolerance in ((np.linspace(-8.8, 8.8, 441), 2e-4), ([-9.7, 9.7], 0.12), ([-10.0, 10.0], 0.28)):
        masses = np.asarray(histogram(FINE, jnp.asarray(targets, jnp.float32)), np.float64)
        np.testing.assert_allclose(masses.sum(axis=1), 1.0, atol=1e-6)
        np.testing.assert_allclose(masses @ bin_centres(FINE), targets, atol=tolerance)
    assert abs(masses_of(FINE, 10.0) @ bin_centres(FINE) - 10.0) > 0.27


def test_expectations_by_hand_do_not_overflow() -> None:
    logits = jnp.log(jnp.asarray([[0.1, 0.4, 0.3, 0.2], [0.45, 0.05, 0.05, 0.45]]))
    np.testing.assert_allclose(expectation(FOUR, logits), [0.2, 0.0], atol=1e-6)
    np.testing.assert_allclose(expectation(FOUR, logits + 1e4), [0.2, 0.0], atol=2e-3)  # rounded to 1e-3 before
    far = jnp.asarray([1e30, -1e30, 0.0, -1e30])
    assert float(expectation(FOUR, far)) == -3.0
    assert float(cross_entropy(far, jnp.asarray([1.0, 0.0, 0.0, 0.0]))) == 0.0


def reference(logits: np.ndarray, target: float, support: Support) -> float:
    """Cross-entropy in double precision, from the definition."""
    low, high, bins = support
    width = (high - low) / bins
    edges = [low + i * width for i in range(bins + 1)]
    normal = [0.5 * (1.0 + math.erf((edge - target) / (0.75 * width * math.sqrt(2.0)))) for edge in edges]
    masses = np.diff(normal) / (normal[-1] - normal[0])
    return float(-masses @ (logits - math.log(np.exp(logits).sum())))


@pytest.mark.parametrize("target", [-3.9, 0.3, 2.0])
def test_the_gradient_is_that_of_finite_differences(target: float) -> None:
    logits, step = np.array([0.5, -1.0, 2.0, 0.1]), 1e-5

    def loss(logits: jax.Array, target: jax.Array) -> jax.Array:
        return cross_entropy(logits, histogram(FOUR, target))

    given = jnp.asarray(logits, jnp.float32), jnp.asarray(target, jnp.float32)
    assert float(loss(*given)) == pytest.approx(reference(logits, target, FOUR), rel=1e-5)
    by_logits, by_target = jax.grad(loss, argnums=(0, 1))(*given)
    differences = [
        (reference(logits + move, target, FOUR) - reference(logits - move, target, FOUR)) / (2.0 * step)
        for move in step * np.eye(4)
    ]
    np.testing.assert_allclose(by_logits, differences, atol=1e-5)
    assert float(by_target) == 0.0
    assert abs(reference(logits, target + step, FOUR) - reference(logits, target - step, FOUR)) > 0.1 * step


def test_values_are_the_expectations_of_each_output() -> None:
    net = Network(LINEAR.architecture, (1,), 2)
    assert [layer.kind for layer in net.layers] == ["flatten", "dense", "expectation"]
    assert net.shapes == ((1, 8), (8,))
    # At x = 0 the biases are the logits: four bins of the first output, then those of the second.
    flat = jnp.concatenate([jnp.arange(8.0), jnp.log(jnp.asarray([0.1, 0.4, 0.3, 0.2, 0.7, 0.1, 0.1, 0.1]))])
    arrays = net.unravel(flat)
    np.testing.assert_allclose(net.apply(arrays, jnp.zeros((1, 1))), [[0.2, -1.8]], atol=1e-6)
    np.testing.assert_allclose(net.logits(arrays, jnp.zeros((1, 1)))[0], flat[8:].reshape(2, 4))


def test_one_step_of_a_member_by_hand() -> None:
    ensemble = Ensemble.of([LINEAR], (1,), 2)
    (group,) = ensemble.init([LINEAR], np.random.default_rng(0))
    state = (group._replace(parameters=jnp.zeros((1, 16))),)
    observation, targets = jnp.asarray([[2.0], [2.0]]), jnp.asarray([[0.0, 0.0]])
    (after,), predictions = jax.jit(lambda s: ensemble.update(s, observation, targets, lambda q: q[:, 1]))(state)
    assert predictions.tolist() == [[0.0, 0.0]]
    # The gradient of the logits is p - q with p = ¼; only the second output is trained, and x = 2.
    change = np.array([0.088056, 0.411944, 0.411944, 0.088056]) - 0.25
    kernel, bias = np.split(np.asarray(after.parameters)[0], 2)
    np.testing.assert_allclose(bias, [*np.zeros(4), *change], atol=2e-6)
    np.testing.assert_allclose(kernel, [*np.zeros(4), *(2.0 * change)], atol=4e-6)


def test_heads_share_hidden_layers_of_every_kind() -> None:
    for changes in ({}, {"normalization": "layer"}, {"block": "residual"}, {"convolutions": (Convolution(2, 2, 1),)}):
        member = Hyperparameters(hidden=(3, 3), value_range=(-4, 4), bins=5).replace(**changes)
        shape = (3, 3, 1) if member.convolutions else (2,)
        scalar, categorical = (
            Network(member.replace(head=head).architecture, shape, 2) for head in ("scalar", "categorical")
        )
        one, other = (list(with_arrays(net.layers)) for net in (scalar, categorical))
        assert one[:-1] == other[:-1]
        assert other[-1].shapes == ((3, 10), (10,))
        first, second = (net.init(np.random.default_rng(0)) for net in (scalar, categorical))
        hidden = scalar.size - (3 * 2 + 2)
        np.testing.assert_array_equal(first[:hidden], second[:hidden])


def test_a_scalar_head_has_no_support() -> None:
    scalar = Hyperparameters(bins=5, value_range=(0, 1))
    assert scalar.architecture == Hyperparameters().architecture
    assert scalar.replace(head="categorical").architecture.support == (0.0, 1.0, 5)
