"""Tiny environments with exactly known Q-values; each detects one kind of bug in seconds.

They are made by id (`Probe/DelayedReward-v0`), and `env.unwrapped.probe_table(gamma)` gives the exact Q-values.
With `continuous=True` the action is one number in [-1, 1].
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces


class Probe(gymnasium.Env[np.ndarray, Any]):
    """Base class of the probes: observations are one number, and episodes have a fixed length.

    By default there is a single observation, and every step gives reward 1.
    """

    steps: ClassVar[int] = 1  # length of an episode
    ends_by_truncation: ClassVar[bool] = False
    n_actions: ClassVar[int] = 2  # if actions are discrete
    probe_observations: ClassVar[tuple[float, ...]] = (0.0,)  # all non-terminal observations

    def __init__(self, continuous: bool = False) -> None:
        self.continuous = continuous
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else spaces.Discrete(self.n_actions)
        self._step = 0
        self._seen = 0.0

    @property
    def probe_actions(self) -> np.ndarray:
        """The actions of the table's columns. [A], or [A, 1] if actions are continuous."""
        if self.continuous:
            return np.linspace(-1.0, 1.0, 9, dtype=np.float32)[:, None]
        return np.arange(self.n_actions)

    def probe_table(self, gamma: float) -> tuple[np.ndarray, np.ndarray]:
        """All observations [N, 1], and the optimal Q-value of every probe action in each [N, A]."""
        q = [
            [self._q(observation, action, gamma) for action in self.probe_actions]
            for observation in self.probe_observations
        ]
        return np.array(self.probe_observations, np.float32)[:, None], np.array(q)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode; only ObservationMatters is random."""
        super().reset(seed=seed, options=options)
        self._step = 0
        self._seen = self._observe()
        return np.array([self._seen], np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Return the reward of this step, and end the episode after the last one."""
        reward = self._reward(action)
        self._step += 1
        self._seen = self._observe()
        terminated = self._step == self.steps and not self.ends_by_truncation
        truncated = self._step == self.steps and self.ends_by_truncation
        return np.array([self._seen], np.float32), reward, terminated, truncated, {}

    def _observe(self) -> float:
        return 0.0

    def _reward(self, action: Any) -> float:
        return 1.0

    def _q(self, observation: float, action: Any, gamma: float) -> float:
        """The exact Q-value of an action, worked out by hand."""
        return 1.0


class ConstantReward(Probe):
    """One action, one step, reward 1: Q = 1.

    Start with this one: if it fails, the loss or the optimizer is wrong.
    """

    n_actions = 1


class DelayedReward(Probe):
    """Reward 0, then 1, and the observation is the step: Q = gamma, then 1.

    If the first value is learned as 0 or 1, the bootstrap or the discount is wrong.
    """

    steps = 2
    probe_observations = (0.0, 1.0)

    def _observe(self) -> float:
        return float(self._step % 2)  # the terminal observation equals the first one, whose value is not 0

    def _reward(self, action: Any) -> float:
        return float(self._step)

    def _q(self, observation: float, action: Any, gamma: float) -> float:
        return 1.0 if observation == 1.0 else gamma


class ActionMatters(Probe):
    """One step with reward -1 or 1 for action 0 or 1, or -(a - 0.5)^2: Q is the reward.

    If this fails, the value of the wrong action is updated, or the actor does not follow the critic.
    """

    def _reward(self, action: Any) -> float:
        if self.continuous:
            return -((float(action[0]) - 0.5) ** 2)
        return 1.0 if action == 1 else -1.0

    def _q(self, observation: float, action: Any, gamma: float) -> float:
        return self._reward(action)


class ObservationMatters(Probe):
    """One step whose reward equals the observation, -1 or 1 at random: Q is the observation.

    If the values are learned as equal or swapped, observations are lost or mixed up on their way to the network.
    """

    probe_observations = (-1.0, 1.0)

    def _observe(self) -> float:
        return 1.0 if self.np_random.random() < 0.5 else -1.0

    def _reward(self, action: Any) -> float:
        return self._seen

    def _q(self, observation: float, action: Any, gamma: float) -> float:
        return observation


class Truncation(Probe):
    """Reward 1 in every step, truncated after 5 steps, which the observation does not show: Q = 1 / (1 - gamma).

    If 1 / (1 - 0.8 gamma) is learned, truncation cuts the bootstrap.
    """

    steps = 5
    ends_by_truncation = True

    def _q(self, observation: float, action: Any, gamma: float) -> float:
        return 1.0 / (1.0 - gamma)


class Termination(Probe):
    """Reward 1 and termination, with a terminal observation equal to the first: Q = 1.

    If values grow towards 1 / (1 - gamma), termination does not cut the bootstrap.
    """


PROBES: tuple[type[Probe], ...] = (
    ConstantReward,
    DelayedReward,
    ActionMatters,
    ObservationMatters,
    Truncation,
    Termination,
)


def register() -> None:
    """Register the probes with Gymnasium as `Probe/<class>-v0`."""
    for probe in PROBES:
        gymnasium.register(f"Probe/{probe.__name__}-v0", entry_point=f"{__name__}:{probe.__name__}")
