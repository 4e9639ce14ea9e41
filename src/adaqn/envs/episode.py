"""State that some environments keep across seeded resets, and that must be cleared to make episodes repeatable."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from adaqn.base.errors import CheckpointError, EnvironmentFault
from adaqn.envs.spaces import environment_actions, observation_dtype
from adaqn.envs.values import Unusable, observation_of, require_finite, reward_of, truth_of


def clear_leftovers(env: gymnasium.Env) -> None:
    """Clear state that a known environment keeps from its last episode, so that only the seed determines the next."""
    # BipedalWalker builds each episode in the same Box2D world, whose solver then visits contacts in another
    # order than in a new world: the same seed and actions diverge after some dozens of steps. (LunarLander
    # makes a new world itself.) If the module is not imported, the environment cannot be a BipedalWalker;
    # importing it here would load Box2D for everyone.
    module = sys.modules.get("gymnasium.envs.box2d.bipedal_walker")
    inner: Any = env.unwrapped
    if module is not None and isinstance(inner, module.BipedalWalker):
        inner._destroy()  # removes the bodies from the old world; the call in `reset` then finds none
        inner.world = type(inner.world)(gravity=inner.world.gravity)
    # MinAtar's own environments (ours do this themselves): the sticky last action survives a reset.
    module = sys.modules.get("minatar.gym")
    if module is not None and isinstance(inner, module.BaseEnv):
        inner.game.last_action = 0


class EpisodePosition(NamedTuple):
    """What is needed to reproduce an episode up to this point, and its return and length so far."""

    seed: int
    actions: np.ndarray  # [length, ...] as the agent chose them
    total: float
    length: int


class RunningEpisode:
    """An environment with the seed and the actions of its current episode.

    Observations are written to a row of an array that all environments share.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        label: str,
        observation_space: spaces.Box,
        action_space: spaces.Discrete | spaces.Box,
    ) -> None:
        self._env = env
        self._label = label
        self._shape = observation_space.shape
        self._dtype = observation_dtype(observation_space)
        self._action_space = action_space
        # Actions of the current episode; the capacity doubles when it is full.
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
            returned = self._env.reset(seed=seed)
        except Exception as error:
            hint = ": reset must take the arguments seed and options" if _takes_no_seed(error) else ""
            raise EnvironmentFault(f"{self._label} raised {error!r} in its reset with seed {seed}{hint}") from error
        self._require_values(returned, "observation", "info")
        self._write(returned[0], observations, row)

    def step(self, action: Any, observations: np.ndarray, row: int) -> tuple[float, bool, bool]:
        """Take an action; returns the reward, terminated and truncated."""
        length = self.length
        if length == len(self._actions):
            self._actions = np.concatenate([self._actions, np.empty_like(self._actions)])
        self._actions[length] = action
        # Computed from the recorded action, so that a repetition passes the same bits; a new array, because the
        # environment may modify it.
        given = environment_actions(self._action_space, self._actions[length])
        self.length = length + 1
        try:
            returned = self._env.step(given)
        except Exception as error:
            raise EnvironmentFault(f"{self._label} raised {error!r} {self._where()}") from error
        self._require_values(returned, "observation", "reward", "terminated", "truncated", "info")
        observation, reward, terminated, truncated, self.info = returned
        self._write(observation, observations, row)
        try:
            value = reward_of(reward)
            ends = truth_of("terminated", terminated), truth_of("truncated", truncated)
        except Unusable as unusable:
            raise self._fault(unusable) from unusable
        self.total += value
        return value, *ends

    def position(self) -> EpisodePosition:
        """The current position in the episode."""
        return EpisodePosition(self.seed, self._actions[: self.length].copy(), self.total, self.length)

    def repeat(self, recorded: EpisodePosition, shown: np.ndarray, observations: np.ndarray, row: int) -> str | None:
        """Repeat a recorded episode, which ended with row `row` of `shown`; returns what differs, or None."""
        expected = (recorded.length, *self._actions.shape[1:])
        if recorded.actions.shape != expected or recorded.actions.dtype != self._actions.dtype:
            raise CheckpointError(
                f"the recorded actions have dtype {recorded.actions.dtype} and shape {recorded.actions.shape}, "
                f"which are not {recorded.length} actions of {self._label}"
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

    def _write(self, observation: object, observations: np.ndarray, row: int) -> None:
        """Write an observation to its row, or raise an EnvironmentFault if it is invalid."""
        try:
            # Most environments return the dtype of their space, which needs no conversion.
            if type(observation) is not np.ndarray or observation.dtype is not self._dtype:
                observation = observation_of(observation, self._dtype)
            if observation.shape != self._shape:
                raise Unusable(f"an observation of shape {observation.shape}", f"its space says {self._shape}")
            require_finite(observation)
        except Unusable as unusable:
            raise self._fault(unusable) from unusable
        observations[row] = observation

    def _require_values(self, returned: object, *names: str) -> None:
        """Raise if `reset` or `step` did not return a tuple of these values, as in Gymnasium's interface."""
        if isinstance(returned, tuple | list) and len(returned) == len(names):
            return
        given = (
            f"{len(returned)} values"
            if isinstance(returned, tuple | list)
            else f"an object of type {type(returned).__name__}"
        )
        raise self._fault(Unusable(given, f"({', '.join(names)}) is expected"))

    def _fault(self, unusable: Unusable) -> EnvironmentFault:
        return EnvironmentFault(f"{self._label} returned {unusable.given} {self._where()}, where {unusable.expected}")

    def _where(self) -> str:
        """The current position in the episode, for messages."""
        if self.length == 0:
            return f"in its reset with seed {self.seed}"
        return f"in step {self.length} of its episode with seed {self.seed}"


def _takes_no_seed(error: Exception) -> bool:
    return isinstance(error, TypeError) and "unexpected keyword argument 'seed'" in str(error)
