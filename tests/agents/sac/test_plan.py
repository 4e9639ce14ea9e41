"""When SAC updates its critics and its actor, when it reports its pairs, and how it acts before and after."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from adaqn.agents.base import behaviour_epsilon
from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.sac import SACAgent
from adaqn.agents.settings import SACSettings
from adaqn.envs.environments import Environments
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.making import make_replay
from adaqn.training.trainer import Trainer
from tests.agents.outcomes import acted
from tests.agents.sac.cases import make_agent

LETTERS = {Operation.UPDATE: "U", Operation.ACTOR_UPDATE: "A", Operation.TARGET_UPDATE: "T"}
LINEAR = Hyperparameters(hidden=(), optimizer="sgd", learning_rate=0.0)


def agent_with(**values: Any) -> SACAgent:
    given = SACSettings(actor_hidden="linear", **values)
    return make_agent(given, (LINEAR, LINEAR), spaces.Box(-1.0, 1.0, (1,)), spaces.Box(-1.0, 1.0, (2,)))


def plan(agent: SACAgent, settled: int, step: int, n_envs: int = 1, replay_start: int = 0) -> str:
    """The operations due in (settled, step], as letters."""
    due = agent.plan(None, Clock(step, settled, 1000, replay_start), np.zeros(n_envs, bool))  # type: ignore[arg-type]
    return "".join(LETTERS[operation] for operation in due)


def plans(steps: int, stride: int = 1, **values: Any) -> list[str]:
    """The operations due after each step of `stride` environments."""
    agent = agent_with(**values)
    return [plan(agent, step, step + stride, stride) for step in range(0, steps, stride)]


def test_an_update_is_one_of_critics_and_actor_by_default() -> None:
    assert plans(5, learning_starts=2, selection_interval=4) == ["", "", "A", "AT", "A"]


def test_more_updates_of_the_critics_are_followed_by_one_of_the_actor() -> None:
    every = plans(4, learning_starts=0, train_freq=2, gradient_steps=3, selection_interval=4)
    assert every == ["", "UUA", "", "UUAT"]


def test_the_actor_may_be_updated_less_often() -> None:
    assert plans(6, learning_starts=0, policy_delay=3, selection_interval=99) == ["U", "U", "A", "U", "U", "A"]
    every = plans(8, learning_starts=0, train_freq=2, gradient_steps=2, policy_delay=2, selection_interval=99)
    assert every == ["", "UU", "", "UA", "", "UU", "", "UA"]


def test_nothing_happens_before_learning_starts() -> None:
    assert plan(agent_with(), 999, 1_000) == ""
    assert plan(agent_with(), 1_000, 1_001) == "A"
    # After a load the buffer is empty, and fills first.
    assert plan(agent_with(learning_starts=10), 509, 510, replay_start=500) == ""
    assert plan(agent_with(learning_starts=10), 510, 511, replay_start=500) == "A"


def test_a_period_fires_as_often_as_several_environments_crossed_it_in_order() -> None:
    agent = agent_with(learning_starts=0, selection_interval=2)
    assert plan(agent, 0, 3, n_envs=3) == "AATA"
    assert plan(agent, 3, 6, n_envs=3) == "ATAAT"
    assert plan(agent, 6, 6, n_envs=3) == ""


def test_a_row_sums_up_at_least_one_update() -> None:
    assert plans(8, learning_starts=0, train_freq=4, selection_interval=2) == ["", "", "", "AT", "", "", "", "AT"]
    assert plans(6, learning_starts=3, selection_interval=2) == ["", "", "", "AT", "A", "AT"]


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 12), st.integers(1, 5), st.integers(1, 3), st.integers(1, 4), st.integers(1, 9), st.integers(1, 7)
)
def test_the_number_of_environments_changes_nothing_but_when(
    starts: int, freq: int, updates: int, delay: int, interval: int, stride: int
) -> None:
    values = {
        "learning_starts": starts,
        "train_freq": freq,
        "gradient_steps": updates,
        "policy_delay": delay,
        "selection_interval": interval,
    }
    steps = 6 * stride
    one_by_one = "".join(plans(steps, 1, **values))
    assert "".join(plans(steps, stride, **values)) == one_by_one
    times = [s for s in range(starts + 1, steps + 1) if s % freq == 0]
    assert one_by_one.count("U") + one_by_one.count("A") == updates * len(times)
    assert one_by_one.count("A") == sum(s // freq % delay == 0 for s in times)
    assert "TT" not in one_by_one
    assert not one_by_one.startswith("T")


def test_behaviour_decays_until_the_end_or_over_its_own_steps() -> None:
    agent = agent_with(behaviour_initial_eps=0.9, behaviour_final_eps=0.1)
    for step, epsilon in {0: 0.9, 500: 0.5, 1000: 0.1, 2000: 0.1}.items():
        assert behaviour_epsilon(agent.settings, Clock(step, step, horizon=1000)) == pytest.approx(epsilon)
    soon = agent_with(behaviour_initial_eps=1.0, behaviour_final_eps=0.0, behaviour_steps=10)
    assert behaviour_epsilon(soon.settings, Clock(5, 5, horizon=1000)) == pytest.approx(0.5)
    assert behaviour_epsilon(agent_with().settings, Clock(0, 0, 50_000)) == 1.0
    assert behaviour_epsilon(agent_with().settings, Clock(50_000, 50_000, 50_000)) == pytest.approx(0.01)


def test_actions_are_uniform_until_learning_starts_and_then_the_policy_s() -> None:
    agent = agent_with(learning_starts=50)
    run = agent.init(0)
    learning = run.learning
    # mean = 1 and -1, log of the deviation = -20: a policy that hardly varies.
    parameters = learning.actor.parameters.at[:].set(0.0).at[4:].set(np.array([1.0, -1.0, -20.0, -20.0]))
    run = run._replace(learning=learning._replace(actor=learning.actor._replace(parameters=parameters)))
    rng, observations = np.random.default_rng(0), np.zeros((2000, 1), np.float32)
    _, uniform = acted(agent.act(run, observations, Clock(49, 49, 1000), rng))
    assert uniform.shape == (2000, 2) and uniform.dtype == np.float32
    assert (np.abs(uniform) <= 1.0).all()
    for column in uniform.T:
        shares = np.histogram(column, bins=10, range=(-1.0, 1.0))[0] / 2000
        assert (np.abs(shares - 0.1) <= 4.0 * np.sqrt(0.1 * 0.9 / 2000)).all()
    assert abs(np.corrcoef(uniform.T)[0, 1]) < 0.09
    _, chosen = acted(agent.act(run, observations, Clock(50, 50, 1000), rng))
    np.testing.assert_allclose(chosen, np.tile(np.tanh([1.0, -1.0]), (2000, 1)), atol=1e-5)


class Witness(gymnasium.Env[Any, Any]):
    """Records the actions that it is given."""

    observation_space = spaces.Box(-1.0, 1.0, (1,))
    action_space = spaces.Box(np.array([-3.0, 0.0]), np.array([1.0, 10.0]), dtype=np.float64)

    def __init__(self) -> None:
        self.actions: list[np.ndarray] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        return np.zeros(1, np.float32), 0.0, False, len(self.actions) % 10 == 0, {}


def test_the_loop_makes_the_updates_that_were_planned_and_plays_within_the_box() -> None:
    env = Witness()
    agent = agent_with(learning_starts=20, gradient_steps=2, policy_delay=3, batch_size=4, selection_interval=50)
    environments = Environments([env], owned=False)
    replay = make_replay(100, 1, environments.observation_space, environments.action_space, 1)
    trainer = Trainer(agent, environments, replay, agent.settings.batch_size, seed=0)
    trainer.run(49)
    # Two updates after each of the steps 21 to 49, one of the actor after 21, 24, ..., 48.
    assert trainer.updates == 58
    assert trainer.state.learning.counts.made.tolist() == [58, 10]
    assert int(trainer.state.learning.record.choices) == 58
    assert all(env.action_space.contains(action) for action in env.actions)
    first, second = np.array(env.actions).T
    assert first.min() < -2.0 and first.max() > 0.0 and second.min() < 2.0 and second.max() > 8.0
