"""The derivative of the outer loss through the inner update: worked out by hand, and against finite differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.metagradient import (
    EMBEDDING,
    ConditionedNetwork,
    MetaState,
    discount_step,
    inner_update,
    meta_gradient,
    outer_loss,
)
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Batch
from tests.agents.metagradient.cases import agent_of, batch_of, in_double_precision, random_batch

COMPILED, STEP, LOSS = (jax.jit(each, static_argnums=(0, 1)) for each in (meta_gradient, inner_update, outer_loss))
LINEAR = Hyperparameters(hidden=(), optimizer="sgd", learning_rate=0.1, loss="l2", discount=0.5)


def flat(weight: float, bias: float, embedding: float, kernel: float) -> np.ndarray:
    """A network with one weight, whose embedding has one dimension that is not 0."""
    first = np.eye(EMBEDDING)[0]
    return np.concatenate([[weight], [bias], embedding * first, kernel * first]).astype(np.float32)


def test_one_weight_by_hand() -> None:
    agent = agent_of(LINEAR, gamma=0.8)
    state = agent.init(0).learning
    state = state._replace(
        network=state.network._replace(parameters=jnp.asarray(flat(0.5, 0.0, 1.0, 0.2))),
        snapshot=jnp.asarray(flat(1.0, 0.0, 0.0, 0.0)),
    )
    inner, outer = batch_of((1.0, 0, 1.0, 2.0, False)), batch_of((2.0, 0, 0.0, 1.0, False))
    gradient, loss, learned = COMPILED(agent.network_of((LINEAR,)), False, state, inner, outer)
    # γ_η = σ(0) = ½. Q = 0.5 + ½ · 0.2 = 0.6, the target is 1 + ½ · 2 = 2, the error -1.4. One step of SGD with 0.1:
    np.testing.assert_allclose(learned.network.parameters, flat(0.64, 0.14, 1.014, 0.27), rtol=1e-6)
    np.testing.assert_allclose(learned.loss, 0.5 * 1.4**2, rtol=1e-6)
    # The outer Q is 0.64 · 2 + 0.14 + ½ · 1.014 · 0.27 = 1.55689, and its target, with γ̄, 0.8 · 1.
    error = 1.55689 - 0.8
    np.testing.assert_allclose(loss, 0.5 * error**2, rtol=1e-6)
    # The target changes by 2 σ'(0) = 0.5 per η, so the weight and the bias change by 0.1 · 0.5, the embedding by
    # 0.1 · 0.5 · ½ · 0.2 = 0.005, its kernel by 0.1 · 0.5 · ½ = 0.025, and the outer Q by:
    slope = 2 * 0.05 + 0.05 + 0.5 * (0.005 * 0.27 + 1.014 * 0.025)
    np.testing.assert_allclose(gradient, error * slope, rtol=1e-5)


def through(
    network: ConditionedNetwork, double: bool, state: MetaState, inner: Batch, outer: Batch, logit: float
) -> float:
    """The outer loss after an inner update with this η; the conditioning stays that of the state."""
    parameters, _ = STEP(network, double, state, inner, jnp.asarray(logit))
    return float(LOSS(network, double, state, outer, parameters))


def require_finite_differences(member: Hyperparameters, *, double: bool = False, bias: float = 0.0) -> None:
    """Compare the meta-gradient with central differences, in double precision, where the optimizer has a past."""
    rng = np.random.default_rng(1)
    agent = agent_of(member, size=3, actions=2, gamma=0.9)
    network = agent.network_of((member,))
    with jax.enable_x64(True):
        state = in_double_precision(agent.init(0).learning)
        arrays = network.unravel(state.network.parameters)
        arrays[1] = arrays[1].at[:2].add(bias)
        other = jnp.asarray(rng.standard_normal(network.size))
        state = state._replace(
            network=state.network._replace(parameters=network.ravel(arrays)),
            snapshot=state.snapshot + 0.1 * other,
            discount=state.discount._replace(logit=jnp.asarray(0.7)),
        )
        for _ in range(2):  # so that the optimizer has moments
            _, learned = STEP(network, double, state, random_batch(rng, 8, 3, 2), jnp.asarray(0.7))
            state = state._replace(network=learned.network)
        inner, outer = random_batch(rng, 8, 3, 2), random_batch(rng, 8, 3, 2)
        gradient, loss, _ = COMPILED(network, double, state, inner, outer)
        step = 1e-4
        above, below = (through(network, double, state, inner, outer, 0.7 + sign * step) for sign in (1, -1))
        assert abs(float(gradient)) > 1e-6
        np.testing.assert_allclose(gradient, (above - below) / (2 * step), rtol=1e-5)
        np.testing.assert_allclose(loss, through(network, double, state, inner, outer, 0.7), rtol=1e-12)


SMALL = Hyperparameters(hidden=(5,), activation="tanh", optimizer="adam", learning_rate=0.01, discount=0.6)


@pytest.mark.parametrize(
    "member",
    [
        SMALL,
        SMALL.replace(loss="log_cosh", optimizer="rmsprop"),
        pytest.param(SMALL.replace(optimizer="lamb"), marks=pytest.mark.thorough),  # depends on whole arrays
        pytest.param(SMALL.replace(optimizer="sgd", hidden=(4, 4)), marks=pytest.mark.thorough),
    ],
    ids=lambda member: member.optimizer,
)
def test_finite_differences_agree(member: Hyperparameters) -> None:
    require_finite_differences(member)


def test_finite_differences_agree_in_double_q_learning() -> None:
    require_finite_differences(SMALL, double=True)


def test_units_that_never_fire_do_not_spoil_it() -> None:
    require_finite_differences(SMALL.replace(activation="relu"), bias=-1e3)


def test_the_discount_takes_one_step_of_adam_and_none_without_a_finite_gradient() -> None:
    discount = agent_of(SMALL).init(0).learning.discount
    stepped = discount_step(discount, jnp.asarray(3.0))
    # The first step of Adam is the learning rate, whatever the gradient.
    np.testing.assert_allclose(stepped.logit - discount.logit, -0.001, rtol=1e-3)
    for gradient in (jnp.nan, jnp.inf):
        kept = discount_step(discount, jnp.asarray(gradient))
        assert float(kept.logit) == float(discount.logit)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(kept.optimizer))
