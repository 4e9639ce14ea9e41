"""Stepping: transitions, resets, returns, and faults of the environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from adaqn.base.errors import EnvironmentFault, UserError
from adaqn.envs.environments import Environments, FinishedEpisode


class Scripted(gymnasium.Env[np.ndarray, Any]):
    """Observations count the steps, starting from the seed; the episode ends after `length` steps."""

    def __init__(
        self,
        length: int = 3,
        ends: tuple[bool, bool] = (True, False),
        action_space: spaces.Space[Any] | None = None,
        observation_space: spaces.Space[Any] | None = None,
    ) -> None:
        self.observation_space = observation_space or spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = action_space or spaces.Discrete(3)
        self.length, self.ends = length, ends
        self.seeds: list[int | None] = []
        self.actions: list[Any] = []
        self.closed = False
        self.step_number = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.seeds.append(seed)
        self.step_number = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        self.step_number += 1
        terminated, truncated = self.ends if self.step_number == self.length else (False, False)
        return self.observe(), self.reward(), terminated, truncated, {}

    def observe(self) -> Any:
        return np.array([float(self.seeds[-1] or 0) % 1000, self.step_number])

    def reward(self) -> Any:
        return 0.1

    def close(self) -> None:
        self.closed = True


def started(*envs: gymnasium.Env[Any, Any], seed: int = 0) -> tuple[Environments, np.random.Generator]:
    environments, rng = Environments(envs, owned=True), np.random.default_rng(seed)
    environments.reset(rng)
    return environments, rng


def zeros(environments: Environments) -> np.ndarray:
    return np.zeros(environments.count, np.int32)


def test_every_reset_has_a_seed_from_the_generator() -> None:
    envs = [Scripted(length=2), Scripted(length=3)]
    environments, rng = started(*envs, seed=5)
    for _ in range(6):
        environments.step(zeros(environments), rng)
    reference = np.random.default_rng(5)
    drawn = [int(reference.integers(2**31)) for _ in range(7)]
    # In the order of the steps: both at first, then 0 after step 2, 1 after step 3, 0 after 4, both after 6.
    assert envs[0].seeds == [drawn[0], drawn[2], drawn[4], drawn[5]]
    assert envs[1].seeds == [drawn[1], drawn[3], drawn[6]]


@pytest.mark.parametrize("ends", [(True, False), (False, True), (True, True)])
def test_the_terminal_observation_is_kept_and_both_flags_are(ends: tuple[bool, bool]) -> None:
    env = Scripted(length=2, ends=ends)
    environments, rng = started(env)
    first = environments.step(zeros(environments), rng)
    assert (first.terminated.tolist(), first.truncated.tolist()) == ([False], [False])
    assert environments.finished == []
    last = environments.step(zeros(environments), rng)
    assert (last.terminated.tolist(), last.truncated.tolist()) == ([ends[0]], [ends[1]])
    assert last.observation[0, 1] == 1.0
    assert last.next_observation[0].tolist() == [float(env.seeds[0] or 0) % 1000, 2.0]
    assert environments.observations[0].tolist() == [float(env.seeds[1] or 0) % 1000, 0.0]
    assert environments.finished == [FinishedEpisode(0, 0.1 + 0.1, 2)]


def test_transitions_are_not_overwritten_by_later_steps() -> None:
    environments, rng = started(Scripted(length=2), Scripted(length=5))
    kept = [environments.step(zeros(environments), rng) for _ in range(4)]
    assert [row.observation[:, 1].tolist() for row in kept] == [[0, 0], [1, 1], [0, 2], [1, 3]]
    assert [row.next_observation[:, 1].tolist() for row in kept] == [[1, 1], [2, 2], [1, 3], [2, 4]]


def test_an_environment_that_reuses_its_buffer_is_copied() -> None:
    class Reusing(Scripted):
        buffer = np.zeros(2)

        def observe(self) -> np.ndarray:
            self.buffer[1] = self.step_number
            return self.buffer

    environments, rng = started(Reusing(length=9))
    kept = [environments.step(zeros(environments), rng) for _ in range(3)]
    assert [float(row.observation[0, 1]) for row in kept] == [0.0, 1.0, 2.0]


def test_returns_are_summed_in_double_precision_for_each_environment() -> None:
    environments, rng = started(Scripted(length=10), Scripted(length=7))
    finished = []
    for _ in range(10):
        environments.step(zeros(environments), rng)
        finished += environments.finished
    assert finished == [FinishedEpisode(1, sum([0.1] * 7), 7), FinishedEpisode(0, sum([0.1] * 10), 10)]


def test_rewards_are_clipped_to_the_bound_that_an_environment_states_but_returns_are_not() -> None:
    class Bounded(Scripted):
        learning_reward_bound = 2.0

        def reward(self) -> float:
            return [5.0, -7.0, 1.5][self.step_number - 1]

    environments, rng = started(Bounded(length=3))
    rewards = [environments.step(zeros(environments), rng).reward.tolist() for _ in range(3)]
    assert rewards == [[2.0], [-2.0], [1.5]]
    assert environments.finished == [FinishedEpisode(0, -0.5, 3)]


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [((8, 8, 6), np.uint8, 3), ((8, 8, 4), np.uint8, 1), ((8, 8, 6), np.float32, 1), ((6,), np.uint8, 1)],
)
def test_only_images_of_bytes_can_be_stacks(shape: tuple[int, ...], dtype: type, expected: int) -> None:
    env = Scripted(observation_space=spaces.Box(0, 1, shape, dtype))
    assert Environments([env], owned=False).frame_stack == 1
    env.frame_stack = 3  # pyright: ignore[reportAttributeAccessIssue]
    assert Environments([env], owned=False).frame_stack == expected


def test_types_of_transitions() -> None:
    environments, rng = started(Scripted())
    row = environments.step(zeros(environments), rng)
    assert [array.dtype.name for array in row] == ["float32", "int32", "float32", "float32", "bool", "bool"]
    assert environments.observations.dtype == np.float32


def test_images_stay_bytes_and_integers_become_floats() -> None:
    class Image(Scripted):
        def observe(self) -> np.ndarray:
            return np.full(self.observation_space.shape or (), 200, self.observation_space.dtype)

    image, _ = started(Image(observation_space=spaces.Box(0, 255, (4, 4, 1), np.uint8)))
    assert image.observations.dtype == np.uint8
    assert image.observations.sum() == 16 * 200
    integers, _ = started(Image(observation_space=spaces.Box(0, 255, (3,), np.int64)))
    assert integers.observations.dtype == np.float32
    assert integers.observations.tolist() == [[200.0] * 3]


def test_the_start_of_a_discrete_space_is_added_for_the_environment_only() -> None:
    env = Scripted(action_space=spaces.Discrete(3, start=-1))
    environments, rng = started(env)
    rows = [environments.step(np.array([action], np.int32), rng) for action in range(3)]
    assert env.actions == [-1, 0, 1]
    assert all(env.action_space.contains(action) for action in env.actions)
    assert [int(row.action[0]) for row in rows] == [0, 1, 2]


def test_an_environment_may_change_the_action_it_is_given() -> None:
    class Clipping(Scripted):
        def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
            super().step(action.copy())
            action *= 0.0
            return self.observe(), 0.0, False, False, {}

    env = Clipping(action_space=spaces.Box(-1.0, 1.0, (2,), np.float64))
    environments, rng = started(env)
    given = np.array([[0.25, -0.5]], np.float32)
    given.flags.writeable = False  # like arrays from JAX
    row = environments.step(given, rng)
    assert row.action.tolist() == [[0.25, -0.5]]
    assert environments.position()[0].actions.tolist() == [[0.25, -0.5]]
    assert env.actions[0].dtype == np.float64


def test_actions_of_another_shape_are_refused() -> None:
    environments, rng = started(Scripted(), Scripted())
    with pytest.raises(ValueError, match=r"shape \(1,\) where \(2,\) is expected"):
        environments.step(np.zeros(1, np.int32), rng)


class Failing(Scripted):
    """Does something wrong at step 2."""

    def __init__(self, observation: Any = None, reward: Any = 0.0, raises: Exception | None = None) -> None:
        super().__init__(length=9)
        self.bad_observation, self.bad_reward, self.raises = observation, reward, raises

    def observe(self) -> Any:
        if self.step_number == 2 and self.raises is not None:
            raise self.raises
        return super().observe() if self.step_number != 2 or self.bad_observation is None else self.bad_observation

    def reward(self) -> Any:
        return self.bad_reward if self.step_number == 2 else 0.0


@pytest.mark.parametrize(
    ("failing", "message"),
    [
        (Failing(raises=KeyError("a")), r"raised KeyError\('a'\) in step 2 of its episode"),
        (Failing(reward=float("nan")), "returned the reward nan in step 2"),
        (Failing(reward=-np.inf), "returned the reward -inf in step 2"),
        (Failing(reward=1e39), r"returned the reward 1e\+39 in step 2"),
        (Failing(reward=None), "returned the reward None in step 2 .*, where a number is expected"),
        (Failing(observation=np.array([0.0, np.nan])), "observation with nan at flat index 1 in step 2"),
        (Failing(observation=np.array([-np.inf, 0.0])), "observation with -inf at flat index 0 in step 2"),
        (Failing(observation=np.zeros(3)), r"observation of shape \(3,\) in step 2 .*its space says \(2,\)"),
        (Failing(observation=[[1.0], [2.0, 3.0]]), "observation of type list in step 2"),
        (Failing(observation=np.array(["a", "b"])), "observation of dtype <U1 in step 2"),
    ],
)
def test_faults_of_an_environment_are_one_sentence(failing: Failing, message: str) -> None:
    environments, rng = started(Scripted(length=9), failing)
    environments.step(zeros(environments), rng)
    with pytest.raises(EnvironmentFault, match=message) as caught:
        environments.step(zeros(environments), rng)
    assert str(caught.value).startswith("environment Scripted number 1 ")
    assert f"seed {failing.seeds[0]}" in str(caught.value)
    assert caught.value.__cause__ is failing.raises or failing.raises is None


def test_large_observations_are_no_fault() -> None:
    environments, rng = started(Failing(observation=np.array([3e38, -3e38])))
    for _ in range(2):
        environments.step(zeros(environments), rng)
    assert environments.observations.tolist() == [[np.float32(3e38), np.float32(-3e38)]]


class OldReset(Scripted):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class ResetWithoutInfo(Scripted):
    def reset(self, **_: Any) -> Any:  # type: ignore[override]
        return super().reset()[0]


class OldStep(Scripted):
    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, info


def test_the_interface_of_older_versions_of_gym_is_pointed_out() -> None:
    with pytest.raises(EnvironmentFault, match=r"reset must take the arguments seed and options$"):
        started(OldReset())
    with pytest.raises(
        EnvironmentFault, match=r"returned an object of type ndarray in its reset .*\(observation, info\) is expected$"
    ):
        started(ResetWithoutInfo())
    environments, rng = started(OldStep())
    with pytest.raises(EnvironmentFault, match=r"returned 4 values in step 1 .*terminated, truncated, info\) is exp"):
        environments.step(zeros(environments), rng)


def test_an_environment_without_spaces_is_refused() -> None:
    class Bare(gymnasium.Env):
        action_space = gymnasium.spaces.Discrete(2)

    with pytest.raises(UserError, match=r"^environment Bare has no observation_space$"):
        Environments.make(Bare(), 1)


def test_faults_in_a_reset_name_the_seed() -> None:
    class Broken(Scripted):
        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            raise RuntimeError("no display")

    seed = int(np.random.default_rng(0).integers(2**31))
    with pytest.raises(EnvironmentFault, match=rf"environment Broken raised .*no display.* reset with seed {seed}$"):
        started(Broken())


def test_an_id_is_made_as_often_as_asked_and_closed() -> None:
    made: list[Scripted] = []

    def entry(**arguments: Any) -> Scripted:
        made.append(Scripted(**arguments))
        return made[-1]

    gymnasium.register("Scripted-v0", entry)
    try:
        environments = Environments.make("Scripted-v0", 3, {"length": 7})
    finally:
        del gymnasium.registry["Scripted-v0"]
    assert (environments.count, environments.name) == (3, "Scripted-v0")
    assert [env.length for env in made] == [7, 7, 7]
    environments.close()
    assert [env.closed for env in made] == [True, True, True]


def test_an_environment_of_the_user_stays_open() -> None:
    env = Scripted()
    environments = Environments.make(env, 1, {})
    assert environments.name == "Scripted"
    environments.close()
    assert not env.closed


def test_what_cannot_be_made_is_said_in_one_sentence() -> None:
    with pytest.raises(UserError, match="n_envs must be 1 for an environment object, but it is 2"):
        Environments.make(Scripted(), 2, {})
    with pytest.raises(UserError, match=r"env_kwargs go with an id, but {'length': 3} was given"):
        Environments.make(Scripted(), 1, {"length": 3})
    with pytest.raises(UserError, match="n_envs must be at least 1, but it is 0"):
        Environments.make("CartPole-v1", 0, {})
    with pytest.raises(
        UserError, match=r"env must be an id, a gymnasium\.Env or a function that makes one, but it is a int"
    ):
        Environments.make(7, 1, {})  # pyright: ignore[reportArgumentType]


def test_spaces_that_nothing_learns_from_are_refused_and_what_was_made_is_closed() -> None:
    with pytest.raises(UserError, match="the observation space must be a Box, but it is a Dict"):
        Environments.make(Scripted(observation_space=spaces.Dict({"a": spaces.Discrete(2)})), 1, {})
    made = Scripted(action_space=spaces.MultiDiscrete([2, 2]))
    gymnasium.register("Refused-v0", lambda **_: made)
    try:
        with pytest.raises(UserError, match="must be Discrete or a Box, but it is a MultiDiscrete"):
            Environments.make("Refused-v0", 1, {})
    finally:
        del gymnasium.registry["Refused-v0"]
    assert made.closed
