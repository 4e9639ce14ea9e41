"""Rows of words against the arrays they stand for, in NumPy and inside a compiled function."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from adaqn.replay.protocol import Batch, Transitions
from adaqn.replay.rows import RowLayout
from adaqn.replay.vectors import VectorReplay


def batch(n_steps: int, action: np.ndarray) -> Batch[np.ndarray]:
    rng = np.random.default_rng(0)
    count = len(action)
    return Batch(
        rng.standard_normal((count, 2, 3)).astype(np.float32),
        action,
        rng.standard_normal((count, n_steps)).astype(np.float32),
        rng.standard_normal((count, 2, 3)).astype(np.float32),
        np.array([0.0, 1.0, 0.0, 1.0], np.float32),
        np.ones(count, np.int32) if n_steps == 1 else np.array([1, 2, 3, 2], np.int32),
    )


DISCRETE = np.array([0, 3, 2**24 + 1, -1], np.int32)  # the third is no float32, the fourth looks like NaN
CONTINUOUS = np.array([[0.5, -1.0], [1e-45, 0.0], [-0.0, 2.0], [3.0, 4.0]], np.float32)  # also the smallest float


@pytest.mark.parametrize("n_steps", (1, 3))
@pytest.mark.parametrize("action", (DISCRETE, CONTINUOUS), ids=("discrete", "continuous"))
def test_rows_hold_every_bit_of_a_batch(n_steps: int, action: np.ndarray) -> None:
    given = batch(n_steps, action)
    layout = RowLayout.of((2, 3), action.shape[1:], action.dtype, n_steps)
    rows = layout.pack(given)
    assert rows.shape == (4, layout.width)
    # 12 numbers of observations, 1 or 2 of action, n rewards and 2 flags
    assert layout.width == 12 + (action.size // 4) + n_steps + 2
    for unpacked in (layout.batch(rows), jax.jit(layout.batch)(rows)):
        for name, before, after in zip(Batch._fields, given, unpacked, strict=True):
            after = np.asarray(after)
            assert (before.shape, before.dtype) == (after.shape, after.dtype), name
            assert before.tobytes() == after.tobytes(), name


@pytest.mark.parametrize("n_steps", (1, 3))
def test_drawn_rows_are_the_batch_that_the_same_numbers_draw(n_steps: int) -> None:
    replay = VectorReplay(8, 1, (2,), (), np.int32, n_steps)
    for step in range(11):
        shown = np.full((1, 2), step, np.float32)
        replay.add(
            Transitions(
                shown, np.array([step]), np.array([0.5 * step]), shown + 1, np.array([step % 3 == 0]), np.array([False])
            )
        )
    rows = replay.sample_rows(np.random.default_rng(5), 6)
    drawn = replay.sample(np.random.default_rng(5), 6)
    for left, right in zip(replay.layout.batch(rows), drawn, strict=True):
        assert left.tobytes() == right.tobytes()
    # The observation tells the step, and all else follows from it.
    for index, step in enumerate(drawn.observation[:, 0].astype(int)):
        assert 3 <= step <= 10
        assert (drawn.action[index], drawn.rewards[index, 0]) == (step, 0.5 * step)
        assert drawn.next_observation[index, 0] == step + drawn.steps[index]


def test_batches_drawn_together_are_those_drawn_one_by_one() -> None:
    replay = VectorReplay(50, 1, (1,), (), np.int32)
    for step in range(40):
        value = np.full((1, 1), step, np.float32)
        no = np.zeros(1, bool)
        replay.add(Transitions(value, np.zeros(1, np.int32), np.zeros(1, np.float32), value, no, no))
    together, one_by_one = np.random.default_rng(1), np.random.default_rng(1)
    rows = np.concatenate([replay.sample_rows(one_by_one, 4) for _ in range(3)])
    assert replay.sample_rows(together, 12).tobytes() == rows.tobytes()
    assert together.random() == one_by_one.random()
