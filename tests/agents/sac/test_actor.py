"""The actor and the entropy coefficient (Algorithm 2, lines 15 and 16) against numbers worked out by hand."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.base import behaviour_epsilon
from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.sac import SACAgent, entropy_coefficient
from tests.agents.outcomes import learned
from tests.agents.sac.cases import (
    CENTRED,
    FLAT,
    HIGH,
    LOW,
    STEEP,
    STILL,
    agent_of,
    batch_of,
    started,
    updated,
)

ENTROPY = 0.5 * math.log(2.0 * math.pi)  # minus log π of the mean of a centred actor with deviation 1
TARGET_ENTROPY = 0.25
FALLING = [0.0, -4.0, 3.0]  # Q = 3 - 4a
CRITICS = [STEEP, FLAT, LOW, FALLING]
TWO = batch_of((1.0, 0.5, [1.0], 2.0, True), (3.0, -0.5, [1.0], 2.0, True))


@cache
def learning_its_coefficient() -> SACAgent:
    return agent_of([STILL] * 4, ent_coef="auto", target_entropy=TARGET_ENTROPY)


@cache
def with_fixed_coefficient() -> SACAgent:
    return agent_of([STILL] * 4)


def actor_after(run, **draws) -> list[float]:
    return updated(
        with_fixed_coefficient(), run, TWO, Operation.ACTOR_UPDATE, **draws
    ).learning.actor.parameters.tolist()


def follow(first: int, second: int) -> list[float]:
    """Uniform numbers that make these two the behaviour pair, if ε_b is 1."""
    return [0.0, *(0.9 if k in (first, second) else 0.1 for k in range(4))]


def test_the_actor_climbs_the_smaller_value_of_the_behaviour_pair() -> None:
    run = started(with_fixed_coefficient(), CRITICS)
    # Without noise a = 0 at x = 1 and 3. STEEP says 1 and 3, FALLING 3: at x = 1 the smaller is STEEP, whose slope in
    # a is 2, at x = 3 they are equal, and each has half a say: (2 - 4) / 2 = -1. tanh has the slope 1 at 0, so the
    # mean's bias goes up by ½ (2 - 1) / 2 and its kernel by ½ (1 2 + 3 (-1)) / 2. Without entropy nobody minds the
    # deviation.
    assert actor_after(run, epsilon=1.0, behaviour=follow(0, 3)) == [-0.25, 0.0, 0.25, 0.0]
    # LOW is always the smallest and flat: nothing to climb.
    assert actor_after(run, epsilon=1.0, behaviour=follow(0, 2)) == CENTRED
    # With ε_b = 0 the pair is the one just chosen for the target: y = 1, where LOW is off by 2, FALLING by 0 and 4,
    # FLAT by 0 and STEEP by 1 and 1.
    run = updated(with_fixed_coefficient(), run, TWO, Operation.ACTOR_UPDATE, epsilon=0.0, behaviour=follow(2, 3))
    assert run.learning.selected.members.tolist() == [1, 0]
    assert run.learning.record.acted.tolist() == [1, 1, 0, 0]
    # FLAT says 1 and STEEP 1 and 3: half of 2 at x = 1.
    assert run.learning.actor.parameters.tolist() == [0.25, 0.0, 0.25, 0.0]


def test_the_actor_follows_the_online_critics_after_their_step() -> None:
    learner = STILL.replace(learning_rate=1.0)
    agent = agent_of([learner, STILL, STILL, STILL])
    run = started(agent, [[0.0, 0.0, 0.0], HIGH, HIGH, HIGH], targets=[[0.0, -50.0, 0.0]] * 4)
    # y = 1 and the first critic says 0: errors -1 at (1, ½) and (3, -½), so that w_a becomes (½ - ½) / 2 = 0, and with
    # actions ½ and ½ it becomes ½, which is what the actor sees.
    batch = batch_of((1.0, 0.5, [1.0], 2.0, True), (1.0, 0.5, [1.0], 2.0, True))
    run = updated(agent, run, batch, Operation.ACTOR_UPDATE, epsilon=1.0, behaviour=follow(0, 1))
    # The slope ½ of the value, times the rate ½.
    assert run.learning.actor.parameters.tolist() == [0.25, 0.0, 0.25, 0.0]


def test_a_coefficient_that_is_learned_begins_at_one() -> None:
    run = learning_its_coefficient().init(0)
    assert float(entropy_coefficient(run.learning)) == 1.0
    assert learning_its_coefficient().report(run, Clock()).metrics["train/ent_coef"] == 1.0


def test_one_step_of_coefficient_and_deviation_by_hand() -> None:
    agent = learning_its_coefficient()
    run = started(agent, [LOW, LOW, LOW, LOW])
    run = updated(agent, run, TWO, Operation.ACTOR_UPDATE)
    # The policy has more entropy than the target, so that log α goes down by ½ (entropy - target).
    assert float(run.learning.entropy) == pytest.approx(ENTROPY, rel=1e-6)
    assert float(run.learning.log_alpha.parameters) == pytest.approx(-0.5 * (ENTROPY - TARGET_ENTROPY), rel=1e-5)
    # Values do not depend on actions here. With α = 1, before its step, the logarithm of the deviation has the slope
    # -1 in log π, and its kernel -x, which is -2 on average: both go up by half of that.
    np.testing.assert_allclose(run.learning.actor.parameters, [0.0, 1.0, 0.0, 0.5], atol=1e-6)
    # The next update of the critics counts entropy with the new coefficient.
    alpha = math.exp(-0.5 * (ENTROPY - TARGET_ENTROPY))
    reset = started(agent, [FLAT] * 4, alpha=alpha)
    y = 1.0 + 0.5 * (1.0 + alpha * ENTROPY)
    batch = batch_of((1.0, 0.0, [1.0], 0.0, False), (1.0, 0.0, [1.0], 0.0, False))
    loss = updated(agent, reset, batch, Operation.ACTOR_UPDATE).learning.record.last_loss[0]
    np.testing.assert_allclose(loss, 0.5 * (1.0 - y) ** 2, rtol=1e-5)


def test_too_little_entropy_raises_the_coefficient() -> None:
    narrow = [0.0, 0.0, 0.0, -2.0]
    run = updated(
        learning_its_coefficient(),
        started(learning_its_coefficient(), CRITICS, actor=narrow),
        TWO,
        Operation.ACTOR_UPDATE,
    )
    expected = -0.5 * (ENTROPY - 2.0 - TARGET_ENTROPY)
    assert expected > 0.0
    assert float(run.learning.log_alpha.parameters) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("number", [0.0, 0.25])
def test_a_coefficient_that_is_given_stays(number: float) -> None:
    begun = agent_of([STILL] * 4, ent_coef=number).init(0)
    assert float(entropy_coefficient(begun.learning)) == pytest.approx(number)
    run = started(with_fixed_coefficient(), CRITICS, alpha=number)
    before = float(run.learning.log_alpha.parameters)
    for _ in range(3):
        run = updated(with_fixed_coefficient(), run, TWO, Operation.ACTOR_UPDATE)
    assert float(run.learning.log_alpha.parameters) == before
    assert math.isfinite(float(run.learning.entropy))


def objective(
    actor: Sequence[float], critics: Sequence[Sequence[float]], alpha: float, x: np.ndarray, noise: np.ndarray
) -> float:
    """The actor's loss in double precision: the mean of α log π - min Q."""
    k_m, k_s, b_m, b_s = actor
    log_std = k_s * x + b_s
    before = k_m * x + b_m + np.exp(log_std) * noise
    action = np.tanh(before)
    log_density = -0.5 * noise**2 - log_std - 0.5 * math.log(2.0 * math.pi) - np.log(1.0 - action**2)
    values = [w_x * x + w_a * action + b for w_x, w_a, b in critics]
    return float((alpha * log_density - np.minimum(*values)).mean())


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_the_slope_of_the_actor_is_that_of_its_objective(alpha: float) -> None:
    actor, noise = [0.2, -0.3, -0.4, 0.1], (0.7, -1.2)
    run = started(with_fixed_coefficient(), CRITICS, actor=actor, alpha=alpha)
    moved = actor_after(run, noise=noise, epsilon=1.0, behaviour=follow(0, 3))
    x, shift = TWO.observation[:, 0].astype(np.float64), 1e-6
    expected = []
    for i in range(4):
        up, down = (
            objective(
                [p + sign * shift * (j == i) for j, p in enumerate(actor)], [STEEP, FALLING], alpha, x, np.array(noise)
            )
            for sign in (1.0, -1.0)
        )
        expected.append(actor[i] - 0.5 * (up - down) / (2.0 * shift))
    np.testing.assert_allclose(moved, expected, rtol=1e-4, atol=1e-5)
    assert np.abs(np.array(moved) - actor).min() > 0.01


