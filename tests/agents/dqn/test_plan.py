"""When DQN updates its members and its target, and how its exploration decays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from adaqn.agents.base import linear
from adaqn.agents.dqn import DQNAgent
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.settings import DQNSettings
from adaqn.members.hyperparameters import Hyperparameters

LETTERS = {Operation.UPDATE: "U", Operation.TARGET_UPDATE: "T"}


def agent_with(**values: Any) -> DQNAgent:
    return DQNAgent(
        DQNSettings(**values), Population((Hyperparameters(),)), spaces.Box(-1.0, 1.0, (1,)), spaces.Discrete(2)
    )


def plan(agent: DQNAgent, settled: int, step: int, n_envs: int = 1) -> str:
    """The operations due in (settled, step], as letters."""
    due = agent.plan(None, Clock(step, settled, 1000), np.zeros(n_envs, bool))  # type: ignore[arg-type]
    return "".join(LETTERS[operation] for operation in due)


def plans(steps: int, stride: int = 1, **values: Any) -> list[str]:
    """The operations due after each step of `stride` environments."""
    agent = agent_with(**values)
    return [plan(agent, step, step + stride, stride) for step in range(0, steps, stride)]


def test_updates_and_target_updates_have_their_periods() -> None:
    every = plans(8, learning_starts=0, train_freq=2, target_update_interval=4)
    assert every == ["", "U", "", "UT", "", "U", "", "UT"]


def test_several_updates_may_be_made_each_time() -> None:
    every = plans(4, learning_starts=0, train_freq=2, gradient_steps=3, target_update_interval=4)
    assert every == ["", "UUU", "", "UUUT"]


def test_nothing_happens_before_learning_starts() -> None:
    # The first update is after learning_starts, and so is the first target update that has a loss to go by.
    assert plans(6, learning_starts=3, train_freq=1, target_update_interval=1) == ["", "", "", "UT", "UT", "UT"]
    assert plans(8, learning_starts=4, train_freq=2, target_update_interval=4) == ["", "", "", "", "", "U", "", "UT"]
    assert plan(agent_with(learning_starts=1_000), 999, 1_000) == ""
    assert plan(agent_with(learning_starts=1_000), 1_000, 1_001) == "U"


def test_a_period_fires_as_often_as_several_environments_crossed_it_in_order() -> None:
    agent = agent_with(learning_starts=0, train_freq=1, target_update_interval=2)
    assert plan(agent, 0, 3, n_envs=3) == "UUTU"
    assert plan(agent, 3, 6, n_envs=3) == "UTUUT"
    assert plans(9, 3, learning_starts=4, train_freq=2, target_update_interval=3) == ["", "UT", "UT"]
    assert plans(8, 4, learning_starts=0, train_freq=8, target_update_interval=4) == ["", "UT"]


def test_a_target_update_needs_an_update_since_the_last() -> None:
    assert plans(8, learning_starts=0, train_freq=4, target_update_interval=2) == ["", "", "", "UT", "", "", "", "UT"]
    every = plans(12, learning_starts=0, train_freq=4, target_update_interval=3)
    assert every == ["", "", "", "U", "", "T", "", "U", "T", "", "", "UT"]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 12), st.integers(1, 6), st.integers(1, 3), st.integers(1, 9), st.integers(1, 7))
def test_the_number_of_environments_changes_nothing_but_when(
    starts: int, freq: int, updates: int, interval: int, stride: int
) -> None:
    values = {
        "learning_starts": starts,
        "train_freq": freq,
        "gradient_steps": updates,
        "target_update_interval": interval,
    }
    steps = 6 * stride
    one_by_one = "".join(plans(steps, 1, **values))
    assert "".join(plans(steps, stride, **values)) == one_by_one
    assert one_by_one.count("U") == updates * sum(s % freq == 0 for s in range(starts + 1, steps + 1))
    assert "TT" not in one_by_one
    assert not one_by_one.startswith("T")


def test_what_was_done_is_not_done_again() -> None:
    agent = agent_with(learning_starts=0, train_freq=1, target_update_interval=2)
    assert plan(agent, 6, 6) == ""


@pytest.mark.parametrize(
    ("step", "value"), [(0, 1.0), (25, 0.775), (50, 0.55), (99, 0.109), (100, 0.1), (101, 0.1), (10**9, 0.1)]
)
def test_linear(step: int, value: float) -> None:
    assert linear(1.0, 0.1, 100, step) == pytest.approx(value, rel=1e-12)


def test_linear_over_no_time_is_at_its_end_at_once() -> None:
    assert linear(1.0, 0.1, 0, 0) == 0.1


def test_exploration_decays_over_its_own_steps_and_behaviour_until_the_end() -> None:
    agent = agent_with(
        exploration_initial_eps=1.0,
        exploration_final_eps=0.2,
        exploration_steps=100,
        behaviour_initial_eps=0.9,
        behaviour_final_eps=0.1,
    )
    expected = {0: (1.0, 0.9), 50: (0.6, 0.86), 100: (0.2, 0.82), 500: (0.2, 0.5), 1000: (0.2, 0.1), 2000: (0.2, 0.1)}
    for step, epsilons in expected.items():
        assert agent.exploration(Clock(step, step, horizon=1000)) == pytest.approx(epsilons)
    soon = agent_with(behaviour_initial_eps=1.0, behaviour_final_eps=0.0, behaviour_steps=10)
    assert soon.exploration(Clock(5, 5, horizon=1000))[1] == pytest.approx(0.5)
    assert soon.exploration(Clock(10, 10, horizon=1000))[1] == 0.0


def test_by_default_both_go_from_one_to_a_hundredth() -> None:
    agent = agent_with()
    assert agent.exploration(Clock(0, 0, 50_000)) == (1.0, 1.0)
    assert agent.exploration(Clock(50_000, 50_000, 50_000)) == (0.01, 0.01)
