"""Double Q and mixtures as targets of DQN, worked out by hand, in the fused program and in one program per member."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from adaqn.agents.dqn import DQNAgent, State
from adaqn.agents.execution.value import StagedPrograms
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Operation, TargetUpdate
from adaqn.agents.settings import DQNSettings
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.selection import Selection
from adaqn.replay.protocol import Batch
from tests.agents.generation_cases import RATES_ONLY
from tests.agents.outcomes import acted, learned

RNG = np.random.default_rng(0)  # required by the interface; nothing here is random
STILL = Hyperparameters(hidden=(), optimizer="sgd", learning_rate=0.0)
# Parameters are [w_0, w_1, b_0, b_1]: Q(x, a) = w_a x + b_a.
STEEP = [1.0, 2.0, 0.0, 0.0]  # Q(x) = (x, 2x)
FLAT = [0.0, 0.0, 0.0, 1.0]  # Q(x) = (0, 1)
FIRST = [3.0, 0.0, 0.0, 0.0]  # Q(x) = (3x, 0): action 0 wherever x is positive
BROKEN = [math.nan] * 4


def agent_of(members: int, staged: bool, **settings: Any) -> DQNAgent:
    population = Population((STILL,) * members, RATES_ONLY if staged else None)
    values = {"gamma": 0.5, "behaviour": "epsilon", **settings}
    return DQNAgent(DQNSettings(**values), population, spaces.Box(-9.0, 9.0, (1,)), spaces.Discrete(2))


def started(agent: DQNAgent, online: Sequence[Sequence[float]], target: Sequence[Sequence[float]]) -> State:
    """A state with these parameters of the members online, and these in the snapshot."""
    run = agent.init(0)
    assert isinstance(agent.programs(run), StagedPrograms) is (agent.evolution is not None)
    alone = len(run.learning.ensemble) == len(online)  # else all are in one group

    def grouped(rows: Sequence[Sequence[float]]) -> list[jnp.ndarray]:
        return [jnp.asarray([row], jnp.float32) for row in rows] if alone else [jnp.asarray(rows, jnp.float32)]

    groups = zip(run.learning.ensemble, grouped(online), strict=True)
    ensemble = tuple(group._replace(parameters=rows) for group, rows in groups)
    return run._replace(learning=run.learning._replace(ensemble=ensemble, target=tuple(grouped(target))))


def with_target(run: State, members: list[int], weights: list[float]) -> State:
    selected = Selection(jnp.asarray(members, jnp.int32), jnp.asarray(weights))
    return run._replace(learning=run.learning._replace(selected=selected))


def one(x: float, action: int, reward: float, following: float) -> Batch[np.ndarray]:
    """A batch of one non-terminal transition."""
    return Batch(
        np.array([[x]], np.float32),
        np.array([action], np.int32),
        np.array([[reward]], np.float32),
        np.array([[following]], np.float32),
        np.zeros(1, np.float32),
        np.ones(1, np.int32),
    )


def losses_after(agent: DQNAgent, run: State, batch: Batch[np.ndarray]) -> list[float]:
    return learned(agent.update(run, Operation.UPDATE, batch, Clock(), RNG)).learning.record.last_loss.tolist()


BOTH = pytest.mark.parametrize("staged", [False, True], ids=["fused", "staged"])


# Double Q.


@BOTH
@pytest.mark.parametrize(("double", "y"), [(False, 3.0), (True, 2.0)])
def test_the_online_network_of_the_target_member_chooses_the_action(staged: bool, double: bool, y: float) -> None:
    agent = agent_of(1, staged, double_q=double)
    # At x' = 2 the snapshot says (2, 4) and the online network (6, 0), whose best action is the first. So the value is
    # 2 instead of 4, and y = 1 + ½ 2 instead of 1 + ½ 4. The online network predicts Q(1, 0) = 3.
    run = started(agent, [FIRST], [STEEP])
    assert losses_after(agent, run, one(1.0, 0, 1.0, 2.0)) == [0.5 * (3.0 - y) ** 2]


@BOTH
def test_double_q_differs_only_where_the_two_networks_prefer_different_actions(staged: bool) -> None:
    # At x' = -2 the snapshot says (-2, -4) and prefers the first action, the online network says (-6, 0).
    for double, y in ((False, 1.0 - 1.0), (True, 1.0 - 2.0)):
        agent = agent_of(1, staged, double_q=double)
        assert losses_after(agent, started(agent, [FIRST], [STEEP]), one(1.0, 0, 1.0, -2.0)) == [0.5 * (3.0 - y) ** 2]
    for double in (False, True):
        agent = agent_of(1, staged, double_q=double)
        # FLAT prefers the second action, as the snapshot does at x' = 2: y = 3, and it predicts Q(1, 0) = 0.
        assert losses_after(agent, started(agent, [FLAT], [STEEP]), one(1.0, 0, 1.0, 2.0)) == [4.5]


@BOTH
def test_no_other_member_has_a_say_in_double_q(staged: bool) -> None:
    agent = agent_of(2, staged, double_q=True)
    run = started(agent, [FIRST, FLAT], [STEEP, FLAT])
    # The first is the target member: y = 2 as above, for both. FLAT predicts Q(1, 0) = 0.
    assert losses_after(agent, run, one(1.0, 0, 1.0, 2.0)) == [0.5, 2.0]
    # The second: its snapshot says (0, 1), and it prefers the second action, so y = 1 + ½ 1.
    run = with_target(started(agent, [FIRST, FLAT], [STEEP, FLAT]), [1], [1.0])
    assert losses_after(agent, run, one(1.0, 0, 1.0, 2.0)) == [0.5 * 1.5**2, 0.5 * 1.5**2]


# Mixtures.


@BOTH
@pytest.mark.parametrize("selection", ["softmax", "inverse_loss"])
def test_a_mixture_is_the_mean_of_the_members_values_by_their_weights(staged: bool, selection: str) -> None:
    agent = agent_of(2, staged, selection=selection)
    run = started(agent, [STEEP, FLAT], [STEEP, FLAT])
    assert run.learning.selected.members.tolist() == [0, 1]
    assert run.learning.selected.weights.tolist() == [0.5, 0.5]
    # The largest values at x' = 2 are 4 and 1, on average 2½, so y = 1 + ½ 2½ = 2¼; the predictions are 1 and 0.
    assert losses_after(agent, run, one(1.0, 0, 1.0, 2.0)) == [0.5 * 1.25**2, 0.5 * 2.25**2]
    # ¾ 1 + ¼ 4 = 1¾, so y = 1⅞.
    run = with_target(started(agent, [STEEP, FLAT], [STEEP, FLAT]), [1, 0], [0.75, 0.25])
    assert losses_after(agent, run, one(1.0, 0, 1.0, 2.0)) == [0.5 * 0.875**2, 0.5 * 1.875**2]


@BOTH
def test_in_a_mixture_each_member_chooses_its_own_action(staged: bool) -> None:
    # Not the largest of the mean values: STEEP at x' = -2 is best with -2 for the first action, FLAT with 1 for the
    # second, on average -½, while the mean of both has -1 and -1½.
    agent = agent_of(2, staged, selection="inverse_loss")
    run = started(agent, [STEEP, FLAT], [STEEP, FLAT])
    # y = 1 + ½ (-½) = ¾
    assert losses_after(agent, run, one(1.0, 0, 1.0, -2.0)) == [0.5 * 0.25**2, 0.5 * 0.75**2]
    double = agent_of(2, staged, selection="inverse_loss", double_q=True)
    run = started(double, [FIRST, STEEP], [STEEP, FLAT])
    # At x' = 2 FIRST chooses the first action, for which its snapshot says 2, and STEEP the second, where FLAT says 1:
    # 1½ on average, y = 1¾. They predict 3 and 1.
    assert losses_after(double, run, one(1.0, 0, 1.0, 2.0)) == [0.5 * 1.25**2, 0.5 * 0.75**2]


def target_update(agent: DQNAgent, run: State) -> tuple[State, TargetUpdate]:
    run, (event,) = agent.perform(run, Operation.TARGET_UPDATE, Clock(step=7), RNG)
    assert isinstance(event, TargetUpdate)
    return run, event


@BOTH
def test_the_weights_come_from_the_losses_since_the_last_target_update(staged: bool) -> None:
    agent = agent_of(2, staged, selection="inverse_loss")
    run = started(agent, [STEEP, FLAT], [STEEP, FLAT])
    # y = 2¼ as above: losses ½ 1¼² = 25/32 and ½ 2¼² = 81/32.
    run = learned(agent.update(run, Operation.UPDATE, one(1.0, 0, 1.0, 2.0), Clock(), RNG))
    run, event = target_update(agent, run)
    assert (event.target, event.cumulated_loss) == (0, (25 / 32, 81 / 32))
    assert run.learning.selected.members.tolist() == [0, 1]
    weights = [81 / 106, 25 / 106]
    np.testing.assert_allclose(run.learning.selected.weights, weights, rtol=1e-5)
    assert run.learning.record.loss.tolist() == [0.0, 0.0]
    # The member with the largest weight counts as the target member: it is selected, acts greedily, and is the policy.
    assert run.learning.record.selections.tolist() == [1, 0]
    report = agent.report(run, Clock())
    assert report.target == 0 and [member.selected for member in report.members] == [1.0, 0.0]
    x = np.array([[-1.0], [1.0]], np.float32)
    assert agent.policy(run, x, None, Clock()).tolist() == [0, 1]
    # The value at x' = 2 is now 81/106 4 + 25/106 1.
    value = weights[0] * 4.0 + weights[1]
    losses = losses_after(agent, run, one(1.0, 0, 1.0, 2.0))
    np.testing.assert_allclose(losses, [0.5 * (0.5 * value) ** 2, 0.5 * (1.0 + 0.5 * value) ** 2], rtol=1e-5)


@BOTH
def test_the_temperature_of_softmax_reaches_the_program(staged: bool) -> None:
    batch, weights = one(1.0, 0, 1.0, 2.0), {}
    for temperature in (0.1, 1.0, 1e6):
        agent = agent_of(2, staged, selection="softmax", selection_temperature=temperature)
        run = learned(agent.update(started(agent, [STEEP, FLAT], [STEEP, FLAT]), Operation.UPDATE, batch, Clock(), RNG))
        weights[temperature] = target_update(agent, run)[0].learning.selected.weights[0]
    # Losses of 25/32 and 81/32 have the mean 53/32, from which they are 56/53 apart.
    for temperature, of_best in weights.items():
        assert of_best == pytest.approx(1.0 / (1.0 + math.exp(-56 / 53 / temperature)), rel=1e-5)


@BOTH
def test_a_diverged_member_is_left_out_of_the_mixture(staged: bool) -> None:
    agent = agent_of(3, staged, selection="inverse_loss")
    # Weights are equal at first. With one unusable member, no member learns until the next target update.
    run = started(agent, [STEEP, FLAT, BROKEN], [STEEP, FLAT, BROKEN])
    run = learned(agent.update(run, Operation.UPDATE, one(1.0, 0, 1.0, 2.0), Clock(), RNG))
    assert run.learning.record.diverged.tolist() == [False, False, True]
    assert run.learning.record.last_loss.tolist() == [0.0, 0.0, 0.0]
    run, event = target_update(agent, run)
    assert event.newly_diverged == (2,) and event.cumulated_loss == (0.0, 0.0, math.inf)
    assert run.learning.selected.members.tolist() == [0, 1, 2]
    np.testing.assert_allclose(run.learning.selected.weights, [0.5, 0.5, 0.0], rtol=1e-6)
    # Now the two others learn without it: y = 2¼.
    run = learned(agent.update(run, Operation.UPDATE, one(1.0, 0, 1.0, 2.0), Clock(), RNG))
    np.testing.assert_allclose(run.learning.record.last_loss[:2], [0.5 * 1.25**2, 0.5 * 2.25**2], rtol=1e-6)
    assert run.learning.record.diverged.tolist() == [False, False, True]
    run, _ = acted(agent.act(run, np.zeros((1, 1), np.float32), Clock(), RNG))
    assert run.learning.record.acted.tolist()[2] == 0


@BOTH
def test_one_that_is_too_large_to_compute_with_is_named_though_others_weigh_more(staged: bool) -> None:
    agent = agent_of(2, staged, selection="inverse_loss")
    huge = [0.0, 0.0, 0.0, 1e30]
    run = with_target(started(agent, [STEEP, FLAT], [STEEP, huge]), [0, 1], [0.75, 0.25])
    run = learned(agent.update(run, Operation.UPDATE, one(1.0, 0, 1.0, 2.0), Clock(), RNG))
    assert run.learning.record.diverged.tolist() == [False, True]
    assert run.learning.record.loss.tolist() == [0.0, 0.0]
    # Without weight, it has no effect.
    run = with_target(started(agent, [STEEP, FLAT], [STEEP, huge]), [0, 1], [1.0, 0.0])
    run = learned(agent.update(run, Operation.UPDATE, one(1.0, 0, 1.0, 2.0), Clock(), RNG))
    assert run.learning.record.diverged.tolist() == [False, False]
    assert run.learning.record.last_loss.tolist() == [2.0, 4.5]


def test_a_state_with_a_mixture_is_saved_and_comes_back() -> None:
    agent = agent_of(3, staged=True, selection="softmax")
    run = with_target(agent.init(0), [2, 0, 1], [0.5, 0.375, 0.125])
    restored = agent.from_arrays(*agent.to_arrays(run))
    assert restored.learning.selected.members.tolist() == [2, 0, 1]
    assert restored.learning.selected.weights.tolist() == [0.5, 0.375, 0.125]