def test_critics_alone_leave_the_actor_and_the_coefficient() -> None:
    run = started(learning_its_coefficient(), CRITICS, actor=[0.2, -0.3, -0.4, 0.1])
    after = updated(learning_its_coefficient(), run, TWO, Operation.UPDATE)
    for name in ("actor", "log_alpha"):
        for mine, theirs in zip(
            jax.tree.leaves(getattr(run.learning, name)), jax.tree.leaves(getattr(after.learning, name)), strict=True
        ):
            assert np.array_equal(mine, theirs)
    assert after.learning.counts.made.tolist() == [1, 0]


def test_the_behaviour_pair_is_any_with_probability_epsilon_else_the_target_pair() -> None:
    agent, rng, draws = with_fixed_coefficient(), np.random.default_rng(0), 3000
    clock = Clock(step=400, settled=400, horizon=1000)
    epsilon = behaviour_epsilon(agent.settings, clock)
    assert epsilon == pytest.approx(0.604)
    run, pairs = started(agent, CRITICS), Counter()
    before = np.zeros(4, int)
    for _ in range(draws):
        run = learned(agent.update(run, Operation.ACTOR_UPDATE, TWO, clock, rng))
        acted = np.array(run.learning.record.acted)
        pairs[tuple(np.flatnonzero(acted - before).tolist())] += 1
        before = acted
    assert run.learning.selected.members.tolist() == [1, 0]
    # The target pair with 1 - ε_b, and each of the six with a sixth of ε_b.
    for pair in itertools.combinations(range(4), 2):
        p = epsilon / 6 + (1.0 - epsilon) * (pair == (0, 1))
        assert abs(pairs[pair] / draws - p) <= 4.0 * math.sqrt(p * (1.0 - p) / draws), pair


# One that is not element-wise and does not support scalars, and a stochastic one.
@pytest.mark.parametrize("optimizer", ["sm3", "noisy_sgd"])
def test_actor_and_coefficient_may_have_another_optimizer(optimizer: str) -> None:
    agent = agent_of([STILL] * 2, actor_optimizer=optimizer, actor_learning_rate=0.01, ent_coef="auto")
    run = agent.init(0)
    before, rng = np.array(run.learning.actor.parameters), np.random.default_rng(0)
    for _ in range(3):
        run = learned(agent.update(run, Operation.ACTOR_UPDATE, TWO, Clock(), rng))
    assert run.learning.log_alpha.parameters.shape == ()
    assert float(run.learning.log_alpha.parameters) != 0.0
    assert (np.array(run.learning.actor.parameters) != before).any()
    assert jnp.isfinite(run.learning.actor.parameters).all()
