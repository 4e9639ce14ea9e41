"""Conversion of agents' actions: linear from [-1, 1] to the bounds of the Box, never beyond."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from adaqn.envs.environments import Environments
from adaqn.envs.spaces import environment_actions


def test_a_box_by_hand() -> None:
    box = spaces.Box(np.array([-2.0, 0.0, -8.0], np.float32), np.array([2.0, 1.0, -4.0], np.float32))
    actions = np.array([[-1.0, -1.0, -1.0], [0.0, 0.0, 0.0], [0.5, 0.5, 0.5], [1.0, 1.0, 1.0]], np.float32)
    expected = [[-2.0, 0.0, -8.0], [0.0, 0.5, -6.0], [1.0, 0.75, -5.0], [2.0, 1.0, -4.0]]
    assert environment_actions(box, actions).tolist() == expected
    # One action alone, as an environment takes it.
    assert environment_actions(box, actions[2]).tolist() == expected[2]


def test_discrete_actions_begin_where_their_space_does() -> None:
    assert environment_actions(spaces.Discrete(3, start=5), np.array([0, 2])).tolist() == [5, 7]


def test_an_infinite_box_is_played_as_it_is() -> None:
    box, actions = spaces.Box(-np.inf, np.inf, (2,)), np.array([0.5, -7.0], np.float32)
    given_on = environment_actions(box, actions)
    assert given_on.tolist() == [0.5, -7.0] and given_on is not actions


limits = st.floats(-(2.0**127), 2.0**127, width=32)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(limits, limits), min_size=1, max_size=4),
    st.sampled_from([np.float32, np.float64]),
    st.data(),
)
def test_every_action_is_in_the_box_the_ends_are_its_limits_and_order_is_kept(
    sides: list[tuple[float, float]], dtype: Any, data: st.DataObject
) -> None:
    low, high = np.sort(np.array(sides, dtype), axis=1).T
    box = spaces.Box(low, high, dtype=dtype)
    actions = data.draw(arrays.arrays(np.float32, (5, len(sides)), elements=st.floats(-1.0, 1.0, width=32)))
    there = environment_actions(box, np.sort(actions, axis=0))
    assert there.dtype == dtype
    assert all(box.contains(action) for action in there)
    # Rounding may swap two neighbours, but no more than that.
    slack = 4.0 * np.finfo(dtype).eps * np.maximum(np.abs(low), np.abs(high))
    assert (there[1:] >= there[:-1] - slack).all()
    ends = environment_actions(box, np.array([[-1.0], [1.0]], np.float32) * np.ones(len(sides), np.float32))
    assert np.array_equal(ends, np.stack([low, high]))


class Recorder(gymnasium.Env[Any, Any]):
    """Keeps the actions that it is given."""

    observation_space = spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, action_space: spaces.Box) -> None:
        self.action_space = action_space
        self.given: list[np.ndarray] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.given.append(action)
        return np.zeros(1, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_environments_get_their_own_actions_and_the_agent_keeps_its(dtype: Any) -> None:
    env = Recorder(spaces.Box(np.array([0.0, -3.0], dtype), np.array([10.0, 1.0], dtype), dtype=dtype))
    environments, rng = Environments([env], owned=False), np.random.default_rng(0)
    environments.reset(rng)
    transitions = environments.step(np.array([[0.5, -0.5]], np.float32), rng)
    assert env.given[0].tolist() == [7.5, -2.0] and env.given[0].dtype == dtype
    assert env.action_space.contains(env.given[0])
    assert transitions.action.tolist() == [[0.5, -0.5]]
    # The position that a checkpoint holds is made of the agent's actions as well.
    assert environments.position()[0].actions.tolist() == [[0.5, -0.5]]
