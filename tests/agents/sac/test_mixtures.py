"""A mixture of all critics as target of SAC, against numbers worked out by hand."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.sac import SACAgent, State
from adaqn.members.selection import Selection
from tests.agents.outcomes import learned
from tests.agents.sac.cases import FLAT, HIGH, LOW, STEEP, STILL, agent_of, batch_of, started, summed_up, updated

# A centred actor without noise takes a' = 0. At x' = 2 they say 2, 1, -1 and 8.
CRITICS = [STEEP, FLAT, LOW, HIGH]
TWO = batch_of((1.0, 0.5, [1.0], 2.0, False), (1.0, -0.5, [1.0], 2.0, True))


def mixture(selection: str = "inverse_loss", members: int = 4) -> SACAgent:
    return agent_of([STILL] * members, selection=selection)


def with_weights(run: State, members: list[int], weights: list[float]) -> State:
    selected = Selection(jnp.asarray(members, jnp.int32), jnp.asarray(weights))
    return run._replace(learning=run.learning._replace(selected=selected))


def begun(agent: SACAgent, critics: list[list[float]] = CRITICS) -> State:
    """A state with these critics and the initial equal weights."""
    run, size = started(agent, critics), len(critics)
    return with_weights(run, list(range(size)), [1.0 / size] * size)


@pytest.mark.parametrize("selection", ["softmax", "inverse_loss"])
def test_it_begins_with_equal_weights_of_all(selection: str) -> None:
    selected = mixture(selection).init(0).learning.selected
    assert (selected.members.tolist(), selected.weights.tolist()) == ([0, 1, 2, 3], [0.25] * 4)


def test_the_target_is_the_weighted_mean_and_not_the_smallest_value() -> None:
    agent = mixture()
    run = updated(agent, begun(agent), TWO)
    # 2½ on average, so y = 1 + ½ 2½ = 2¼ for the first; the second is cut, y = 1. STEEP predicts 2 and 0, off by -¼ and
    # -1; FLAT by -1¼ and 0; LOW by -3¼ and -2; HIGH by 5¾ and 7.
    assert run.learning.record.last_loss.tolist() == [0.265625, 0.390625, 3.640625, 20.515625]
    # ½ 8 + ¼ 1 + ¼ (-1) + 0 = 4, so y = 3 for the first: FLAT is off by -2.
    run = updated(agent, with_weights(begun(agent), [3, 1, 2, 0], [0.5, 0.25, 0.25, 0.0]), TWO)
    assert run.learning.record.last_loss.tolist()[1] == 1.0


def test_weights_are_updated_after_every_update_and_the_leading_pair_is_counted() -> None:
    agent = mixture()
    run = updated(agent, begun(agent), TWO)
    # Half of the losses above, since the average follows with the rate ½; only their relation matters.
    losses = np.array([0.265625, 0.390625, 3.640625, 20.515625])
    assert run.learning.record.loss.tolist() == (0.5 * losses).tolist()
    assert run.learning.selected.members.tolist() == [0, 1, 2, 3]
    weights = (1.0 / losses) / (1.0 / losses).sum()
    np.testing.assert_allclose(run.learning.selected.weights, weights, rtol=1e-4)
    assert run.learning.record.selections.tolist() == [1, 1, 0, 0]
    # The next update learns from these weights.
    y = 1.0 + 0.5 * float((weights * [2.0, 1.0, -1.0, 8.0]).sum())
    run = updated(agent, run, TWO)
    np.testing.assert_allclose(run.learning.record.last_loss[1], 0.25 * (1.0 - y) ** 2, rtol=1e-3)
    # With this y FLAT has the smaller average: it leads now, and both were in the lead all the time.
    assert run.learning.selected.members.tolist() == [1, 0, 2, 3]
    run, event = summed_up(agent, run)
    assert (event.target, event.selected) == (1, (1.0, 1.0, 0.0, 0.0))


def test_the_actor_follows_the_leading_pair() -> None:
    agent = mixture()
    falling = [0.0, -4.0, 3.0]  # Q = 3 - 4a
    # y = 1 for both, where FLAT and STEEP are the best two: as with a pair, they train the actor without exploring.
    batch = batch_of((1.0, 0.5, [1.0], 2.0, True), (3.0, -0.5, [1.0], 2.0, True))
    run = updated(agent, begun(agent, [STEEP, FLAT, LOW, falling]), batch, Operation.ACTOR_UPDATE, epsilon=0.0)
    assert run.learning.selected.members.tolist()[:2] == [1, 0]
    assert run.learning.record.acted.tolist() == [1, 1, 0, 0]
    # FLAT says 1 and STEEP 1 and 3: half of the slope 2 at x = 1, and the rate ½ over two samples.
    assert run.learning.actor.parameters.tolist() == [0.25, 0.0, 0.25, 0.0]


@pytest.mark.parametrize("broken", [math.nan, 1e30])
def test_a_critic_that_cannot_be_computed_with_is_left_out(broken: float) -> None:
    agent, rng = mixture(members=3), np.random.default_rng(0)
    run = begun(agent, [STEEP, FLAT, [broken] * 3])
    before = jax.device_get(run.learning.ensemble)
    run = learned(agent.update(run, Operation.UPDATE, TWO, Clock(), rng))
    # With a weight it makes the target unusable: no member learned, and it is marked as diverged.
    assert run.learning.record.diverged.tolist() == [False, False, True]
    assert run.learning.record.last_loss.tolist() == [0.0] * 3
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(run.learning.ensemble), before)
    assert run.learning.selected.members.tolist()[2] == 2
    np.testing.assert_allclose(run.learning.selected.weights, [0.5, 0.5, 0.0], rtol=1e-6)
    # From then on its weight is 0: STEEP and FLAT say 2 and 1, so y = 1¾ for the first, where FLAT is off by -¾.
    run = updated(agent, run, TWO)
    np.testing.assert_allclose(run.learning.record.last_loss[1], 0.25 * 0.75**2, rtol=1e-6)
    assert run.learning.record.diverged.tolist() == [False, False, True]
    run, event = summed_up(agent, run)
    assert event.newly_diverged == (2,) and event.cumulated_loss[2] == math.inf


def test_two_critics_of_which_one_lives_are_that_one() -> None:
    agent = mixture(members=2)
    run = begun(agent, [STEEP, FLAT])
    record = run.learning.record._replace(diverged=jnp.asarray([True, False]))
    run = updated(agent, run._replace(learning=run.learning._replace(record=record)), TWO)
    assert run.learning.selected.members.tolist() == [1, 1]
    assert run.learning.selected.weights.tolist() == [1.0, 0.0]
    # FLAT says 1 at x' = 2: y = 1½, off by -½ and 0.
    run = updated(agent, run, TWO)
    assert run.learning.record.last_loss.tolist()[1] == 0.0625
