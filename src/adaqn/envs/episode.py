"""One environment in the midst of an episode: steps are checked, and recorded so that it can be repeated."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from adaqn.envs.actions import environment_actions
from adaqn.envs.leftovers import clear_leftovers
from adaqn.errors import CheckpointError, EnvironmentFault

LARGEST = float(np.finfo(np.float32).max)


class EpisodePosition(NamedTuple):
    """What it takes to get to this point of an episode again, and the return and length so far."""

    seed: int
    actions: np.ndarray  # [length, ...] as the agent chose them
    total: float
    length: int


class RunningEpisode:
    """An environment with the seed of its current episode and the actions taken in it.

    Observations are written into a row of an array that all environments share.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        label: str,
        observation_space: spaces.Box,
        action_space: spaces.Discrete | spaces.Box,
    ) -> None:
        self._env = env
        self._label = label
        self._shape = observation_space.shape
        self._action_space = action_space
        # Those of the current episode, and room for more: it doubles when it is full.
        self._actions = np.empty((256, *(action_space.shape or ())), action_space.dtype)
        self.seed = 0
        self.total = 0.0
        self.length = 0
        self.info: dict[str, Any] = {}  # of the last step

    def begin(self, seed: int, observations: np.ndarray, row: int) -> None:
        """Reset the environment with this seed."""
        self.seed = seed
        self.total = 0.0
        self.length = 0
        clear_leftovers(self._env)
        try:
            observation, _ = self._env.reset(seed=seed)
        except Exception as error:
            raise EnvironmentFault(f"{self._label} raised {error!r} in its reset with seed {seed}") from error
        self._write(observation, observations, row)

    def step(self, action: Any, observations: np.ndarray, row: int) -> tuple[float, bool, bool]:
        """Take an action; gives the reward, terminated and truncated."""
        length = self.length
        if length == len(self._actions):
            self._actions = np.concatenate([self._actions, np.empty_like(self._actions)])
        self._actions[length] = action
        # Given out of the record, so that a repetition sees the same bits; in a new array, which it may change.
        given = environment_actions(self._action_space, self._actions[length])
        self.length = length + 1
        try:
            observation, reward, terminated, truncated, self.info = self._env.step(given)
        except Exception as error:
            raise EnvironmentFault(f"{self._label} raised {error!r} {self._where()}") from error
        self._write(observation, observations, row)
        try:
            value = float(reward)
        except (TypeError, ValueError) as error:
            raise EnvironmentFault(
                f"{self._label} returned the reward {reward!r} {self._where()}, where a number is expected"
            ) from error
        if not -LARGEST <= value <= LARGEST:  # also false for NaN
            raise EnvironmentFault(
                f"{self._label} returned the reward {value} {self._where()}, where a finite one is expected"
            )
        self.total += value
        return value, bool(terminated), bool(truncated)

    def position(self) -> EpisodePosition:
        """Where the episode stands."""
        return EpisodePosition(self.seed, self._actions[: self.length].copy(), self.total, self.length)

    def repeat(self, recorded: EpisodePosition, shown: np.ndarray, observations: np.ndarray, row: int) -> str | None:
        """Repeat an episode up to where the environment showed this row; says what came out differently."""
        if recorded.actions.shape != (recorded.length, *self._actions.shape[1:]):
            raise CheckpointError(
                f"the recorded actions have shape {recorded.actions.shape}, which are not {recorded.length} "
                f"actions of {self._label}"
            )
        self.begin(recorded.seed, observations, row)
        for action in recorded.actions:
            _, terminated, truncated = self.step(action, observations, row)
            if terminated or truncated:
                return f"it ended after {self.length} of {recorded.length} steps"
        if observations[row].tobytes() != shown[row].tobytes():
            return f"after {self.length} steps its observation is not the recorded one"
        if self.total != recorded.total:
            return f"after {self.length} steps its return is {self.total} and not {recorded.total}"
        return None

    def _write(self, observation: Any, observations: np.ndarray, row: int) -> None:
        """Put an observation into its row, if it is one that can be learned from."""
        if type(observation) is not np.ndarray:
            observation = self._as_array(observation)
        if observation.shape != self._shape:
            raise EnvironmentFault(
                f"{self._label} returned an observation of shape {observation.shape} {self._where()}, "
                f"where its space says {self._shape}"
            )
        try:
            observations[row] = observation
        except (TypeError, ValueError) as error:
            raise EnvironmentFault(
                f"{self._label} returned an observation of dtype {observation.dtype} {self._where()}, "
                f"where numbers are expected"
            ) from error
        if observations.dtype == np.uint8:
            return
        finite = np.isfinite(observations[row])
        if np.count_nonzero(finite) != finite.size:  # half the time of finite.all()
            place = int(np.argmin(finite))
            raise EnvironmentFault(
                f"{self._label} returned an observation with {observations[row].flat[place]} at flat index "
                f"{place} {self._where()}, where finite numbers are expected"
            )

    def _as_array(self, observation: Any) -> np.ndarray:
        try:
            return np.asarray(observation)
        except ValueError as error:
            raise EnvironmentFault(
                f"{self._label} returned an observation of type {type(observation).__name__} "
                f"{self._where()}, where an array is expected"
            ) from error

    def _where(self) -> str:
        """The point in the episode, for messages."""
        if self.length == 0:
            return f"in its reset with seed {self.seed}"
        return f"in step {self.length} of its episode with seed {self.seed}"
