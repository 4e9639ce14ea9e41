"""A fixed-size ring of rows, with export to a checkpoint and restore."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import DTypeLike

from adaqn.base.errors import CheckpointError, UserError
from adaqn.replay.memory import available_memory, require_memory, too_large

# A short run, or an agent loaded for evaluation, never fills its buffer, so a buffer may exceed the memory when full;
# whether the part that a run fills fits is checked when its length is known. A buffer larger than this many times the
# memory is certainly a mistake.
UNFILLED = 100

Columns = Mapping[str, tuple[tuple[int, ...], DTypeLike]]  # shape and dtype of each column of a row, by name


class Ring:
    """Slots for rows, with one array per column.

    Row number r is in slot r modulo the number of slots, also after a restore. The owner of the ring writes new rows
    into `arrays` and then calls `advance`.
    """

    def __init__(self, slots: int, arrays: Mapping[str, np.ndarray]) -> None:
        self.slots = slots
        self.added = 0  # number of rows ever added
        self.oldest = 0  # index of the oldest row still held
        self.arrays = arrays  # [slots, ...] each

    def advance(self, rows: int = 1) -> None:
        """Register rows written after the newest one; once the ring is full, they have overwritten the oldest."""
        self.added += rows
        if self.added - self.oldest > self.slots:
            self.oldest = self.added - self.slots

    def clear(self) -> None:
        """Discard all rows; the numbering continues."""
        self.oldest = self.added

    def rows(self, first: int, last: int) -> dict[str, np.ndarray]:
        """Copies of the rows first..last-1 by column name, in the order they were added."""
        if not self.oldest <= first <= last <= self.added:
            raise ValueError(f"rows {first} to {last} are not among those held, {self.oldest} to {self.added}")
        slots = np.arange(first, last) % self.slots
        return {name: array[slots] for name, array in self.arrays.items()}

    def restore(self, first: int, rows: Mapping[str, np.ndarray]) -> None:
        """Restore rows returned by `rows`, starting at this number; calls must be in ascending order."""
        if self.added > self.oldest and first != self.added:
            raise CheckpointError(f"rows of the replay buffer must follow row {self.added}, but begin at {first}")
        if rows.keys() != self.arrays.keys():
            raise CheckpointError(
                f"rows of the replay buffer must have {', '.join(self.arrays)}, but have {', '.join(rows)}"
            )
        count = len(rows["reward"])  # a column that every buffer has
        for name, array in self.arrays.items():
            expected, given = (count, *array.shape[1:]), rows[name]
            if given.shape != expected or given.dtype != array.dtype:
                raise CheckpointError(
                    f"{name} in the rows of the replay buffer must be {array.dtype}{list(expected)}, "
                    f"but is {given.dtype}{list(given.shape)}"
                )
        if self.added == self.oldest:
            self.oldest = first
        self.added = first + count
        kept = min(count, self.slots)
        slots = np.arange(self.added - kept, self.added) % self.slots
        for name, array in self.arrays.items():
            array[slots] = rows[name][count - kept :]
        self.oldest = max(self.oldest, self.added - self.slots)


def allocated(slots: int, columns: Columns) -> dict[str, np.ndarray]:
    """Allocate zeroed arrays with this number of slots, or raise if they need more memory than is available."""
    size = slots * sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in columns.values())
    require_memory(size, times=UNFILLED)
    try:
        # The system allocates zeroed pages at the first write, so a large buffer costs nothing yet.
        return {name: np.zeros((slots, *shape), dtype) for name, (shape, dtype) in columns.items()}
    except (MemoryError, ValueError, OverflowError) as error:  # more than is available or addressable
        raise too_large(size, available_memory()) from error


def check_sizes(capacity: int, n_envs: int, n_steps: int) -> None:
    """Raise if any of these is less than 1."""
    if capacity < 1:
        raise UserError(f"the capacity of the replay buffer must be at least 1, but it is {capacity}")
    if n_envs < 1:
        raise UserError(f"n_envs must be at least 1, but it is {n_envs}")
    if n_steps < 1:
        raise UserError(f"n_steps must be at least 1, but it is {n_steps}")
