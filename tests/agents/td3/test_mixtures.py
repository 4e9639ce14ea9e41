"""A mixture of all critics as target of TD3, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.registry import algorithm
from adaqn.base.errors import UserError
from tests.agents.outcomes import learned
from tests.agents.sac.cases import FLAT, HIGH, LOW, STEEP, STILL, batch_of
from tests.agents.td3.cases import agent_of, started, summed_up, updated

# A centred actor without noise takes a' = 0. At x' = 2 they say 2, 1, -1 and 8.
CRITICS = [STEEP, FLAT, LOW, HIGH]
ALL = {"pair": range(4), "weights": [0.25] * 4}
TWO = batch_of((1.0, 0.5, [1.0], 2.0, False), (1.0, -0.5, [1.0], 2.0, True))
# 2½ on average, so y = 1 + ½ 2½ = 2¼ for the first; the second is cut, y = 1. STEEP predicts 2 and 0, off by -¼ and
# -1; FLAT by -1¼ and 0; LOW by -3¼ and -2; HIGH by 5¾ and 7.
LOSSES = np.array([0.265625, 0.390625, 3.640625, 20.515625])


@pytest.mark.parametrize("selection", ["softmax", "inverse_loss"])
def test_it_begins_with_equal_weights_of_all(selection: str) -> None:
    selected = agent_of([STILL] * 4, selection=selection).init(0).learning.selected
    assert (selected.members.tolist(), selected.weights.tolist()) == ([0, 1, 2, 3], [0.25] * 4)


def test_the_target_is_the_weighted_mean_at_the_smoothed_action() -> None:
    agent = agent_of([STILL] * 4, selection="inverse_loss")
    run = updated(agent, started(agent, CRITICS, **ALL), TWO)
    assert run.learning.record.last_loss.tolist() == LOSSES.tolist()
    # Smoothed by 0.2, STEEP says 2.4: with weights ½, ¼, ¼ and 0 of STEEP, FLAT, LOW and HIGH, y = 1 + ½ 1.2.
    run = started(agent, CRITICS, pair=[0, 1, 2, 3], weights=[0.5, 0.25, 0.25, 0.0])
    run = updated(agent, run, TWO, smoothing=(1.0, 0.0))
    np.testing.assert_allclose(run.learning.record.last_loss[1], 0.25 * 0.6**2, rtol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_softmax_weights_follow_the_losses_after_every_update(temperature: float) -> None:
    agent = agent_of([STILL] * 4, selection="softmax", selection_temperature=temperature)
    run = updated(agent, started(agent, CRITICS, **ALL), TWO)
    scores = np.exp(-LOSSES / (temperature * LOSSES.mean()))
    np.testing.assert_allclose(run.learning.selected.weights, scores / scores.sum(), rtol=1e-4)
    assert run.learning.selected.members.tolist() == [0, 1, 2, 3]
    assert run.learning.record.selections.tolist() == [1, 1, 0, 0]  # the two with the largest weights
    # The next update learns from these weights.
    y = 1.0 + 0.5 * float((scores / scores.sum() * [2.0, 1.0, -1.0, 8.0]).sum())
    run = updated(agent, run, TWO)
    np.testing.assert_allclose(run.learning.record.last_loss[1], 0.25 * (1.0 - y) ** 2, rtol=1e-3)


def test_the_actor_follows_the_member_with_the_largest_weight() -> None:
    agent = agent_of([STILL] * 4, selection="inverse_loss")
    # STEEP is the best of them, above: its slope is 2 at x = 1 twice, and the rate ½.
    run = updated(agent, started(agent, CRITICS, **ALL), TWO, Operation.ACTOR_UPDATE)
    assert run.learning.record.acted.tolist() == [1, 0, 0, 0]
    assert run.learning.actor.parameters.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("broken", [math.nan, 1e30])
def test_a_critic_that_cannot_be_computed_with_is_left_out(broken: float) -> None:
    agent, rng = agent_of([STILL] * 3, selection="inverse_loss"), np.random.default_rng(0)
    run = started(agent, [STEEP, FLAT, [broken] * 3], pair=range(3), weights=[1 / 3] * 3)
    run = learned(agent.update(run, Operation.UPDATE, TWO, Clock(), rng))
    # With a weight it makes the target unusable: no member learned, and it is marked as diverged.
    assert run.learning.record.diverged.tolist() == [False, False, True]
    assert run.learning.record.last_loss.tolist() == [0.0] * 3
    np.testing.assert_allclose(run.learning.selected.weights, [0.5, 0.5, 0.0], rtol=1e-6)
    # From then on its weight is 0: STEEP and FLAT say 2 and 1, so y = 1¾ for the first, where FLAT is off by -¾.
    run = updated(agent, run, TWO)
    np.testing.assert_allclose(run.learning.record.last_loss[1], 0.25 * 0.75**2, rtol=1e-6)
    run, event = summed_up(agent, run)
    assert event.newly_diverged == (2,) and event.cumulated_loss[2] == math.inf


def test_a_temperature_is_for_softmax_alone() -> None:
    with pytest.raises(UserError, match="selection_temperature is for selection=softmax"):
        algorithm("adatd3").configure({"selection_temperature": 2.0})
