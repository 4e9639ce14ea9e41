"""A ring buffer for vector observations; n-step transitions are assembled when sampled."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import DTypeLike

from adaqn.replay.protocol import Batch, Transitions
from adaqn.replay.ring import Ring, allocated, check_sizes
from adaqn.replay.rows import WORD, RowLayout


class VectorReplay:
    """A ring of rows, each one step of all environments.

    Row number r is in slot r modulo the number of slots, also after a restore, so that the same random numbers draw
    the same transitions.
    """

    def __init__(
        self,
        capacity: int,  # transitions in total
        n_envs: int,
        observation_shape: tuple[int, ...],
        action_shape: tuple[int, ...],  # () for discrete actions
        action_dtype: DTypeLike,
        n_steps: int = 1,
    ) -> None:
        check_sizes(capacity, n_envs, n_steps)
        self.n_envs = n_envs
        self.n_steps = n_steps
        self.layout = RowLayout.of(observation_shape, action_shape, action_dtype, n_steps)
        kept = self.layout._replace(n_steps=1)
        slots = max(1, capacity // n_envs)
        words = allocated(slots, {"words": ((n_envs, kept.width), WORD)})["words"]
        # One contiguous row per transition: sampling touches few cache lines and copies each row in one piece.
        self._ring = Ring(slots, kept.columns(words))
        # A view [slots * n_envs, W] of the same memory: `take` is fast with one index for (slot, environment).
        self._rows = words.reshape(-1, kept.width)
        flat = kept.columns(self._rows)
        self._observation = flat["observation"]
        self._action = flat["action"]
        self._reward = flat["reward"]
        self._next_observation = flat["next_observation"]
        self._terminated = flat["terminated"]
        self._truncated = flat["truncated"]

    @property
    def nbytes(self) -> int:
        """The size of this buffer in memory when it is full."""
        return self._rows.nbytes

    @property
    def added(self) -> int:
        """Number of rows ever added."""
        return self._ring.added

    @property
    def oldest(self) -> int:
        """Index of the oldest row still held."""
        return self._ring.oldest

    def add(self, transitions: Transitions) -> None:
        """Add a row; once the ring is full, it overwrites the oldest one."""
        arrays = self._ring.arrays
        slot = self._ring.added % self._ring.slots
        arrays["observation"][slot] = transitions.observation
        arrays["action"][slot] = transitions.action
        arrays["reward"][slot] = transitions.reward
        arrays["next_observation"][slot] = transitions.next_observation
        arrays["terminated"][slot] = transitions.terminated
        arrays["truncated"][slot] = transitions.truncated
        self._ring.advance()

    def cut(self, environments: Iterable[int]) -> None:
        """Mark the newest step of these environments as the end of an abandoned episode."""
        ring = self._ring
        if ring.added > ring.oldest:
            ring.arrays["truncated"][(ring.added - 1) % ring.slots, list(environments)] = True

    def clear(self) -> None:
        """Discard all transitions; the next step begins an episode."""
        self._ring.clear()

    def sample(self, rng: np.random.Generator, batch_size: int) -> Batch[np.ndarray]:
        """Transitions drawn uniformly with replacement, in new arrays, each over up to `n_steps` steps."""
        return self.layout.batch(self.sample_rows(rng, batch_size))

    def sample_rows(self, rng: np.random.Generator, batch_size: int) -> np.ndarray:
        """The same as rows in the layout of this buffer. [B, W]"""
        ring = self._ring
        held = (ring.added - ring.oldest) * self.n_envs
        if held == 0:
            raise ValueError("nothing can be sampled from an empty replay buffer")
        # Counted from the oldest transition. The product is below `held` even for the largest number from `random`,
        # and takes half the time of `rng.integers`.
        drawn = (rng.random(batch_size) * held).astype(np.int64)
        # Indices may exceed the end of the ring: `take` wraps them.
        index = drawn + (ring.oldest % ring.slots) * self.n_envs
        if self.n_steps > 1:
            return self.layout.pack(self._sample_steps(index, (held - drawn - 1) // self.n_envs + 1))
        return self._rows.take(index, axis=0, mode="wrap")

    def _sample_steps(self, start: np.ndarray, remaining: np.ndarray) -> Batch[np.ndarray]:
        """The transitions from `start` up to the end of the episode, the newest row, or n steps.

        `remaining` is the number of rows from `start` to the newest, after which the ring continues with the oldest.
        """
        ahead = np.arange(self.n_steps)
        index = start[:, None] + ahead * self.n_envs  # [B, n] the following steps of the same environment
        ended = self._terminated.take(index, mode="wrap") | self._truncated.take(index, mode="wrap")
        ended[:, -1] = True
        steps = np.minimum(ended.argmax(axis=1) + 1, remaining)
        last = start + (steps - 1) * self.n_envs
        return Batch(
            self._observation.take(start, axis=0, mode="wrap"),
            self._action.take(start, axis=0, mode="wrap"),
            np.where(ahead < steps[:, None], self._reward.take(index, mode="wrap"), np.float32(0.0)),
            self._next_observation.take(last, axis=0, mode="wrap"),
            self._terminated.take(last, mode="wrap").astype(np.float32),
            steps.astype(np.int32),
        )

    def rows(self, first: int, last: int) -> dict[str, np.ndarray]:
        """Copies of the rows first..last-1 by array name, in the order they were added."""
        return self._ring.rows(first, last)

    def restore(self, first: int, rows: dict[str, np.ndarray]) -> None:
        """Restore rows returned by `rows`, starting at this number; calls must be in ascending order."""
        self._ring.restore(first, rows)
