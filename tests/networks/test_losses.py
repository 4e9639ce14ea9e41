"""The losses against numbers worked out by hand, and training with each of them."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.members.hyperparameters import LOSSES, Hyperparameters
from adaqn.networks.ensemble import Ensemble
from adaqn.networks.losses import LOSS_FUNCTIONS

# Errors e, and the loss of each. Around 1, huber goes over from a parabola to a line.
ERRORS = [0.0, 0.5, 1.0, 1.5, 50.0]
LOG_COSH_HALF = math.log((math.exp(0.5) + math.exp(-0.5)) / 2.0)
HAND_WORKED = {
    "l2": [0.0, 0.125, 0.5, 1.125, 1250.0],
    "l1": [0.0, 0.5, 1.0, 1.5, 50.0],
    "huber": [0.0, 0.125, 0.5, 1.0, 49.5],
    # cosh 50 overflows nothing yet in double precision; log(e^50 / 2) = 50 - log 2 to the last digit.
    "log_cosh": [
        0.0,
        LOG_COSH_HALF,
        math.log(math.cosh(1.0)),
        math.log(math.cosh(1.5)),
        50.0 - math.log(2.0),
    ],
}
SLOPES = {
    "l2": [0.0, 0.5, 1.0, 1.5, 50.0],
    "l1": [math.nan, 1.0, 1.0, 1.0, 1.0],  # anything between -1 and 1 is a slope of |e| at 0
    "huber": [0.0, 0.5, 1.0, 1.0, 1.0],
    "log_cosh": [0.0, math.tanh(0.5), math.tanh(1.0), math.tanh(1.5), 1.0],
}


def test_there_are_four_losses_and_each_name_has_its_function() -> None:
    assert len(LOSSES) == 4
    assert tuple(LOSS_FUNCTIONS) == LOSSES == tuple(sorted(HAND_WORKED))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_values_and_slopes(name: str, sign: float) -> None:
    errors = sign * jnp.asarray(ERRORS)
    values = LOSS_FUNCTIONS[name](errors)
    slopes = jax.vmap(jax.grad(LOSS_FUNCTIONS[name]))(errors)
    np.testing.assert_allclose(values, HAND_WORKED[name], rtol=1e-6, atol=1e-7)
    expected = sign * np.asarray(SLOPES[name])
    defined = ~np.isnan(expected)
    np.testing.assert_allclose(slopes[defined], expected[defined], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_the_largest_errors_do_not_overflow_but_in_l2(name: str) -> None:
    value, slope = jax.value_and_grad(LOSS_FUNCTIONS[name])(jnp.float32(1e30))
    assert math.isfinite(slope)
    assert math.isfinite(value) == (name != "l2")


@pytest.mark.parametrize("name", LOSSES)
def test_a_step_goes_down_the_mean_of_the_loss(name: str) -> None:
    # A network without hidden layers, f(x) = w x + b, with w = 1 and b = 0, on errors of +0.5 and -3.
    member = Hyperparameters(hidden=(), optimizer="sgd", learning_rate=0.1, loss=name)
    ensemble = Ensemble.of([member], (1,), 1)
    (group,) = ensemble.init([member], np.random.default_rng(0))
    state = (group._replace(parameters=jnp.asarray([[1.0, 0.0]])),)
    targets = jnp.asarray([[1.5, 5.0]])
    step = jax.jit(lambda s: ensemble.update(s, jnp.asarray([[2.0], [2.0]]), targets, lambda q: q[:, 0]))
    (trained,), predictions = step(state)
    assert predictions.tolist() == [[2.0, 2.0]]
    slope = {"l2": (0.5, -3.0), "l1": (1.0, -1.0), "huber": (0.5, -1.0)}.get(name, (math.tanh(0.5), math.tanh(-3.0)))
    mean = sum(slope) / 2.0
    np.testing.assert_allclose(trained.parameters, [[1.0 - 0.1 * 2.0 * mean, -0.1 * mean]], rtol=1e-5, atol=1e-7)
    assert step._cache_size() == 1  # type: ignore[attr-defined]
