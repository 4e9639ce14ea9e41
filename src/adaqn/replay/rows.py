"""Transitions as rows of 4-byte words, so that a batch is one array: drawn by one `take`, sent to a program at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from adaqn.replay.protocol import Batch

WORD = np.dtype(np.int32)  # integers keep every bit on the way, where floats that look like NaN might not


class RowLayout(NamedTuple):
    """Where each part of a transition lies in its row. Hashable.

    A row has the observation, the next observation, the action, n rewards and two flags. With one step the flags are
    `terminated` and `truncated`, as the ring keeps them; with several they are `terminated` and the number of steps.
    """

    observation_shape: tuple[int, ...]
    action_shape: tuple[int, ...]  # () for discrete actions
    action_dtype: str  # int32 or float32
    n_steps: int = 1

    @classmethod
    def of(
        cls, observation_shape: tuple[int, ...], action_shape: tuple[int, ...], dtype: DTypeLike, n_steps: int = 1
    ) -> RowLayout:
        """The layout for actions of this dtype."""
        return cls(observation_shape, action_shape, np.dtype(dtype).name, n_steps)

    @property
    def width(self) -> int:
        """Words in a row."""
        return self._bounds[-1]

    @property
    def _bounds(self) -> tuple[int, int, int, int, int, int]:
        """Where each part ends: the two observations, action, rewards, and the two flags."""
        size, actions = math.prod(self.observation_shape), math.prod(self.action_shape)
        rewards = 2 * size + actions + self.n_steps
        return size, 2 * size, 2 * size + actions, rewards, rewards + 1, rewards + 2

    def batch(self, rows: Any) -> Batch[Any]:
        """The batch in rows [B, W] of NumPy, or of JAX inside a compiled function."""
        first, second, action, rewards, flag, _ = self._bounds
        floats, count = rows.view(np.float32), rows.shape[0]
        return Batch(
            floats[:, :first].reshape(count, *self.observation_shape),
            rows.view(np.dtype(self.action_dtype))[:, second:action].reshape(count, *self.action_shape),
            floats[:, action:rewards],
            floats[:, first:second].reshape(count, *self.observation_shape),
            (rows[:, rewards] != 0).astype(np.float32),
            np.ones(count, np.int32) if self.n_steps == 1 else rows[:, flag],
        )

    def next_observation(self, rows: np.ndarray) -> np.ndarray:
        """The next observations in rows [B, W], in a new array. [B, ...]"""
        first, second = self._bounds[:2]
        words = np.ascontiguousarray(rows[:, first:second])
        return words.view(np.float32).reshape(len(rows), *self.observation_shape)

    def pack(self, batch: Batch[np.ndarray]) -> np.ndarray:
        """The inverse of `batch`: the rows of these transitions. [B, W]"""
        first, second, action, rewards, flag, last = self._bounds
        count = len(batch.steps)
        rows = np.zeros((count, last), WORD)
        floats = rows.view(np.float32)
        floats[:, :first] = batch.observation.reshape(count, -1)
        floats[:, first:second] = batch.next_observation.reshape(count, -1)
        rows.view(np.dtype(self.action_dtype))[:, second:action] = batch.action.reshape(count, -1)
        floats[:, action:rewards] = batch.rewards
        rows[:, rewards] = batch.terminated
        if self.n_steps > 1:
            rows[:, flag] = batch.steps
        return rows

    def with_observations(self, rows: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """A copy of rows [B, W] with a function applied to all observations [B, 2, ...]: before and after the step."""
        both = self._bounds[1]
        changed = rows.copy()
        floats = changed.view(np.float32)[:, :both]
        floats[:] = function(floats.reshape(len(rows), 2, *self.observation_shape)).reshape(len(rows), both)
        return changed

    def columns(self, words: np.ndarray) -> dict[str, np.ndarray]:
        """The parts of rows [..., W] of one step by name, as views that can be written to."""
        assert self.n_steps == 1, "a ring keeps single steps"
        first, second, action, rewards, flag, _ = self._bounds
        before = words.shape[:-1]
        floats, booleans = words.view(np.float32), words.view(np.bool_)
        # A boolean is the first byte of its word, whose other bytes stay zero.
        return {
            "observation": floats[..., :first].reshape(*before, *self.observation_shape),
            "action": words.view(np.dtype(self.action_dtype))[..., second:action].reshape(*before, *self.action_shape),
            "reward": floats[..., action],
            "next_observation": floats[..., first:second].reshape(*before, *self.observation_shape),
            "terminated": booleans[..., rewards * WORD.itemsize],
            "truncated": booleans[..., flag * WORD.itemsize],
        }
