"""The squashed normal distribution against its definition: a density of actions, integrated and differentiated."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.networks import squashed_gaussian
from adaqn.networks.squashed_gaussian import LOG_STD_HIGHEST, LOG_STD_LOWEST


def exact_log_density(before: np.ndarray, mean: float, log_std: float) -> np.ndarray:
    """log N(u; mean, std) - log(1 - tanh² u) in double precision; 1 - tanh² u is 4 / (e^u + e^-u)²."""
    u = np.asarray(before, np.float64)
    normal = -0.5 * np.square((u - mean) / math.exp(log_std)) - log_std - 0.5 * math.log(2.0 * math.pi)
    return normal - (math.log(4.0) - 2.0 * np.logaddexp(u, -u))


def log_density_at(before: np.ndarray, mean: float, log_std: float) -> np.ndarray:
    """Our log-probability, for the noise that gives these pre-tanh values."""
    noise = jnp.asarray((before - mean) / math.exp(log_std), jnp.float32)[:, None]
    outputs = jnp.broadcast_to(jnp.asarray([[mean, log_std]], jnp.float32), (len(before), 2))
    return np.asarray(squashed_gaussian.sample(outputs, noise).log_probability, np.float64)


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.7, -1.0), (-1.5, 0.5), (0.3, -3.0)])
def test_the_density_of_the_action_integrates_to_one(mean: float, log_std: float) -> None:
    # Over actions, in cells that are finer towards the ends, where most of a wide distribution is.
    edges = np.tanh(np.linspace(-9.0, 9.0, 20_001))
    middles = 0.5 * (edges[1:] + edges[:-1])
    density = np.exp(log_density_at(np.arctanh(middles), mean, log_std))
    assert (density * np.diff(edges)).sum() == pytest.approx(1.0, abs=1e-4)
    # Half of the mass is below the action of the mean.
    below = middles < np.tanh(mean)
    assert (density * np.diff(edges))[below].sum() == pytest.approx(0.5, abs=5e-3)


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.7, -1.0), (-1.5, 0.5)])
def test_the_density_is_the_change_of_variables_as_far_out_as_30(mean: float, log_std: float) -> None:
    before = np.linspace(-30.0, 30.0, 241)
    expected = exact_log_density(before, mean, log_std)
    np.testing.assert_allclose(log_density_at(before, mean, log_std), expected, rtol=1e-5, atol=1e-5)
    # At 30, tanh is 1 in any precision, and a logarithm of 1 - tanh² would be infinite.
    assert np.float64(1.0) - np.tanh(30.0) ** 2 == 0.0


@pytest.mark.parametrize("before", [-30.0, -5.0, 0.0, 0.5, 30.0])
def test_the_slope_is_finite_and_right_also_where_tanh_is_flat(before: float) -> None:
    def log_density(mean: jax.Array) -> jax.Array:
        outputs = jnp.stack([mean, jnp.zeros(())])[None, :]
        return squashed_gaussian.sample(outputs, jnp.zeros((1, 1))).log_probability[0]

    # With noise 0 the normal part is constant, so that d/du of -log(1 - tanh² u) is left: 2 tanh u.
    assert float(jax.grad(log_density)(jnp.float32(before))) == pytest.approx(2.0 * math.tanh(before), abs=1e-5)


def test_a_sample_by_hand() -> None:
    # Two dimensions: means 0 and 1, deviations 1 and ½; noise 0 and -2, so u is 0 and 0.
    outputs = jnp.asarray([[0.0, 1.0, 0.0, math.log(0.5)]])
    sample = squashed_gaussian.sample(outputs, jnp.asarray([[0.0, -2.0]]))
    assert sample.action.tolist() == [[0.0, 0.0]]
    # Twice log 1/√2π, minus 2²/2 of the noise, minus log ½ of the deviation; tanh has the slope 1 at 0.
    expected = -math.log(2.0 * math.pi) - 2.0 + math.log(2.0)
    assert sample.log_probability.shape == (1,)
    assert float(sample.log_probability[0]) == pytest.approx(expected, rel=1e-6)


def test_deviations_stay_within_their_limits() -> None:
    noise = jnp.ones((1, 1))
    for given, used in ((50.0, LOG_STD_HIGHEST), (-50.0, LOG_STD_LOWEST), (1.0, 1.0)):
        got = squashed_gaussian.sample(jnp.asarray([[0.1, given]]), noise)
        expected = squashed_gaussian.sample(jnp.asarray([[0.1, used]]), noise)
        assert got.action.tolist() == expected.action.tolist()
        assert got.log_probability.tolist() == expected.log_probability.tolist()
        assert np.isfinite(got.log_probability).all()


def test_samples_have_the_distribution_that_they_say() -> None:
    rng, n = np.random.default_rng(0), 40_000
    outputs = jnp.broadcast_to(jnp.asarray([[0.4, math.log(0.8)]]), (n, 2))
    sample = squashed_gaussian.sample(outputs, jnp.asarray(rng.standard_normal((n, 1)), jnp.float32))
    actions = np.asarray(sample.action)[:, 0]
    assert (np.abs(actions) < 1.0).all()
    # The share in an interval is the mass of the normal distribution in its inverse image.
    low, high = math.atanh(0.2), math.atanh(0.9)
    mass = 0.5 * (math.erf((high - 0.4) / 0.8 / math.sqrt(2.0)) - math.erf((low - 0.4) / 0.8 / math.sqrt(2.0)))
    share = ((actions > 0.2) & (actions < 0.9)).mean()
    assert share == pytest.approx(mass, abs=4.0 * math.sqrt(mass * (1.0 - mass) / n))


def test_the_mode_is_the_action_without_noise_whatever_the_deviation() -> None:
    outputs = jnp.asarray([[0.0, -0.5, 3.0, -3.0], [2.0, 40.0, 0.0, 0.0]])
    np.testing.assert_allclose(
        squashed_gaussian.mode(outputs), [[0.0, math.tanh(-0.5)], [math.tanh(2.0), 1.0]], rtol=1e-6
    )
    without_noise = squashed_gaussian.sample(outputs, jnp.zeros((2, 2)))
    assert squashed_gaussian.mode(outputs).tolist() == without_noise.action.tolist()
