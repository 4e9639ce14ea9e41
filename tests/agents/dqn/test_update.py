"""Updates and target updates of DQN against numbers worked out by hand, on linear networks of one input."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from adaqn.agents.dqn import DQNAgent, State
from adaqn.agents.execution.value import FusedPrograms
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Operation, TargetUpdate
from adaqn.agents.settings import DQNSettings
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Batch, Transitions
from adaqn.replay.vectors import VectorReplay
from tests.agents.outcomes import learned

RNG = np.random.default_rng(0)  # required by the interface; nothing here is random
STILL = Hyperparameters(hidden=(), optimizer="sgd", learning_rate=0.0)
# Parameters are [w_0, w_1, b_0, b_1]: Q(x, a) = w_a x + b_a.
STEEP = [1.0, 2.0, 0.0, 0.0]  # Q(x) = (x, 2x)
FLAT = [0.0, 0.0, 0.0, 1.0]  # Q(x) = (0, 1)


def agent_of(members: list[Hyperparameters], **settings: Any) -> DQNAgent:
    values = {"gamma": 0.5, **settings}
    box, discrete = spaces.Box(-9.0, 9.0, (1,)), spaces.Discrete(2)
    return DQNAgent(DQNSettings(**values), Population(tuple(members)), box, discrete)


def started(agent: DQNAgent, parameters: list[list[float]]) -> State:
    """A state with these parameters of the members, online and in the snapshot."""
    run = agent.init(0)
    groups, rows = [], iter(parameters)
    for group in run.learning.ensemble:  # groups in the order of the members, in all tests here
        groups.append(group._replace(parameters=jnp.asarray([next(rows) for _ in group.parameters])))
    target = tuple(jnp.array(group.parameters, copy=True) for group in groups)
    return run._replace(learning=run.learning._replace(ensemble=tuple(groups), target=target))


def batch_of(*transitions: tuple[float, int, list[float], float, bool]) -> Batch:
    """Transitions as (x, action, rewards, x', terminated); as many steps as there are rewards."""
    x, action, rewards, following, terminated = zip(*transitions, strict=True)
    longest = max(len(r) for r in rewards)
    return Batch(
        np.array(x, np.float32)[:, None],
        np.array(action, np.int32),
        np.array([r + [0.0] * (longest - len(r)) for r in rewards], np.float32),
        np.array(following, np.float32)[:, None],
        np.array(terminated, np.float32),
        np.array([len(r) for r in rewards], np.int32),
    )


def parameters_of(run: State) -> list[list[float]]:
    return np.concatenate([group.parameters for group in run.learning.ensemble]).tolist()


def target_update(agent: DQNAgent, run: State) -> tuple[State, TargetUpdate]:
    run, (event,) = agent.perform(run, Operation.TARGET_UPDATE, Clock(step=7), RNG)
    assert isinstance(event, TargetUpdate)
    return run, event


# Q of the target member, STEEP, at x' = 2 is (2, 4), so y = 1 + ½ 4 = 3 for the first; the second is cut, y = 1.
# STEEP predicts 1 and 2: errors -2 and 1, mean of ½e² (2 + ½) / 2 = 1.25. FLAT predicts 0 and 1: -3 and 0, 2.25.
TWO = batch_of((1.0, 0, [1.0], 2.0, False), (1.0, 1, [1.0], 2.0, True))


def test_all_members_are_compared_with_the_target_of_one() -> None:
    agent = agent_of([STILL, STILL])
    run = learned(agent.update(started(agent, [STEEP, FLAT]), Operation.UPDATE, TWO, Clock(), RNG))
    assert run.learning.record.last_loss.tolist() == [1.25, 2.25]
    # With FLAT as target member, y = 1 + ½ 1 = 1.5 and 1: errors -½ and 1, 0.3125; and -1.5 and 0, 0.5625.
    run = started(agent, [STEEP, FLAT])
    selected = run.learning.selected._replace(members=jnp.asarray([1], jnp.int32))
    run = learned(
        agent.update(
            run._replace(learning=run.learning._replace(selected=selected)), Operation.UPDATE, TWO, Clock(), RNG
        )
    )
    assert run.learning.record.last_loss.tolist() == [0.3125, 0.5625]


def test_losses_are_summed_and_the_smallest_sum_wins() -> None:
    agent = agent_of([STILL, STILL])
    run = started(agent, [STEEP, FLAT])
    # y = 5 + ½ 4 = 7 for action 1 at x = 3, where STEEP predicts 6, ½, and FLAT 1, 18.
    other = batch_of((3.0, 1, [5.0], 2.0, False))
    for batch in (TWO, other, TWO):
        run = learned(agent.update(run, Operation.UPDATE, batch, Clock(), RNG))
    assert run.learning.record.loss.tolist() == [3.0, 22.5]
    assert run.learning.record.last_loss.tolist() == [1.25, 2.25]
    run, event = target_update(agent, run)
    assert event == TargetUpdate(7, target=0, cumulated_loss=(3.0, 22.5), acted=(0, 0), newly_diverged=(), discount=0.5)
    assert run.learning.record.loss.tolist() == [0.0, 0.0]
    # Cut, so y = 1 for action 1, as FLAT predicts; STEEP predicts 2.
    for _ in range(2):
        run = learned(agent.update(run, Operation.UPDATE, batch_of((1.0, 1, [1.0], 0.0, True)), Clock(), RNG))
    run, event = target_update(agent, run)
    assert (event.target, event.cumulated_loss) == (1, (1.0, 0.0))
    assert run.learning.record.selections.tolist() == [1, 1]
    # From now on FLAT makes the target: y = 1 + ½ 1 at x' = 2, where STEEP would say 3.
    run = learned(agent.update(run, Operation.UPDATE, batch_of((1.0, 1, [1.0], 2.0, False)), Clock(), RNG))
    assert run.learning.record.last_loss.tolist() == [0.125, 0.125]


def test_highest_takes_the_largest_sum() -> None:
    agent = agent_of([STILL, STILL], selection="highest")
    run = learned(agent.update(started(agent, [STEEP, FLAT]), Operation.UPDATE, TWO, Clock(), RNG))
    assert target_update(agent, run)[1].target == 1


def test_the_snapshot_is_of_the_target_update_and_does_not_move() -> None:
    agent = agent_of([STILL.replace(learning_rate=0.5)])
    run = started(agent, [STEEP])
    one = batch_of((1.0, 0, [1.0], 2.0, False))
    # Q(1, 0) = 1 against y = 1 + ½ max(2, 4) = 3: error -2, so w_0 and b_0 go up by ½ 2 = 1.
    run = learned(agent.update(run, Operation.UPDATE, one, Clock(), RNG))
    assert parameters_of(run) == [[2.0, 2.0, 1.0, 0.0]]
    # Now Q(1, 0) = 3 = y: with the snapshot still the first one, nothing is left to learn.
    run = learned(agent.update(run, Operation.UPDATE, one, Clock(), RNG))
    assert parameters_of(run) == [[2.0, 2.0, 1.0, 0.0]]
    run, _ = target_update(agent, run)
    assert np.asarray(run.learning.target[0]).tolist() == [[2.0, 2.0, 1.0, 0.0]]
    # The new snapshot says max(5, 4) = 5 at x' = 2, y = 3.5: error -½, so up by ¼.
    run = learned(agent.update(run, Operation.UPDATE, one, Clock(), RNG))
    assert parameters_of(run) == [[2.25, 2.0, 1.25, 0.0]]
    assert np.asarray(run.learning.target[0]).tolist() == [[2.0, 2.0, 1.0, 0.0]]
    # Q(1, 0) = 3.5 = y.
    run = learned(agent.update(run, Operation.UPDATE, one, Clock(), RNG))
    assert parameters_of(run) == [[2.25, 2.0, 1.25, 0.0]]


def test_several_steps_are_discounted_one_by_one() -> None:
    agent = agent_of([STILL], n_steps=3)
    # y = 1 + ½ 2 + ¼ 4 + ⅛ max(2, 4) = 3.5, and 1 + ½ 2 + ¼ max(2, 4) = 3 over two steps; Q(1, 0) = 1.
    batch = batch_of((1.0, 0, [1.0, 2.0, 4.0], 2.0, False), (1.0, 0, [1.0, 2.0], 2.0, False))
    run = learned(agent.update(started(agent, [STEEP]), Operation.UPDATE, batch, Clock(), RNG))
    assert run.learning.record.last_loss.tolist() == [(0.5 * 2.5**2 + 0.5 * 2.0**2) / 2.0]


@pytest.mark.parametrize(("terminated", "y"), [(True, 1.0), (False, 3.0)])
def test_termination_cuts_the_bootstrap_and_truncation_does_not(terminated: bool, y: float) -> None:
    replay = VectorReplay(4, n_envs=1, observation_shape=(1,), action_shape=(), action_dtype=np.int32)
    flags = np.array([terminated]), np.array([not terminated])
    x, following = np.array([[5.0]], np.float32), np.array([[2.0]], np.float32)
    replay.add(Transitions(x, np.array([0]), np.array([1.0], np.float32), following, *flags))
    agent = agent_of([STILL])
    run = learned(
        agent.update(
            started(agent, [STEEP]), Operation.UPDATE, replay.sample(np.random.default_rng(0), 2), Clock(), RNG
        )
    )
    assert run.learning.record.last_loss.tolist() == [0.5 * (5.0 - y) ** 2]


def test_members_with_other_losses_are_compared_by_the_squared_error() -> None:
    losses = ["l2", "l1", "huber", "log_cosh"]
    members = [Hyperparameters(hidden=(), optimizer="sgd", learning_rate=1.0, loss=loss) for loss in losses]
    agent = agent_of(members)
    # Q(1, 0) = 1, y = 3: an error of -2, so L2 is 2 for each, while the slopes are 2, 1, 1 and tanh 2.
    run = learned(
        agent.update(started(agent, [STEEP] * 4), Operation.UPDATE, batch_of((1.0, 0, [1.0], 2.0, False)), Clock(), RNG)
    )
    assert run.learning.record.last_loss.tolist() == [2.0] * 4
    moved = [row[2] for row in parameters_of(run)]
    np.testing.assert_allclose(moved, [2.0, 1.0, 1.0, np.tanh(2.0)], rtol=1e-5)


# Bins with the centres -3, -1, 1 and 3. Parameters are a kernel of 2 x 4 zeros and the logits of the two actions.
BINS = STILL.replace(head="categorical", bins=4, value_range=(-4, 4))


def categorical(*masses: list[float]) -> list[float]:
    return [0.0] * 8 + np.log(masses).ravel().tolist()


WIDE, NARROW = [0.45, 0.05, 0.05, 0.45], [0.1, 0.4, 0.3, 0.2]  # their means are 0 and 0.2


def test_categorical_members_are_compared_by_the_squared_error_of_their_expectation() -> None:
    # The cross-entropy with the histogram of y = 0, which is (0.088, 0.412, 0.412, 0.088), is 2.61 for WIDE and 1.22
    # for NARROW, and would choose NARROW; the errors are 0 and 0.2. A scalar member with an error of 0.1 is in between.
    agent = agent_of([BINS, BINS, STILL])
    own = [categorical(WIDE, NARROW), categorical(NARROW, WIDE), [0.0, 0.0, 0.1, 5.0]]
    run = started(agent, own)
    run = learned(agent.update(run, Operation.UPDATE, batch_of((1.0, 0, [0.0], 1.0, True)), Clock(), RNG))
    run, event = target_update(agent, run)
    np.testing.assert_allclose(event.cumulated_loss, [0.0, 0.02, 0.005], atol=1e-6)
    assert event.target == 0


def test_a_categorical_target_member_contributes_its_expectation() -> None:
    agent = agent_of([BINS, STILL])
    run = started(agent, [categorical(WIDE, NARROW), FLAT])
    run = learned(agent.update(run, Operation.UPDATE, batch_of((1.0, 1, [1.0], 2.0, False)), Clock(), RNG))
    # y = 1 + ½ max(0, 0.2) = 1.1, where the members predict 0.2 and 1.
    np.testing.assert_allclose(run.learning.record.last_loss, [0.5 * 0.9**2, 0.5 * 0.1**2], rtol=1e-4)
    # The second action has the larger expectation, though the first has the larger logits.
    raised = categorical(WIDE, NARROW)
    raised[8:12] = [logit + 9.0 for logit in raised[8:12]]
    run = started(agent, [raised, FLAT])
    assert agent.policy(run, np.ones((1, 1), np.float32), None, Clock()).tolist() == [1]


def test_members_learn_with_their_own_discount_and_are_compared_with_gamma() -> None:
    members = [STILL.replace(learning_rate=1.0, discount=discount) for discount in (0.25, None, 1.0)]
    agent = agent_of(members, gamma=0.5)
    run = learned(
        agent.update(started(agent, [STEEP] * 3), Operation.UPDATE, batch_of((1.0, 0, [1.0], 2.0, False)), Clock(), RNG)
    )
    # y = 1 + γ 4 is 2, 3, 5 with the three discounts; all predict 1. Compared by γ = ½, all are off by 2.
    assert [row[2] for row in parameters_of(run)] == [1.0, 2.0, 4.0]
    assert run.learning.record.last_loss.tolist() == [2.0] * 3


def test_other_numbers_run_the_same_programs_and_compile_nothing() -> None:
    first = agent_of([STILL, STILL])
    run = learned(first.update(started(first, [STEEP, FLAT]), Operation.UPDATE, TWO, Clock(), RNG))
    run, _ = target_update(first, run)
    programs = first.programs(run)
    assert isinstance(programs, FusedPrograms)
    compiled = programs.update._cache_size(), programs.update_target._cache_size()
    faster = [STILL.replace(learning_rate=0.25, discount=0.75), STILL.replace(learning_rate=0.5)]
    other = agent_of(faster, gamma=0.25, exploration_final_eps=0.5, target_update_interval=3)
    run = learned(other.update(started(other, [STEEP, FLAT]), Operation.UPDATE, TWO, Clock(), RNG))
    assert other.programs(run) is programs
    # y = 1 + ¾ 4 = 4 and 1 for the first member, 1 + ¼ 4 = 2 and 1 for the second; the means of the errors are
    # (-3 + 0) / 2 of action 0 and (0 + 1) / 2 of action 1; (-2 + 0) / 2 and 0.
    np.testing.assert_allclose(parameters_of(run), [[1.375, 1.875, 0.375, -0.125], [0.5, 0.0, 0.5, 1.0]], rtol=1e-6)
    run, _ = target_update(other, run)
    assert (programs.update._cache_size(), programs.update_target._cache_size()) == compiled


def test_the_first_member_is_the_target_to_begin_with() -> None:
    agent = agent_of([STILL, STILL])
    run = agent.init(3)
    assert run.learning.selected.members.tolist() == [0]
    assert run.learning.selected.weights.tolist() == [1.0]
    for online, snapshot in zip(run.learning.ensemble, run.learning.target, strict=True):
        assert online.parameters.tolist() == snapshot.tolist()


def test_members_are_reported_with_their_share_of_selections() -> None:
    agent = agent_of([STILL, STILL.replace(learning_rate=1e-3)], exploration_steps=1000, exploration_final_eps=0.01)
    run = started(agent, [STEEP, FLAT])
    for batch in (TWO, batch_of((1.0, 1, [1.0], 0.0, True)), TWO, TWO):
        run, _ = target_update(agent, learned(agent.update(run, Operation.UPDATE, batch, Clock(), RNG)))
    run = learned(agent.update(run, Operation.UPDATE, TWO, Clock(), RNG))
    first, second = agent.report(run, Clock()).members
    assert (first.hyperparameters, second.hyperparameters) == tuple(run.members)
    assert (first.selected, second.selected) == (0.75, 0.25)
    assert first.cumulated_loss == pytest.approx(1.25)
    assert not first.diverged
    metrics = agent.report(run, Clock(step=500, horizon=1000)).metrics
    assert metrics["train/loss"] == pytest.approx(1.25)
    assert metrics["ada/loss_1"] == pytest.approx(float(run.learning.record.loss[1]))
    assert metrics["ada/target_member"] == 0.0
    assert metrics["rollout/exploration_rate"] == pytest.approx(0.505)
