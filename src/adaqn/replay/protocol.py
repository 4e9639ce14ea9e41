"""What learning needs of a replay buffer, and what a checkpoint needs of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

AnyArray = TypeVar("AnyArray")


class Batch(NamedTuple, Generic[AnyArray]):
    """B transitions, each over up to n steps: arrays of NumPy, or of JAX inside a compiled function."""

    observation: AnyArray  # [B, ...]
    action: AnyArray  # [B] int32, or [B, A] float32
    rewards: AnyArray  # [B, n] zero beyond `steps`
    next_observation: AnyArray  # [B, ...] after the last of the steps
    terminated: AnyArray  # [B] 1.0 where the last step ended the episode for good, else 0.0
    steps: AnyArray  # [B] int32, how many of the n steps were taken


class Transitions(NamedTuple):
    """One step of every environment."""

    observation: np.ndarray  # [n_envs, ...]
    action: np.ndarray  # [n_envs, ...]
    reward: np.ndarray  # [n_envs]
    next_observation: np.ndarray  # [n_envs, ...] of the same episode, also where it ended
    terminated: np.ndarray  # [n_envs] bool: cuts the bootstrap
    truncated: np.ndarray  # [n_envs] bool: ends the episode, does not cut the bootstrap


class Replay(Protocol):
    """A ring of rows, numbered from the first ever added.

    A row is what the buffer writes at a time: a step of all environments, or one frame of one of them.
    """

    @property
    def added(self) -> int:
        """Rows ever added."""
        ...

    @property
    def oldest(self) -> int:
        """Number of the oldest row still held; `added - oldest` rows are held."""
        ...

    @property
    def nbytes(self) -> int:
        """The memory that it takes when it is full."""
        ...

    def add(self, transitions: Transitions) -> None: ...

    def cut(self, environments: Iterable[int]) -> None:
        """Say that the newest step of these environments was the last of its episode, which was given up there."""
        ...

    def clear(self) -> None:
        """Give up all that is held; the next step begins an episode."""
        ...

    def sample(self, rng: np.random.Generator, batch_size: int) -> Batch[np.ndarray]:
        """Transitions drawn uniformly with replacement."""
        ...

    def rows(self, first: int, last: int) -> dict[str, np.ndarray]:
        """Copies of the rows first..last-1, by the name of each array, in the order they were added."""
        ...

    def restore(self, first: int, rows: dict[str, np.ndarray]) -> None:
        """Put rows back that `rows` gave, the first of them with this number; calls go in ascending order."""
        ...
