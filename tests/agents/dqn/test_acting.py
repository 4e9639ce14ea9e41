"""Acting: behaviour members, exploration, and the learned policy."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from adaqn.agents.dqn import DQNAgent, State
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Operation, TargetUpdate
from adaqn.agents.settings import DQNSettings
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Batch
from tests.agents.outcomes import acted, learned

MEMBER = Hyperparameters(hidden=(), optimizer="sgd", learning_rate=0.0)
CLOCK = Clock(step=10, settled=10, horizon=1000)


def agent_with(epsilon: float, behaviour_epsilon: float) -> DQNAgent:
    """An agent with three members and four actions, with constant exploration probabilities."""
    values: dict[str, Any] = {
        "exploration_initial_eps": epsilon,
        "exploration_final_eps": epsilon,
        "behaviour_initial_eps": behaviour_epsilon,
        "behaviour_final_eps": behaviour_epsilon,
    }
    return DQNAgent(DQNSettings(**values), Population((MEMBER,) * 3), spaces.Box(-9.0, 9.0, (1,)), spaces.Discrete(4))


def started(agent: DQNAgent, target: int) -> State:
    """A state whose three members always prefer actions 1, 2 and 3, with this target member."""
    run = agent.init(0)
    (group,) = run.learning.ensemble
    biases = jnp.concatenate([jnp.zeros((3, 5)), jnp.eye(3)], axis=1)  # [w_0 .. w_3, b_0 .. b_3]
    selected = run.learning.selected._replace(members=jnp.asarray([target], jnp.int32))
    learning = run.learning._replace(ensemble=(group._replace(parameters=biases),), selected=selected)
    return run._replace(learning=learning)


def shares(values: np.ndarray, count: int) -> np.ndarray:
    return np.bincount(values, minlength=count) / len(values)


def assert_frequencies(observed: np.ndarray, expected: list[float], draws: int) -> None:
    p = np.array(expected)
    assert (np.abs(observed - p) <= 4.0 * np.sqrt(p * (1.0 - p) / draws)).all(), observed


@pytest.mark.parametrize(
    ("epsilon", "behaviour_epsilon", "of_members", "of_actions"),
    [
        (0.0, 0.0, [0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]),
        # ε_b = 0.6: the target member with 0.4 + 0.2, the others with 0.2 each.
        (0.0, 0.6, [0.2, 0.6, 0.2], [0.0, 0.2, 0.6, 0.2]),
        # ε = 0.4: a tenth for each action, and 0.6 of the above.
        (0.4, 0.6, [0.2, 0.6, 0.2], [0.1, 0.22, 0.46, 0.22]),
        (1.0, 0.0, [0.0, 1.0, 0.0], [0.25, 0.25, 0.25, 0.25]),
    ],
)
def test_frequencies_of_members_and_actions(
    epsilon: float, behaviour_epsilon: float, of_members: list[float], of_actions: list[float]
) -> None:
    draws = 20_000
    agent = agent_with(epsilon, behaviour_epsilon)
    run, actions = acted(
        agent.act(started(agent, target=1), np.zeros((draws, 1), np.float32), CLOCK, np.random.default_rng(0))
    )
    assert_frequencies(shares(actions, 4), of_actions, draws)
    assert int(run.learning.record.acted.sum()) == draws
    assert_frequencies(np.asarray(run.learning.record.acted) / draws, of_members, draws)


def test_one_environment_is_acted_in_the_same_way() -> None:
    draws = 400
    agent = agent_with(epsilon=0.4, behaviour_epsilon=0.6)
    run, rng, actions = started(agent, target=1), np.random.default_rng(1), []
    for _ in range(draws):
        run, action = acted(agent.act(run, np.zeros((1, 1), np.float32), CLOCK, rng))
        actions.append(int(action[0]))
    assert_frequencies(shares(np.array(actions), 4), [0.1, 0.22, 0.46, 0.22], draws)
    assert_frequencies(np.asarray(run.learning.record.acted) / draws, [0.2, 0.6, 0.2], draws)


def test_actions_are_reported_at_the_target_update_and_reset() -> None:
    agent = agent_with(epsilon=0.0, behaviour_epsilon=0.0)
    run, rng = started(agent, target=2), np.random.default_rng(0)
    for n in (5, 2):
        run, _ = acted(agent.act(run, np.zeros((n, 1), np.float32), CLOCK, rng))
    run, (event,) = agent.perform(run, Operation.TARGET_UPDATE, CLOCK, rng)
    assert isinstance(event, TargetUpdate)
    assert event.acted == (0, 0, 7)
    assert run.learning.record.acted.tolist() == [0, 0, 0]


def test_an_update_and_the_next_action_in_one_are_the_two_one_after_the_other() -> None:
    agent = DQNAgent(
        DQNSettings(exploration_final_eps=0.3, exploration_steps=0),
        Population(
            (MEMBER.replace(learning_rate=0.1), MEMBER.replace(hidden=(4,), optimizer="adam", learning_rate=0.1))
        ),
        spaces.Box(-9.0, 9.0, (1,)),
        spaces.Discrete(4),
    )
    draw = np.random.default_rng(0)
    together, apart = agent.init(5), agent.init(5)
    rng, same_rng = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(20):
        x, following = draw.standard_normal((2, 8, 1)).astype(np.float32)
        action, rewards = draw.integers(4, size=8).astype(np.int32), draw.standard_normal((8, 1)).astype(np.float32)
        batch = Batch(x, action, rewards, following, np.zeros(8, np.float32), np.ones(8, np.int32))
        together, one = acted(agent.update(together, Operation.UPDATE, batch, CLOCK, rng, x[:2]))
        apart, other = acted(
            agent.act(learned(agent.update(apart, Operation.UPDATE, batch, CLOCK, same_rng)), x[:2], CLOCK, same_rng)
        )
        assert one.tolist() == other.tolist()
    arrays, same = agent.to_arrays(together)[0], agent.to_arrays(apart)[0]
    for name, array in arrays.items():
        np.testing.assert_allclose(array, same[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_the_policy_is_the_target_member_s_online_network() -> None:
    agent = agent_with(epsilon=1.0, behaviour_epsilon=1.0)
    for member in range(3):
        actions = agent.policy(started(agent, target=member), np.zeros((5, 1), np.float32), None, CLOCK)
        assert actions.tolist() == [member + 1] * 5


def test_the_policy_explores_with_a_generator_as_training_does() -> None:
    draws = 10_000
    agent = agent_with(epsilon=0.4, behaviour_epsilon=0.0)
    observations = np.zeros((draws, 1), np.float32)
    actions = agent.policy(started(agent, target=0), observations, np.random.default_rng(0), CLOCK)
    assert_frequencies(shares(actions, 4), [0.1, 0.7, 0.1, 0.1], draws)
