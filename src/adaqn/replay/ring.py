"""Rows in a ring of fixed size: where each lies, and how rows leave for a checkpoint and come back."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import DTypeLike

from adaqn.errors import CheckpointError, UserError
from adaqn.replay.memory import available_memory, require_memory, too_large

# A short run, or an agent that was loaded to be evaluated, may have a buffer that it never fills, so one is allowed
# that would not fit when full; whether as much as a run fills does fit is asked when its length is known. What is
# beyond this many times the memory is a mistake.
UNFILLED = 100

Columns = Mapping[str, tuple[tuple[int, ...], DTypeLike]]  # shape and dtype of what a row has, by its name


class Ring:
    """Slots for rows, one array for each column.

    Row number r lies in slot r modulo the number of slots, also after a restore. Who owns the ring writes new rows
    into `arrays` and then says with `advance` that they are there.
    """

    def __init__(self, slots: int, arrays: Mapping[str, np.ndarray]) -> None:
        self.slots = slots
        self.added = 0  # rows ever added
        self.oldest = 0  # number of the oldest row still held
        self.arrays = arrays  # [slots, ...] each

    def advance(self, rows: int = 1) -> None:
        """Count rows that were written behind the newest, over the oldest ones once the ring is full."""
        self.added += rows
        if self.added - self.oldest > self.slots:
            self.oldest = self.added - self.slots

    def clear(self) -> None:
        """Hold no row any more; the next one is numbered as if they were still there."""
        self.oldest = self.added

    def rows(self, first: int, last: int) -> dict[str, np.ndarray]:
        """Copies of the rows first..last-1, by the name of each column, in the order they were added."""
        if not self.oldest <= first <= last <= self.added:
            raise ValueError(f"rows {first} to {last} are not among those held, {self.oldest} to {self.added}")
        slots = np.arange(first, last) % self.slots
        return {name: array[slots] for name, array in self.arrays.items()}

    def restore(self, first: int, rows: Mapping[str, np.ndarray]) -> None:
        """Put rows back that `rows` gave, the first of them with this number; calls go in ascending order."""
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
    """Zeroed arrays with so many slots, or the error that they take more memory than there is."""
    size = slots * sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in columns.values())
    require_memory(size, times=UNFILLED)
    try:
        # The system gives zeroed memory page by page at the first write, so a large buffer costs nothing yet.
        return {name: np.zeros((slots, *shape), dtype) for name, (shape, dtype) in columns.items()}
    except (MemoryError, ValueError, OverflowError) as error:  # more than there is, or than can be addressed
        raise too_large(size, available_memory()) from error


def check_sizes(capacity: int, n_envs: int, n_steps: int) -> None:
    """Refuse a buffer that could hold nothing."""
    if capacity < 1:
        raise UserError(f"the capacity of the replay buffer must be at least 1, but it is {capacity}")
    if n_envs < 1:
        raise UserError(f"n_envs must be at least 1, but it is {n_envs}")
    if n_steps < 1:
        raise UserError(f"n_steps must be at least 1, but it is {n_steps}")
