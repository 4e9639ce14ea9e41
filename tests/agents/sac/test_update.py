"""Updates of SAC's critics and the choice of the pair (Algorithm 2, lines 5 to 13), with numbers worked out by hand."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaqn.agents.execution.actor_critic import compiled_programs
from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.sac import Draws, SACAgent, SACProgram, SACState, start
from adaqn.agents.settings import SACSettings
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.networks.ensemble import Ensemble
from adaqn.networks.network import Network
from adaqn.replay.protocol import Batch
from tests.agents.outcomes import learned
from tests.agents.sac.cases import (
    FLAT,
    HIGH,
    LOW,
    STEEP,
    STILL,
    agent_of,
    batch_of,
    by_member,
    critics_of,
    grouped,
    started,
    summed_up,
    targets_of,
    updated,
)

CRITICS = [STEEP, FLAT, LOW, HIGH]
LOG_DENSITY_AT_MEAN = -0.5 * math.log(2.0 * math.pi)  # of a centred actor with deviation 1, where tanh has slope 1
# A centred actor without noise takes a' = 0. STEEP says 2 at x' = 2 and FLAT 1, so y = 1 + ½ 1 = 1.5 for the first;
# the second is cut, y = 1. STEEP predicts 2 and 0: errors ½ and -1, mean of ½e² 0.3125. FLAT is off by -½ and 0,
# 0.0625; LOW by -2½ and -2, 2.5625; HIGH by 6½ and 7, 22.8125.
TWO = batch_of((1.0, 0.5, [1.0], 2.0, False), (1.0, -0.5, [1.0], 2.0, True))
LOSSES = [0.3125, 0.0625, 2.5625, 22.8125]


@cache
def agent_with(selection: str = "lowest") -> SACAgent:
    return agent_of([STILL] * 4, selection=selection)


def test_all_critics_are_compared_with_the_smaller_target_of_the_pair() -> None:
    run = updated(agent_with(), started(agent_with(), CRITICS), TWO)
    assert run.learning.record.last_loss.tolist() == LOSSES
    # With FLAT and LOW as pair, y = 1 + ½ (-1) = ½ and 1: FLAT is off by ½ and 0, LOW by -1½ and -2.
    run = updated(agent_with(), started(agent_with(), CRITICS, pair=(1, 2)), TWO)
    assert run.learning.record.last_loss.tolist()[1:3] == [0.0625, 0.5 * (1.125 + 2.0)]
    # In which order they are makes no difference.
    other = updated(agent_with(), started(agent_with(), CRITICS, pair=(2, 1)), TWO)
    assert other.learning.record.last_loss.tolist() == run.learning.record.last_loss.tolist()


def test_the_target_is_of_the_averaged_critics_not_of_those_that_learn() -> None:
    run = updated(agent_with(), started(agent_with(), CRITICS, targets=[HIGH, HIGH, LOW, LOW]), TWO)
    # y = 1 + ½ 8 = 5 and 1, while the predictions are the online ones: FLAT is off by -4 and 0.
    assert run.learning.record.last_loss.tolist()[1] == 4.0


def test_the_next_action_is_drawn_from_the_actor() -> None:
    # a' = tanh(½ + ½ 2) for the first, where STEEP says 2 + 2 a' and the other is far above.
    action = math.tanh(1.5)
    run = started(agent_with(), CRITICS, pair=(0, 3), actor=[0.0, 0.0, 0.5, math.log(0.5)])
    run = updated(agent_with(), run, TWO, next_noise=(2.0, 0.0))
    error = 1.0 - (1.0 + 0.5 * (2.0 + 2.0 * action))  # of FLAT
    np.testing.assert_allclose(run.learning.record.last_loss[1], 0.25 * error**2, rtol=1e-5)
    # The actor sees the next observation: mean -¼ x' = -½.
    run = started(agent_with(), CRITICS, pair=(0, 3), actor=[-0.25, 0.0, 0.0, 0.0])
    error = 1.0 - (1.0 + 0.5 * (2.0 + 2.0 * math.tanh(-0.5)))
    np.testing.assert_allclose(updated(agent_with(), run, TWO).learning.record.last_loss[1], 0.25 * error**2, rtol=1e-5)


def test_improbable_actions_are_worth_more() -> None:
    run = updated(agent_with(), started(agent_with(), CRITICS, alpha=0.5), TWO)
    # y = 1 + ½ (1 - ½ log π) for the first; entropy of what follows a termination counts as little as its value.
    y = 1.0 + 0.5 * (1.0 - 0.5 * LOG_DENSITY_AT_MEAN)
    np.testing.assert_allclose(run.learning.record.last_loss[1], 0.25 * (1.0 - y) ** 2, rtol=1e-5)
    assert y > 1.5


def test_several_steps_are_discounted_one_by_one() -> None:
    # y = 1 + ½ 4 + ¼ 1 = 3.25 over two steps, and 1 + ½ 4 = 3 where the second of them terminated; FLAT says 1.
    batch = batch_of((1.0, 0.0, [1.0, 4.0], 2.0, False), (1.0, 0.0, [1.0, 4.0], 2.0, True))
    run = updated(agent_with(), started(agent_with(), CRITICS), batch)
    assert run.learning.record.last_loss.tolist()[1] == 0.25 * (2.25**2 + 2.0**2)


def test_losses_are_averaged_with_rate_tau_and_never_reset() -> None:
    run = started(agent_with(), CRITICS)
    assert run.learning.record.loss.tolist() == [0.0] * 4
    expected = np.zeros(4)
    for _ in range(3):
        run = updated(agent_with(), run, TWO)
        expected = 0.5 * expected + 0.5 * np.array(LOSSES)
        assert run.learning.record.loss.tolist() == expected.tolist()
    _, event = summed_up(agent_with(), run)
    assert event.cumulated_loss == tuple(expected.tolist())


def test_a_critic_descends_its_error_and_its_target_follows_with_rate_tau() -> None:
    agent = agent_of([STILL.replace(learning_rate=0.5), STILL, STILL, STILL])
    run = updated(agent, started(agent, CRITICS), TWO)
    # STEEP's errors ½ and -1 at (x, a) = (1, ½) and (1, -½): slopes -¼, (¼ + ½) / 2 and -¼, of which it takes half.
    assert critics_of(agent, run) == [[1.125, 1.8125, 0.125], FLAT, LOW, HIGH]
    # Halfway from where the target was to where the critic is now.
    assert targets_of(agent, run) == [[1.0625, 1.90625, 0.0625], FLAT, LOW, HIGH]


@pytest.mark.parametrize(("selection", "pair"), [("lowest", [1, 0]), ("highest", [3, 2])])
def test_the_pair_is_chosen_after_every_update(selection: str, pair: list[int]) -> None:
    agent = agent_with(selection)
    run = started(agent, CRITICS)
    assert run.learning.selected.members.tolist() == [0, 1]
    run = updated(agent, run, TWO)
    assert run.learning.selected.members.tolist() == pair
    assert run.learning.selected.weights.tolist() == [0.5, 0.5]
    assert run.learning.record.selections.tolist() == [int(k in pair) for k in range(4)]
    # What LOW predicts, so that with half of the weight it has the second smallest average soon.
    low = batch_of((0.0, 0.0, [-1.0], 0.0, True), (0.0, 0.0, [-1.0], 0.0, True))
    for _ in range(3):
        run = updated(agent, run, low)
    expected = np.argsort(np.asarray(run.learning.record.loss), kind="stable")
    chosen = run.learning.selected.members.tolist()
    assert chosen == (expected[:2].tolist() if selection == "lowest" else expected[::-1][:2].tolist())
    if selection == "lowest":
        assert chosen == [2, 0]


@pytest.mark.parametrize("selection", ["lowest", "random", "highest"])
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0.0, 1e6, width=32), min_size=4, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4).filter(lambda diverged: not all(diverged)),
    st.integers(0, 2**31),
)
def test_the_pair_is_always_distinct_and_alive_while_two_live(
    selection: str, losses: list[float], diverged: list[bool], seed: int
) -> None:
    agent = agent_with(selection)
    alive = [k for k in range(4) if not diverged[k]]
    run = started(agent, [FLAT] * 4, pair=(alive[0], alive[-1]))
    record = run.learning.record._replace(loss=jnp.asarray(losses, jnp.float32), diverged=jnp.asarray(diverged))
    learning = run.learning._replace(record=record)
    run = learned(
        agent.update(run._replace(learning=learning), Operation.UPDATE, TWO, Clock(), np.random.default_rng(seed))
    )
    pair = run.learning.selected.members.tolist()
    assert set(pair) <= set(alive)
    assert len(set(pair)) == min(2, len(alive))
    averages = np.asarray(run.learning.record.loss)
    outside = [averages[k] for k in alive if k not in pair]
    if outside and selection == "lowest":
        assert averages[pair].max() <= min(outside)
    if outside and selection == "highest":
        assert averages[pair].min() >= max(outside)


def test_a_random_pair_is_any_two_equally_often() -> None:
    agent, rng, draws = agent_with("random"), np.random.default_rng(0), 3000
    run, pairs = started(agent, CRITICS), Counter()
    for _ in range(draws):
        run = learned(agent.update(run, Operation.UPDATE, TWO, Clock(), rng))
        pairs[tuple(sorted(run.learning.selected.members.tolist()))] += 1
    assert set(pairs) == set(itertools.combinations(range(4), 2))
    for times in pairs.values():
        assert abs(times / draws - 1 / 6) <= 4.0 * math.sqrt(1 / 6 * 5 / 6 / draws)
    np.testing.assert_allclose([member.selected for member in agent.report(run, Clock()).members], 0.5, atol=0.04)


def test_critics_learn_with_their_own_discount_and_are_compared_with_gamma() -> None:
    members = [STILL.replace(learning_rate=1.0, discount=discount) for discount in (0.25, None, 1.0, 0.0)]
    agent = agent_of(members)
    batch = batch_of((0.0, 0.0, [1.0], 2.0, False), (0.0, 0.0, [1.0], 2.0, False))
    run = updated(agent, started(agent, [FLAT] * 4), batch)
    # y = 1 + γ 1, all predict 1. Compared by γ = ½, all are off by ½.
    assert [row[2] for row in critics_of(agent, run)] == [1.25, 1.5, 2.0, 1.0]
    assert run.learning.record.last_loss.tolist() == [0.125] * 4


def test_critics_with_other_losses_are_compared_by_the_squared_error() -> None:
    losses = ["l2", "l1", "huber", "log_cosh"]
    agent = agent_of([STILL.replace(learning_rate=1.0, loss=loss) for loss in losses])
    batch = batch_of((0.0, 0.0, [3.0], 2.0, True), (0.0, 0.0, [3.0], 2.0, True))
    run = updated(agent, started(agent, [FLAT] * 4), batch)
    # 1 against y = 3: an error of -2, so L2 is 2 for each, while the slopes are 2, 1, 1 and tanh 2.
    assert run.learning.record.last_loss.tolist() == [2.0] * 4
    moved = [row[2] - 1.0 for row in critics_of(agent, run)]
    np.testing.assert_allclose(moved, [2.0, 1.0, 1.0, math.tanh(2.0)], rtol=1e-5)


def test_a_new_run_begins_with_the_first_two_and_targets_equal_to_their_critics() -> None:
    run = agent_with().init(3)
    assert run.learning.selected.members.tolist() == [0, 1]
    for online, target in zip(run.learning.ensemble, run.learning.target, strict=True):
        assert online.parameters.tolist() == target.tolist()
        assert len({tuple(row) for row in np.asarray(target).tolist()}) == 4
    assert run.learning.record.choices == 0


def test_rows_of_the_report() -> None:
    agent = agent_with()
    run = started(agent, CRITICS)
    for _ in range(3):
        run = updated(agent, run, TWO)
    run = updated(agent, run, TWO, Operation.ACTOR_UPDATE, epsilon=1.0, behaviour=[0.0, 0.1, 0.2, 0.8, 0.9])
    run, event = summed_up(agent, run)
    assert (event.step, event.target, event.newly_diverged) == (7, 1, ())
    assert event.selected == (1.0, 1.0, 0.0, 0.0)
    assert event.acted == (0.0, 0.0, 1.0, 1.0)
    # Counters since the last report are reset; those of the whole run are kept.
    run = updated(agent, run, TWO)
    run, event = summed_up(agent, run, step=8)
    assert (event.selected, event.acted) == ((1.0, 1.0, 0.0, 0.0), (0.0,) * 4)
    reports = agent.report(run, Clock()).members
    assert [report.selected for report in reports] == [1.0, 1.0, 0.0, 0.0]
    assert [report.selections for report in reports] == [5, 5, 0, 0]
    assert [report.cumulated_loss for report in reports] == run.learning.record.loss.tolist()
    metrics = agent.report(run, Clock(step=500, horizon=1000)).metrics
    assert metrics["train/loss"] == 0.0625 and metrics["ada/loss_3"] == 22.8125
    assert metrics["train/ent_coef"] == 0.0
    assert metrics["train/entropy"] == pytest.approx(-LOG_DENSITY_AT_MEAN)
    assert metrics["ada/behaviour_rate"] == pytest.approx(0.505)


TANH = Hyperparameters(hidden=(5,), activation="tanh", learning_rate=0.01)
MIXED = (
    TANH,
    Hyperparameters(hidden=(), optimizer="sgd", learning_rate=0.02, loss="l1"),
    TANH.replace(learning_rate=0.03, discount=0.5),
    TANH.replace(learning_rate=0.005),
)
DIMENSIONS, ACTIONS, BATCH = 2, 2, 8


def lived(
    members: tuple[Hyperparameters, ...], order: list[int], group: bool
) -> tuple[Ensemble, SACState, list[list[int]]]:
    """Some updates of these members, a permutation of MIXED, and the pairs as indices into MIXED."""
    given = SACSettings(actor_hidden="6", actor_activation="tanh", tau=0.2, gamma=0.9)
    base = Ensemble.of(MIXED, (DIMENSIONS + ACTIONS,), 1)
    weights = by_member(base, base.parameters(base.init(MIXED, np.random.default_rng(5))))
    ensemble = Ensemble.of(members, (DIMENSIONS + ACTIONS,), 1, grouped=group)
    program = SACProgram(ensemble, Network(given.actor.architecture, (DIMENSIONS,), 2 * ACTIONS), given)
    discounts = np.array([m.discount or 0.9 for m in members], np.float32)
    state = start(program, members, discounts, seed=0)
    rows = grouped(ensemble, [weights[k] for k in order])
    actor = np.random.default_rng(6).normal(0.0, 0.3, program.actor.size)
    state = state._replace(
        ensemble=tuple(g._replace(parameters=r) for g, r in zip(state.ensemble, rows, strict=True)),
        target=jax.tree.map(jnp.copy, rows),
        actor=state.actor._replace(parameters=jnp.asarray(actor, jnp.float32)),
        selected=state.selected._replace(members=jnp.asarray([order.index(0), order.index(1)], jnp.int32)),
    )
    update, pairs = compiled_programs(SACAgent.functions, program).update[Operation.ACTOR_UPDATE], []
    rng = np.random.default_rng(7)
    for _ in range(12):
        x, following = rng.standard_normal((2, BATCH, DIMENSIONS), np.float32)
        action = rng.uniform(-1.0, 1.0, (BATCH, ACTIONS)).astype(np.float32)
        reward, ends = rng.standard_normal((BATCH, 1), np.float32), rng.integers(2, size=BATCH).astype(np.float32)
        batch = Batch(x, action, reward, following, ends, np.ones(BATCH, np.int32))
        next_noise, noise = rng.standard_normal((2, BATCH, ACTIONS), np.float32)
        uniforms = rng.random(5, np.float32)
        draws = Draws(next_noise, noise, np.zeros(4, np.float32), uniforms[[0, *(1 + k for k in order)]])
        state = update(state, batch, draws, np.float32(0.5))
        pairs.append([order[k] for k in state.selected.members.tolist()])
    return ensemble, state, pairs


def test_neither_the_order_of_members_nor_their_grouping_matters() -> None:
    base, expected, pairs = lived(MIXED, [0, 1, 2, 3], group=True)
    assert len(base.groups) == 2 and len({tuple(pair) for pair in pairs}) > 2
    order = [3, 2, 0, 1]
    ensemble, state, same_pairs = lived(tuple(MIXED[k] for k in order), order, group=False)
    assert len(ensemble.groups) == 4
    assert same_pairs == pairs
    there = [order.index(k) for k in range(4)]
    for mine, theirs in (
        (by_member(base, base.parameters(expected.ensemble)), by_member(ensemble, ensemble.parameters(state.ensemble))),
        (by_member(base, expected.target), by_member(ensemble, state.target)),
    ):
        for k in range(4):
            np.testing.assert_allclose(theirs[there[k]], mine[k], rtol=1e-4, atol=1e-6)
    for name in ("loss", "last_loss", "selections", "acted"):
        mine, theirs = getattr(expected.record, name), getattr(state.record, name)
        np.testing.assert_allclose(theirs[np.array(there)], mine, rtol=1e-4)
    np.testing.assert_allclose(state.actor.parameters, expected.actor.parameters, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(state.log_alpha.parameters, expected.log_alpha.parameters, rtol=1e-4)
