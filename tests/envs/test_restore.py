"""Exact resume: an environment restored in the middle of an episode continues bit for bit as without a restore."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from adaqn.base.errors import CheckpointError
from adaqn.envs.environments import Environments
from adaqn.replay.protocol import Transitions


def random_actions(environments: Environments, rng: np.random.Generator) -> np.ndarray:
    space = environments.action_space
    if isinstance(space, spaces.Discrete):
        return rng.integers(space.n, size=environments.count).astype(np.int32)
    return rng.uniform(space.low, space.high, (environments.count, *space.shape)).astype(np.float32)


def advance(environments: Environments, rng: np.random.Generator, steps: int) -> list[Transitions]:
    return [environments.step(random_actions(environments, rng), rng) for _ in range(steps)]


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("name", ["CartPole-v1", "LunarLander-v3", "Pendulum-v1", "Acrobot-v1", "BipedalWalker-v3"])
def test_a_restored_environment_goes_on_to_the_bit(name: str, n_envs: int) -> None:
    original, rng = Environments.make(name, n_envs, {}), np.random.default_rng(3)
    original.reset(rng)
    advance(original, rng, 333)  # beyond the first growth of the record and, but for Acrobot, the first episode
    while min(episode.length for episode in original.position()) < 3:
        advance(original, rng, 1)
    position, observations = original.position(), original.observations.copy()
    state = rng.bit_generator.state
    expected = advance(original, rng, 200)

    restored, resumed = Environments.make(name, n_envs, {}), np.random.default_rng(99)
    resumed.bit_generator.state = state
    assert restored.restore(position, observations, resumed) == []
    assert resumed.bit_generator.state == state  # a restore that succeeds draws nothing
    for left, right in zip(expected, advance(restored, resumed, 200), strict=True):
        assert [array.tobytes() for array in left] == [array.tobytes() for array in right]
    assert restored.finished == original.finished
    for left, right in zip(original.position(), restored.position(), strict=True):
        assert (left.seed, left.total, left.length) == (right.seed, right.total, right.length)
        np.testing.assert_array_equal(left.actions, right.actions)
    original.close()
    restored.close()


def test_environments_stand_at_different_points_of_their_episodes() -> None:
    environments, rng = Environments.make("CartPole-v1", 3, {}), np.random.default_rng(0)
    environments.reset(rng)
    lengths = np.zeros(3, int)
    for _ in range(60):
        row = environments.step(random_actions(environments, rng), rng)
        lengths = np.where(row.terminated | row.truncated, 0, lengths + 1)
    position = environments.position()
    assert [episode.length for episode in position] == lengths.tolist()
    assert len(set(lengths.tolist())) == 3
    assert [len(episode.actions) for episode in position] == lengths.tolist()
    assert [episode.total for episode in position] == lengths.astype(float).tolist()  # CartPole gives 1 a step


class Unrepeatable(gymnasium.Env[np.ndarray, Any]):
    """An environment whose episodes differ in spite of the same seed."""

    def __init__(self, what: str) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.what = what
        self.episodes = 0
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.episodes += 1
        self.steps = 0
        return np.array([self.episodes if self.what == "observation" else 0.0], np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        again = self.episodes > 1
        if again and self.what == "fault":
            raise RuntimeError("lost")
        reward = 2.0 if again and self.what == "reward" else 1.0
        ended = again and self.what == "end" and self.steps == 2
        seen = self.episodes if self.what == "observation" else self.steps
        return np.array([seen], np.float32), reward, ended, False, {}


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("observation", "after 3 steps its observation is not the recorded one"),
        ("reward", r"after 3 steps its return is 6\.0 and not 3\.0"),
        ("end", "it ended after 2 of 3 steps"),
        ("fault", "raised RuntimeError.*lost"),
    ],
)
def test_an_environment_that_does_not_repeat_begins_a_new_episode(what: str, message: str) -> None:
    env = Unrepeatable(what)
    environments, rng = Environments.make(env, 1, {}), np.random.default_rng(0)
    environments.reset(rng)
    for _ in range(3):
        environments.step(np.zeros(1, np.int32), rng)
    position, observations = environments.position(), environments.observations
    expected_seed = int(np.random.default_rng(7).integers(2**31))
    with pytest.warns(RuntimeWarning, match=f"environment Unrepeatable did not repeat its episode .*{message}"):
        assert environments.restore(position, observations, np.random.default_rng(7)) == [0]
    after = environments.position()[0]
    assert (after.seed, after.length, after.total) == (expected_seed, 0, 0.0)
    assert env.steps == 0
    assert environments.observations.tolist() == [[3.0 if what == "observation" else 0.0]]


def test_only_the_environment_that_differs_begins_anew() -> None:
    envs = [Unrepeatable("nothing"), Unrepeatable("reward"), Unrepeatable("nothing")]
    environments, rng = Environments(envs, owned=False), np.random.default_rng(0)
    environments.reset(rng)
    for _ in range(4):
        environments.step(np.ones(3, np.int32), rng)
    with pytest.warns(RuntimeWarning, match="environment Unrepeatable number 1 did not repeat"):
        renewed = environments.restore(environments.position(), environments.observations, rng)
    assert renewed == [1]
    assert [episode.length for episode in environments.position()] == [4, 0, 4]
    assert environments.observations.tolist() == [[4.0], [0.0], [4.0]]


def test_a_position_of_other_environments_is_refused() -> None:
    rng = np.random.default_rng(0)
    one, two = (Environments.make("CartPole-v1", n_envs, {}) for n_envs in (1, 2))
    pendulum = Environments.make("Pendulum-v1", 1, {})
    for environments in (one, two, pendulum):
        environments.reset(rng)
    with pytest.raises(CheckpointError, match="a position of 2 environments was given for 1"):
        one.restore(two.position(), two.observations, rng)
    with pytest.raises(CheckpointError, match=r"float32\[1, 3\], but CartPole-v1 has float32\[1, 4\]"):
        one.restore(pendulum.position(), pendulum.observations, rng)
    with pytest.raises(CheckpointError, match=r"shape \(0, 1\), which are not 0 actions of environment CartPole-v1"):
        one.restore(pendulum.position(), one.observations, rng)


def test_a_position_is_a_copy() -> None:
    environments, rng = Environments.make("CartPole-v1", 1, {}), np.random.default_rng(0)
    environments.reset(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        environments.step(np.array([1]), rng)
    position = environments.position()[0]
    environments.reset(rng)
    environments.step(np.array([0]), rng)
    assert position.actions.tolist() == [1]
