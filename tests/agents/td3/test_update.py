"""TD3's target, the step of its critics and the choice of the pair, against numbers worked out by hand."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.td3 import TD3Agent, target_action
from tests.agents.outcomes import learned
from tests.agents.sac.cases import FLAT, HIGH, LOW, STEEP, STILL, batch_of
from tests.agents.td3.cases import agent_of, critics_of, random_batch, started, summed_up, targets_of, updated

CRITICS = [STEEP, FLAT, LOW, HIGH]
# A centred actor without noise takes a' = 0. STEEP says 2 at x' = 2 and FLAT 1, so y = 1 + ½ 1 = 1.5 for the first;
# the second is cut, y = 1. STEEP predicts 2 and 0: errors ½ and -1, mean of ½e² 0.3125. FLAT is off by -½ and 0,
# 0.0625; LOW by -2½ and -2, 2.5625; HIGH by 6½ and 7, 22.8125.
TWO = batch_of((1.0, 0.5, [1.0], 2.0, False), (1.0, -0.5, [1.0], 2.0, True))
LOSSES = [0.3125, 0.0625, 2.5625, 22.8125]


@cache
def agent_with(selection: str = "lowest") -> TD3Agent:
    return agent_of([STILL] * 4, selection=selection)


def test_smoothing_is_scaled_then_clipped_and_so_is_the_action() -> None:
    agent = agent_of([STILL] * 2)
    run = started(agent, [STEEP, FLAT], actor=[0.0, -3.0], target_actor=[0.25, math.atanh(0.75)])
    noise = np.array([[0.0], [1.0], [-1.0], [2.0], [10.0], [-10.0]], np.float32)
    # At x' = 0 the target actor takes ¾, whatever the actor does. Noise of 0.2 and -0.2 goes through; 0.4 is within
    # the limit of ½, but the action is not within 1; 2 and -2 become ½ and -½.
    actions = target_action(agent.program(run.members), run.learning, jnp.zeros((6, 1)), jnp.asarray(noise))
    np.testing.assert_allclose(actions[:, 0], [0.75, 0.95, 0.55, 1.0, 1.0, 0.25], rtol=1e-6)
    # It sees the next observation.
    actions = target_action(agent.program(run.members), run.learning, jnp.full((1, 1), -4.0), jnp.zeros((1, 1)))
    np.testing.assert_allclose(actions, [[math.tanh(math.atanh(0.75) - 1.0)]], rtol=1e-6)


def test_the_amount_of_smoothing_can_be_set() -> None:
    agent = agent_of([STILL] * 2, target_policy_noise=0.5, target_noise_clip=0.25)
    run = started(agent, [STEEP, FLAT])
    noise = jnp.asarray([[0.3], [-0.4], [3.0], [-3.0]])
    actions = target_action(agent.program(run.members), run.learning, jnp.zeros((4, 1)), noise)
    np.testing.assert_allclose(actions[:, 0], [0.15, -0.2, 0.25, -0.25], rtol=1e-6)


def test_the_target_is_the_smaller_value_of_the_pair_at_the_smoothed_action() -> None:
    run = started(agent_with(), CRITICS, pair=(0, 3), actor=[0.0, -3.0], target_actor=[0.0, math.atanh(0.5)])
    run = updated(agent_with(), run, TWO, smoothing=(1.0, 0.0))
    # a' = ½ + 0.2, where STEEP says 2 + 1.4 and HIGH 8: y = 1 + ½ 3.4. The second is cut: y = 1. FLAT says 1.
    np.testing.assert_allclose(run.learning.record.last_loss[1], 0.25 * 1.7**2, rtol=1e-5)
    # A pair with LOW: y = 1 - ½ and 1, in either order.
    for pair in ((0, 2), (2, 0)):
        run = updated(agent_with(), started(agent_with(), CRITICS, pair=pair), TWO)
        assert run.learning.record.last_loss.tolist()[1] == 0.0625


def test_the_target_is_of_the_averaged_critics_not_of_those_that_learn() -> None:
    run = updated(agent_with(), started(agent_with(), CRITICS, targets=[HIGH, HIGH, LOW, LOW]), TWO)
    # y = 1 + ½ 8 = 5 and 1, while the predictions are the online ones: FLAT is off by -4 and 0.
    assert run.learning.record.last_loss.tolist()[1] == 4.0


def test_several_steps_are_discounted_one_by_one() -> None:
    # y = 1 + ½ 4 + ¼ 1 = 3.25 over two steps, and 1 + ½ 4 = 3 where the second of them terminated; FLAT says 1.
    batch = batch_of((1.0, 0.0, [1.0, 4.0], 2.0, False), (1.0, 0.0, [1.0, 4.0], 2.0, True))
    run = updated(agent_with(), started(agent_with(), CRITICS), batch)
    assert run.learning.record.last_loss.tolist()[1] == 0.25 * (2.25**2 + 2.0**2)


def test_one_step_of_linear_critics_is_that_of_a_calculation_by_hand() -> None:
    rng = np.random.default_rng(3)
    rates, discounts = [0.3, 0.1, 0.2], [0.9, None, 0.25]
    members = [STILL.replace(learning_rate=r, discount=g) for r, g in zip(rates, discounts, strict=True)]
    agent = agent_of(members)
    critics, targets = rng.normal(size=(2, 3, 3))
    batch, noise = random_batch(rng, size=5), rng.standard_normal(5).astype(np.float32)
    assert 0 < batch.terminated.sum() < 5
    run = started(agent, critics.tolist(), targets.tolist(), [0.7, -0.2], [-0.4, 0.3], pair=(2, 0))
    run = updated(agent, run, batch, smoothing=noise.tolist())

    x, action, following = (array[:, 0].astype(np.float64) for array in (batch.observation, batch.action, batch[3]))
    next_action = np.clip(np.tanh(-0.4 * following + 0.3) + np.clip(0.2 * noise, -0.5, 0.5), -1.0, 1.0)
    value = np.minimum(*(w[0] * following + w[1] * next_action + w[2] for w in (targets[2], targets[0])))
    features = np.stack([x, action, np.ones(5)], axis=1)
    expected, losses = [], []
    for weights, rate, discount in zip(critics, rates, discounts, strict=True):
        own, common = (
            features @ weights - (batch.rewards[:, 0] + g * (1.0 - batch.terminated) * value)
            for g in (discount or 0.5, 0.5)
        )
        expected.append(weights - rate * features.T @ own / 5)
        losses.append(0.5 * (common**2).mean())
    np.testing.assert_allclose(critics_of(agent, run), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run.learning.record.last_loss, losses, rtol=1e-5)
    assert np.abs(np.array(expected) - critics).max(axis=1).min() > 0.05


def test_an_update_of_the_critics_alone_moves_neither_the_actor_nor_any_target() -> None:
    agent = agent_of([STILL.replace(learning_rate=0.5)] * 4)
    before = started(agent, CRITICS, actor=[0.5, -0.25])
    after = updated(agent, before, TWO)
    assert critics_of(agent, after)[0] == [1.125, 1.8125, 0.125]  # slopes -¼, (¼ + ½) / 2 and -¼ of the errors ½ and -1
    assert targets_of(agent, after) == CRITICS
    for name in ("actor", "target_actor"):
        ours, theirs = (np.array(getattr(run.learning, name)[0]) for run in (after, before))
        np.testing.assert_array_equal(ours, theirs)
    assert after.learning.counts.made.tolist() == after.learning.counts.learned.tolist() == [1, 0]


def test_losses_are_averaged_with_rate_tau_and_never_reset() -> None:
    run, expected = started(agent_with(), CRITICS), np.zeros(4)
    for _ in range(3):
        run = updated(agent_with(), run, TWO)
        expected = 0.5 * expected + 0.5 * np.array(LOSSES)
        assert run.learning.record.loss.tolist() == expected.tolist()
    run, event = summed_up(agent_with(), run)
    assert event.cumulated_loss == tuple(expected.tolist())
    assert run.learning.record.loss.tolist() == expected.tolist()


@pytest.mark.parametrize(("selection", "pair"), [("lowest", [1, 0]), ("highest", [3, 2])])
def test_the_pair_is_chosen_after_every_update_and_counted(selection: str, pair: list[int]) -> None:
    agent = agent_with(selection)
    run = updated(agent, started(agent, CRITICS), TWO)
    assert run.learning.selected.members.tolist() == pair
    assert run.learning.record.selections.tolist() == [int(k in pair) for k in range(4)]
    # What LOW predicts, until its average is among the smallest.
    low = batch_of((0.0, 0.0, [-1.0], 0.0, True), (0.0, 0.0, [-1.0], 0.0, True))
    for _ in range(3):
        run = updated(agent, run, low)
    order = np.argsort(np.asarray(run.learning.record.loss), kind="stable").tolist()
    assert run.learning.selected.members.tolist() == (order[:2] if selection == "lowest" else order[::-1][:2])
    assert (order[0] == 2) and int(run.learning.record.choices) == 4


def test_randtd3_learns_from_any_two_equally_often() -> None:
    agent, rng, draws = agent_of([STILL] * 4, "randtd3"), np.random.default_rng(0), 2000
    run, pairs = started(agent, CRITICS), Counter()
    for _ in range(draws):
        run = learned(agent.update(run, Operation.UPDATE, TWO, Clock(), rng))
        pairs[tuple(sorted(run.learning.selected.members.tolist()))] += 1
    assert set(pairs) == set(itertools.combinations(range(4), 2))
    for times in pairs.values():
        assert abs(times / draws - 1 / 6) <= 4.0 * math.sqrt(1 / 6 * 5 / 6 / draws)


def test_rows_of_the_report() -> None:
    agent = agent_with()
    run = started(agent, CRITICS)
    for _ in range(3):
        run = updated(agent, run, TWO)
    # LOW is drawn before HIGH, and trains the actor alone.
    run = updated(agent, run, TWO, Operation.ACTOR_UPDATE, epsilon=1.0, behaviour=[0.0, 0.1, 0.2, 0.9, 0.8])
    run, event = summed_up(agent, run)
    assert (event.step, event.target, event.newly_diverged) == (7, 1, ())
    assert event.selected == (1.0, 1.0, 0.0, 0.0)
    assert event.acted == (0.0, 0.0, 1.0, 0.0)
    # Counters since the last report are reset; those of the whole run are kept.
    run = updated(agent, run, TWO)
    run, event = summed_up(agent, run, step=8)
    assert (event.selected, event.acted) == ((1.0, 1.0, 0.0, 0.0), (0.0,) * 4)
    report = agent.report(run, Clock(step=500, horizon=1000))
    assert [member.selections for member in report.members] == [5, 5, 0, 0]
    assert (report.metrics["train/loss"], report.metrics["ada/loss_3"]) == (0.0625, 22.8125)
    assert report.metrics["ada/behaviour_rate"] == pytest.approx(0.505)


def test_a_new_run_begins_with_targets_equal_to_critics_and_actor() -> None:
    run = agent_with().init(3)
    assert run.learning.selected.members.tolist() == [0, 1]
    for online, target in zip(run.learning.ensemble, run.learning.target, strict=True):
        assert online.parameters.tolist() == target.tolist()
        assert len({tuple(row) for row in np.asarray(target).tolist()}) == 4
    assert run.learning.actor.parameters.tolist() == run.learning.target_actor.tolist()
    assert np.abs(np.asarray(run.learning.target_actor)).max() > 0.0
