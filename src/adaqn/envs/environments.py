"""The environments of a run, stepped in this process, with explicit resets.

We use a plain list instead of a `gymnasium.vector` environment, because each environment must be restorable on its
own: its position is the seed of the current episode and the actions taken since, which a resumed run repeats.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from adaqn.base.errors import CheckpointError, EnvironmentFault, UserError
from adaqn.envs.episode import EpisodePosition, RunningEpisode
from adaqn.envs.making import close, frame_stack_of, learning_reward_bound_of, name_of
from adaqn.envs.source import EnvironmentLike, EnvironmentSource
from adaqn.envs.spaces import observation_dtype, require_box_observations
from adaqn.replay.protocol import Transitions


@dataclass(frozen=True, slots=True)
class FinishedEpisode:
    """An episode that ended in the last step."""

    index: int  # of the environment
    total: float  # undiscounted return, summed in double precision
    length: int


class Environments:
    """n environments of the same kind, with the current episode of each.

    Agents choose actions 0..n-1 for a Discrete space and in [-1, 1] for a Box; they are converted to the environment's
    own here. If the environment defines a reward bound, rewards in transitions are clipped, but returns are not.
    """

    def __init__(self, envs: Sequence[gymnasium.Env], owned: bool) -> None:
        """Wrap environments with equal spaces; `close` closes them only if they are `owned`."""
        self.name = name_of(envs[0])
        for attribute in ("observation_space", "action_space"):
            if not hasattr(envs[0], attribute):
                raise UserError(f"environment {self.name} has no {attribute}")
        self.observation_space = require_box_observations(envs[0].observation_space)
        self.action_space = _known_actions(envs[0].action_space)
        self.frame_stack = frame_stack_of(envs[0])  # 1 unless observations are stacks of images
        self._reward_bound = learning_reward_bound_of(envs[0])
        self._envs = tuple(envs)
        self._owned = owned
        self._episodes = tuple(
            RunningEpisode(env, self._label(index), self.observation_space, self.action_space)
            for index, env in enumerate(envs)
        )
        self._actions_shape = (len(envs), *(self.action_space.shape or ()))
        # [n, ...] current observations. Each step assigns a new array, which is never written to again, so that
        # transitions can refer to it without a copy.
        self.observations = np.zeros(
            (len(envs), *self.observation_space.shape), observation_dtype(self.observation_space)
        )
        self.finished: list[FinishedEpisode] = []  # in the last step

    @classmethod
    def make(
        cls, env: EnvironmentLike | EnvironmentSource, n_envs: int, env_kwargs: Mapping[str, Any] | None = None
    ) -> Environments:
        """Make `n_envs` environments from an id or function, or wrap the one environment given."""
        if n_envs < 1:
            raise UserError(f"n_envs must be at least 1, but it is {n_envs}")
        source = env if isinstance(env, EnvironmentSource) else EnvironmentSource.of(env, env_kwargs)
        envs = source.make_several(n_envs)
        try:
            return cls(envs, owned=source.repeatable)
        except UserError:
            if source.repeatable:
                for made in envs:
                    close(made)
            raise

    @property
    def envs(self) -> tuple[gymnasium.Env, ...]:
        """The underlying environments; stepping one directly breaks the record of its episode."""
        return self._envs

    @property
    def infos(self) -> list[dict[str, Any]]:
        """The info dict of each environment's last step."""
        return [episode.info for episode in self._episodes]

    @property
    def count(self) -> int:
        """Number of environments."""
        return len(self._envs)

    def reset(self, rng: np.random.Generator) -> None:
        """Start a new episode in every environment, each with its own seed."""
        observations = np.empty_like(self.observations)
        for index, episode in enumerate(self._episodes):
            episode.begin(_seed(rng), observations, index)
        self.observations = observations
        self.finished = []

    def step(self, actions: np.ndarray, rng: np.random.Generator) -> Transitions:
        """Step all environments, then start a new episode where one ended. Actions are [n] or [n, A]."""
        actions = np.asarray(actions)
        if actions.shape != self._actions_shape:
            raise ValueError(f"actions have shape {actions.shape} where {self._actions_shape} is expected")
        count = len(self._episodes)
        observations = self.observations
        next_observations = np.empty_like(observations)
        rewards = np.empty(count, np.float32)
        terminated = np.empty(count, np.bool_)
        truncated = np.empty(count, np.bool_)
        finished: list[FinishedEpisode] = []
        for index, episode in enumerate(self._episodes):
            rewards[index], terminates, truncates = episode.step(actions[index], next_observations, index)
            terminated[index] = terminates
            truncated[index] = truncates
            if terminates or truncates:
                finished.append(FinishedEpisode(index, episode.total, episode.length))
        if finished:
            self.observations = next_observations.copy()
            for ended in finished:
                self._episodes[ended.index].begin(_seed(rng), self.observations, ended.index)
        else:
            self.observations = next_observations
        self.finished = finished
        if self._reward_bound is not None:
            np.clip(rewards, -self._reward_bound, self._reward_bound, out=rewards)
        return Transitions(observations, actions, rewards, next_observations, terminated, truncated)

    def position(self) -> tuple[EpisodePosition, ...]:
        """The position of each environment: what is needed to reproduce its current episode."""
        return tuple(episode.position() for episode in self._episodes)

    def restore(
        self, position: Sequence[EpisodePosition], observations: np.ndarray, rng: np.random.Generator
    ) -> list[int]:
        """Restore a recorded position, at which the environments had these observations.

        An environment that does not reproduce its episode starts a new one, with a warning and a seed from `rng`.
        Returns the indices of these environments.
        """
        if len(position) != self.count:
            raise CheckpointError(f"a position of {len(position)} environments was given for {self.count}")
        if observations.shape != self.observations.shape or observations.dtype != self.observations.dtype:
            raise CheckpointError(
                f"the recorded observations are {observations.dtype}{list(observations.shape)}, "
                f"but {self.name} has {self.observations.dtype}{list(self.observations.shape)}"
            )
        restored = np.empty_like(self.observations)
        renewed: list[int] = []
        for index, (episode, recorded) in enumerate(zip(self._episodes, position, strict=True)):
            try:
                difference = episode.repeat(recorded, observations, restored, index)
            except EnvironmentFault as fault:  # the recorded episode had no fault
                difference = str(fault)
            if difference is not None:
                warnings.warn(
                    f"{self._label(index)} did not repeat its episode of seed {recorded.seed} "
                    f"({difference}), so it starts a new one, and the run differs from an uninterrupted one",
                    RuntimeWarning,
                    stacklevel=2,
                )
                episode.begin(_seed(rng), restored, index)
                renewed.append(index)
        self.observations = restored
        self.finished = []
        return renewed

    def close(self) -> None:
        """Close the environments that were made here; an environment passed by the user stays open."""
        if self._owned:
            for env in self._envs:
                close(env)

    def _label(self, index: int) -> str:
        """The name of an environment in messages."""
        return f"environment {self.name}" + (f" number {index}" if len(self._envs) > 1 else "")


def _known_actions(space: spaces.Space) -> spaces.Discrete | spaces.Box:
    if not isinstance(space, spaces.Discrete | spaces.Box):
        raise UserError(f"the action space must be Discrete or a Box, but it is a {type(space).__name__}")
    return space


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))
