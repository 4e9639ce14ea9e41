"""The interface of a replay buffer for learning and for checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

AnyArray = TypeVar("AnyArray")


class Batch(NamedTuple, Generic[AnyArray]):
    """B transitions, each over up to n steps: NumPy arrays, or JAX arrays inside a compiled function."""

    observation: AnyArray  # [B, ...]
    action: AnyArray  # [B] int32, or [B, A] float32
    rewards: AnyArray  # [B, n] zero beyond `steps`
    next_observation: AnyArray  # [B, ...] after the last of the steps
    terminated: AnyArray  # [B] 1.0 where the last step terminated the episode, else 0.0
    steps: AnyArray  # [B] int32, number of steps taken, at most n


class Transitions(NamedTuple):
    """One step of every environment."""

    observation: np.ndarray  # [n_envs, ...]
    action: np.ndarray  # [n_envs, ...]
    reward: np.ndarray  # [n_envs]
    next_observation: np.ndarray  # [n_envs, ...] of the same episode, even if it ended
    terminated: np.ndarray  # [n_envs] bool: cuts the bootstrap
    truncated: np.ndarray  # [n_envs] bool: ends the episode, does not cut the bootstrap


class Replay(Protocol):
    """A ring of rows, numbered from the first one ever added.

    A row is the buffer's unit of storage: a step of all environments, or one frame of one environment.
    """

    @property
    def added(self) -> int:
        """Number of rows ever added."""
        ...

    @property
    def oldest(self) -> int:
        """Index of the oldest row still held; `added - oldest` rows are held."""
        ...

    @property
    def nbytes(self) -> int:
        """The size of the buffer in memory when it is full."""
        ...

    def add(self, transitions: Transitions) -> None: ...

    def cut(self, environments: Iterable[int]) -> None:
        """Mark the newest step of these environments as the end of an abandoned episode."""
        ...

    def clear(self) -> None:
        """Discard all transitions; the next step begins an episode."""
        ...

    def sample(self, rng: np.random.Generator, batch_size: int) -> Batch[np.ndarray]:
        """Transitions drawn uniformly with replacement."""
        ...

    def rows(self, first: int, last: int) -> dict[str, np.ndarray]:
        """Copies of the rows first..last-1 by array name, in the order they were added."""
        ...

    def restore(self, first: int, rows: dict[str, np.ndarray]) -> None:
        """Restore rows returned by `rows`, starting at this number; calls must be in ascending order."""
        ...
