"""TD3's actor ascends the value of one critic; then all targets are updated. Numbers worked out by hand."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from adaqn.agents.base import behaviour_epsilon
from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.registry import algorithm
from adaqn.agents.td3 import TD3Agent
from adaqn.base.errors import UserError
from tests.agents.outcomes import acted, learned
from tests.agents.sac.cases import FLAT, HIGH, LOW, STEEP, STILL, batch_of
from tests.agents.td3.cases import CENTRED, State, agent_of, critics_of, started, targets_of, updated

FALLING = [0.0, -4.0, 3.0]  # Q = 3 - 4a
CRITICS = [STEEP, FLAT, LOW, FALLING]
TWO = batch_of((1.0, 0.5, [1.0], 2.0, True), (3.0, -0.5, [1.0], 2.0, True))


@cache
def adatd3() -> TD3Agent:
    return agent_of([STILL] * 4)


def follow(first: int, second: int) -> list[float]:
    """Uniform numbers that make these two the behaviour pair, in this order, if ε_b is 1."""
    return [0.0, *({first: 0.9, second: 0.8}.get(k, 0.1) for k in range(4))]


def actor_after(run: State, first: int, second: int) -> list[float]:
    run = updated(adatd3(), run, TWO, Operation.ACTOR_UPDATE, epsilon=1.0, behaviour=follow(first, second))
    assert run.learning.record.acted.tolist() == [int(k == first) for k in range(4)]
    return run.learning.actor.parameters.tolist()


def test_the_actor_climbs_the_value_of_the_first_of_the_behaviour_pair() -> None:
    run = started(adatd3(), CRITICS)
    # a = 0 at x = 1 and 3, where tanh has the slope 1. STEEP rises by 2 in a: the bias goes up by ½ 2 and the kernel
    # by ½ (1 · 2 + 3 · 2) / 2, although FLAT or LOW says less.
    assert actor_after(run, 0, 1) == actor_after(run, 0, 2) == [2.0, 1.0]
    # The first of the pair counts, although LOW's value is smaller: FALLING's slope is -4.
    assert actor_after(run, 3, 2) == [-4.0, -2.0]
    assert actor_after(run, 2, 3) == CENTRED


def test_the_slope_goes_through_the_tanh() -> None:
    # One observation: a = tanh(0.3 · 2 - 0.1), and Q = x + 2a rises by 2 (1 - a²) per unit of the bias.
    batch = batch_of((2.0, 0.0, [0.0], 0.0, True), (2.0, 0.0, [0.0], 0.0, True))
    run = started(adatd3(), CRITICS, actor=[0.3, -0.1])
    run = updated(adatd3(), run, batch, Operation.ACTOR_UPDATE, epsilon=1.0, behaviour=follow(0, 1))
    slope = 2.0 * (1.0 - math.tanh(0.5) ** 2)
    np.testing.assert_allclose(run.learning.actor.parameters, [0.3 + 0.5 * 2.0 * slope, -0.1 + 0.5 * slope], rtol=1e-6)


def test_without_exploration_it_is_the_first_of_the_target_pair() -> None:
    # y = 1, where FLAT is right and STEEP off by 1 and 1: the pair is (FLAT, STEEP), and FLAT has no slope.
    run = updated(adatd3(), started(adatd3(), CRITICS), TWO, Operation.ACTOR_UPDATE, behaviour=follow(2, 3))
    assert run.learning.selected.members.tolist() == [1, 0]
    assert run.learning.record.acted.tolist() == [0, 1, 0, 0]
    assert run.learning.actor.parameters.tolist() == CENTRED
    # y = 3 at the actions ½ and -½, and x = 2 and 4, is what STEEP says: it comes first.
    batch = batch_of((2.0, 0.5, [3.0], 0.0, True), (4.0, -0.5, [3.0], 0.0, True))
    run = updated(adatd3(), started(adatd3(), CRITICS), batch, Operation.ACTOR_UPDATE, behaviour=follow(2, 3))
    assert run.learning.selected.members.tolist()[0] == 0
    assert run.learning.actor.parameters.tolist() == [3.0, 1.0]


def test_the_actor_follows_the_online_critic_after_its_step() -> None:
    learner = STILL.replace(learning_rate=1.0)
    agent = agent_of([learner, STILL, STILL, STILL])
    run = started(agent, [[0.0, 0.0, 0.0], HIGH, HIGH, HIGH], targets=[[0.0, -50.0, 0.0]] * 4)
    # y = 1 and the first critic says 0 at (1, ½) twice: w_a becomes ½, which is what the actor sees.
    batch = batch_of((1.0, 0.5, [1.0], 2.0, True), (1.0, 0.5, [1.0], 2.0, True))
    run = updated(agent, run, batch, Operation.ACTOR_UPDATE, epsilon=1.0, behaviour=follow(0, 1))
    assert run.learning.actor.parameters.tolist() == [0.25, 0.25]


def test_all_three_targets_go_half_of_the_way_to_where_actor_and_critics_are_now() -> None:
    agent = agent_of([STILL.replace(learning_rate=0.5), STILL])
    targets = [[3.0, 1.0, -1.0], LOW]
    run = started(agent, [STEEP, FLAT], targets=targets, actor=CENTRED, target_actor=[-1.0, 4.0])
    batch = batch_of((1.0, 0.5, [1.5], 0.0, True), (1.0, -0.5, [1.0], 0.0, True))
    run = updated(agent, run, batch, Operation.ACTOR_UPDATE, epsilon=1.0, behaviour=[0.0, 0.9, 0.1])
    # STEEP predicts 2 and 0, off by ½ and -1: slopes -¼, ⅜ and -¼, of which it takes half.
    moved = [1.125, 1.8125, 0.125]
    assert critics_of(agent, run) == [moved, FLAT]
    # The new slope 1.8125, with the rate ½ and x = 1.
    actor = [0.90625, 0.90625]
    assert run.learning.actor.parameters.tolist() == actor
    halfway = [[(t + o) / 2 for t, o in zip(*rows, strict=True)] for rows in zip(targets, [moved, FLAT], strict=True)]
    assert targets_of(agent, run) == halfway
    assert run.learning.target_actor.tolist() == [(-1.0 + actor[0]) / 2, (4.0 + actor[1]) / 2]
    assert run.learning.counts.made.tolist() == run.learning.counts.learned.tolist() == [1, 1]


def test_td3_trains_its_actor_against_the_first_of_its_two_critics_always() -> None:
    agent = agent_of([STILL] * 2, "td3")
    # The second predicts y = 1 and the first does not; with ε_b = 0 AdaTD3 would follow the second, which is flat.
    run = started(agent, [STEEP, FLAT])
    for epsilon in (0.0, 1.0):
        after = updated(agent, run, TWO, Operation.ACTOR_UPDATE, epsilon=epsilon, behaviour=[0.0, 0.1, 0.9])
        assert after.learning.selected.members.tolist() == [1, 0]
        assert after.learning.actor.parameters.tolist() == [2.0, 1.0]
        assert after.learning.record.acted.tolist() == [1, 0]
    with pytest.raises(UserError, match=r"^this algorithm always uses behaviour='first', but got behaviour="):
        algorithm("td3").configure({"behaviour": "epsilon"})


def test_the_critic_of_the_actor_is_any_with_probability_epsilon_else_the_best() -> None:
    agent, rng, draws = adatd3(), np.random.default_rng(0), 2000
    clock = Clock(step=400, settled=400, horizon=1000)
    epsilon = behaviour_epsilon(agent.settings, clock)
    assert epsilon == pytest.approx(0.604)
    run = started(agent, CRITICS)
    for _ in range(draws):
        run = learned(agent.update(run, Operation.ACTOR_UPDATE, TWO, clock, rng))
    assert run.learning.selected.members.tolist() == [1, 0]
    counts = np.array(run.learning.record.acted)
    assert counts.sum() == draws
    for k in range(4):
        p = epsilon / 4 + (1.0 - epsilon) * (k == 1)
        assert abs(counts[k] / draws - p) <= 4.0 * math.sqrt(p * (1.0 - p) / draws), k


@pytest.mark.parametrize("deviation", [0.1, 0.5])
def test_actions_are_uniform_until_learning_starts_and_then_the_actor_s_with_noise(deviation: float) -> None:
    agent = agent_of([STILL] * 2, learning_starts=50, action_noise=deviation)
    run = started(agent, [STEEP, FLAT], actor=[0.5, 0.25])
    observations = np.linspace(-2.0, 8.0, 2000, dtype=np.float32)[:, None]
    _, uniform = acted(agent.act(run, observations, Clock(49, 49, 1000), np.random.default_rng(0)))
    assert uniform.shape == (2000, 1) and uniform.dtype == np.float32
    shares = np.histogram(uniform, bins=10, range=(-1.0, 1.0))[0] / 2000
    assert (np.abs(shares - 0.1) <= 4.0 * math.sqrt(0.1 * 0.9 / 2000)).all()
    _, chosen = acted(agent.act(run, observations, Clock(50, 50, 1000), np.random.default_rng(0)))
    noise = np.random.default_rng(0).standard_normal((2000, 1), np.float32)
    mode = np.tanh(0.5 * observations + 0.25)
    np.testing.assert_allclose(chosen, np.clip(mode + deviation * noise, -1.0, 1.0), atol=1e-6)
    assert (chosen == 1.0).sum() > 100  # clipped where the actor is near the limit
    assert chosen.dtype == np.float32
    # As a policy: without noise, or with that of training.
    np.testing.assert_allclose(agent.policy(run, observations, None, Clock()), mode, atol=1e-6)
    explored = agent.policy(run, observations, np.random.default_rng(0), Clock())
    np.testing.assert_array_equal(explored, chosen)


def test_without_noise_the_actions_are_the_actor_s() -> None:
    agent = agent_of([STILL] * 2, learning_starts=0, action_noise=0.0)
    run, observations = started(agent, [STEEP, FLAT], actor=[0.5, 0.25]), np.ones((3, 1), np.float32)
    _, chosen = acted(agent.act(run, observations, Clock(5, 5, 10), np.random.default_rng(0)))
    np.testing.assert_allclose(chosen, np.full((3, 1), math.tanh(0.75)), rtol=1e-6)
