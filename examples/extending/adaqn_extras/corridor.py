"""An environment suite: corridors of different lengths, with a reward at the right end."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

_LENGTHS = {"Corridor/Short": 5, "Corridor/Long": 20}
NAMES = tuple(_LENGTHS)


def spec(name: str) -> EnvSpec:
    """How to make the environment with this id."""
    length = _LENGTHS[name]
    return EnvSpec(name, entry_point=Corridor, max_episode_steps=5 * length, kwargs={"length": length})


class Corridor(gymnasium.Env[np.ndarray, int]):
    """Walk left or right, from a random cell to the last one."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (length,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Start in any cell but the last; the seed alone decides which."""
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(self.length - 1))
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Move by one cell; the episode terminates in the last one."""
        self.cell = max(0, self.cell + (1 if action else -1))
        arrived = self.cell == self.length - 1
        return self._observation(), float(arrived), arrived, False, {}

    def _observation(self) -> np.ndarray:
        return np.eye(self.length, dtype=np.float32)[self.cell]
