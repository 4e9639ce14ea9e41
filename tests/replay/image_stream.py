"""A stream of transitions as from an environment with stacked images, each with a unique number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adaqn.replay.frames import Padding
from adaqn.replay.protocol import Batch, Transitions


class ImageStream:
    """Random frames in episodes that end on request; records every transition."""

    def __init__(
        self, n_envs: int, stack: int, padding: Padding, channels: int = 1, size: tuple[int, int] = (2, 3)
    ) -> None:
        self.n_envs = n_envs
        self.shape = (*size, stack * channels)
        self.history: list[Transitions] = []
        self.last_steps: set[tuple[int, int]] = set()  # row and environment of the last step of every episode
        self._channels = channels
        self._padding = padding
        self._rng = np.random.default_rng(n_envs + 10 * stack)
        self._observation = np.stack([self._first_observation() for _ in range(n_envs)])

    def step(self, ends: Sequence[str]) -> Transitions:
        """The next row; each episode continues (""), is terminated ("t"), truncated ("u"), or both ("b")."""
        row = len(self.history)
        following = np.concatenate([self._observation[..., self._channels :], self._frames(self.n_envs)], axis=-1)
        number = self.n_envs * row + np.arange(self.n_envs)
        transitions = Transitions(
            observation=self._observation,
            action=number.astype(np.int32),
            reward=self._rng.normal(size=self.n_envs).astype(np.float32),
            next_observation=following,
            terminated=np.array([end in ("t", "b") for end in ends]),
            truncated=np.array([end in ("u", "b") for end in ends]),
        )
        self.history.append(transitions)
        self._observation = following.copy()
        self.give_up([env for env, end in enumerate(ends) if end in ("t", "u", "b")])
        return transitions

    def give_up(self, environments: Sequence[int]) -> None:
        """Begin new episodes after the last step."""
        for env in environments:
            self.last_steps.add((len(self.history) - 1, env))
            self._observation[env] = self._first_observation()

    def assert_shown(self, batch: Batch[np.ndarray], n_steps: int) -> None:
        """Check that every transition of the batch equals that of the stream, byte for byte."""
        for index, number in enumerate(batch.action.tolist()):
            row, env = divmod(number, self.n_envs)
            rewards: list[float] = []
            last = row
            for last in range(row, min(row + n_steps, len(self.history))):
                rewards.append(float(self.history[last].reward[env]))
                if (last, env) in self.last_steps:
                    break
            shown, final = self.history[row], self.history[last]
            np.testing.assert_array_equal(batch.observation[index], shown.observation[env])
            np.testing.assert_array_equal(batch.next_observation[index], final.next_observation[env])
            assert batch.rewards[index].tolist() == rewards + [0.0] * (n_steps - len(rewards))
            assert batch.steps[index] == len(rewards)
            assert batch.terminated[index] == float(final.terminated[env])

    def _frames(self, count: int) -> np.ndarray:
        # Without zeros, so that a padding of zeros is not met by chance.
        return self._rng.integers(1, 256, (count, *self.shape[:2], self._channels), dtype=np.uint8)

    def _first_observation(self) -> np.ndarray:
        frame = self._frames(1)[0]
        if self._padding == "repeat":
            return np.tile(frame, (1, 1, self.shape[2] // self._channels))
        observation = np.zeros(self.shape, np.uint8)
        observation[..., -self._channels :] = frame
        return observation
