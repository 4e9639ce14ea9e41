"""The vector buffer against a model that keeps every transition in a list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaqn.base.errors import CheckpointError, UserError
from adaqn.replay.protocol import Batch, Replay, Transitions
from adaqn.replay.vectors import VectorReplay


def transitions(row: int, ends: list[str]) -> Transitions:
    """A row of a stream in which every number encodes row and environment; ends are t, u, both or neither."""
    n_envs = len(ends)
    code = 10.0 * row + np.arange(n_envs)
    return Transitions(
        observation=np.stack([code, -code], axis=1).astype(np.float32),
        action=(code + 1).astype(np.int32),
        reward=(code + 2).astype(np.float32),
        next_observation=np.stack([code + 0.5, -code - 0.5], axis=1).astype(np.float32),
        terminated=np.array([end in ("t", "b") for end in ends]),
        truncated=np.array([end in ("u", "b") for end in ends]),
    )


def buffer(capacity: int, n_envs: int, n_steps: int) -> VectorReplay:
    return VectorReplay(capacity, n_envs, (2,), (), np.int32, n_steps)


def expected_element(stream: list[Transitions], row: int, env: int, n_steps: int) -> tuple[object, ...]:
    """The n-step transition that begins here, computed by following the stream."""
    rewards = [0.0] * n_steps
    steps, last = 0, row
    while steps < n_steps and row + steps < len(stream):
        last = row + steps
        rewards[steps] = float(stream[last].reward[env])
        steps += 1
        if stream[last].terminated[env] or stream[last].truncated[env]:
            break
    return (
        stream[row].observation[env].tolist(),
        int(stream[row].action[env]),
        rewards,
        stream[last].next_observation[env].tolist(),
        float(stream[last].terminated[env]),
        steps,
    )


def element(batch: Batch, index: int) -> tuple[object, ...]:
    return tuple(array[index].tolist() for array in batch)


def origin(batch: Batch, index: int) -> tuple[int, int]:
    """Row and environment of a sampled transition, decoded from its observation."""
    return divmod(int(batch.observation[index, 0]), 10)


streams = st.integers(1, 3).flatmap(
    lambda n_envs: st.lists(
        st.lists(st.sampled_from(["", "", "", "t", "u", "b"]), min_size=n_envs, max_size=n_envs),
        min_size=1,
        max_size=25,
    )
)


@settings(max_examples=150, deadline=None)
@given(ends=streams, capacity=st.integers(1, 30), n_steps=st.integers(1, 4), seed=st.integers(0, 99))
def test_every_sample_is_the_n_step_transition_of_the_stream(
    ends: list[list[str]], capacity: int, n_steps: int, seed: int
) -> None:
    n_envs = len(ends[0])
    replay = buffer(capacity, n_envs, n_steps)
    stream = [transitions(row, flags) for row, flags in enumerate(ends)]
    for row in stream:
        replay.add(row)
    oldest = max(0, len(stream) - max(1, capacity // n_envs))
    assert (replay.added, replay.oldest) == (len(stream), oldest)
    batch = replay.sample(np.random.default_rng(seed), 64)
    for index in range(64):
        row, env = origin(batch, index)
        assert oldest <= row < len(stream)
        assert element(batch, index) == expected_element(stream, row, env, n_steps)


@settings(max_examples=60, deadline=None)
@given(ends=streams, capacity=st.integers(1, 30), n_steps=st.integers(1, 3), cut=st.floats(0, 1))
def test_restored_rows_draw_the_same_samples(ends: list[list[str]], capacity: int, n_steps: int, cut: float) -> None:
    n_envs = len(ends[0])
    original, restored = buffer(capacity, n_envs, n_steps), buffer(capacity, n_envs, n_steps)
    for row, flags in enumerate(ends):
        original.add(transitions(row, flags))
    middle = original.oldest + int(cut * (original.added - original.oldest))
    restored.restore(original.oldest, original.rows(original.oldest, middle))
    restored.restore(middle, original.rows(middle, original.added))
    for further in range(3):
        assert (restored.added, restored.oldest) == (original.added, original.oldest)
        for left, right in zip(
            original.sample(np.random.default_rng(further), 40),
            restored.sample(np.random.default_rng(further), 40),
            strict=True,
        ):
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left, right)
        for replay in (original, restored):
            replay.add(transitions(len(ends) + further, [""] * n_envs))


def test_rows_older_than_the_ring_are_overwritten_when_restored() -> None:
    long, short = buffer(20, 2, 1), buffer(6, 2, 1)
    for row in range(10):
        long.add(transitions(row, ["", "t"]))
    short.restore(0, long.rows(0, 10))
    assert (short.oldest, short.added) == (7, 10)
    np.testing.assert_array_equal(short.rows(7, 10)["action"], long.rows(7, 10)["action"])


def test_a_restore_that_begins_late_samples_only_what_it_was_given() -> None:
    whole, part = buffer(8, 1, 2), buffer(8, 1, 2)
    for row in range(8):
        whole.add(transitions(row, [""]))
    part.restore(5, whole.rows(5, 8))
    batch = part.sample(np.random.default_rng(0), 200)
    assert set(batch.action.tolist()) == {51, 61, 71}


def test_rows_are_copies_in_the_order_added_and_have_names() -> None:
    replay = buffer(4, 1, 1)
    for row in range(6):
        replay.add(transitions(row, ["u"]))
    rows = replay.rows(3, 6)
    replay.add(transitions(6, [""]))
    replay.add(transitions(7, [""]))
    assert rows["reward"][:, 0].tolist() == [32.0, 42.0, 52.0]
    assert rows["truncated"].tolist() == [[True]] * 3
    assert list(rows) == ["observation", "action", "reward", "next_observation", "terminated", "truncated"]


def test_rows_that_are_not_held_are_refused() -> None:
    replay = buffer(4, 1, 1)
    for row in range(6):
        replay.add(transitions(row, [""]))
    with pytest.raises(ValueError, match=r"rows 1 to 3 are not among those held, 2 to 6"):
        replay.rows(1, 3)


def test_rows_of_another_shape_or_with_a_gap_are_refused() -> None:
    replay, other = buffer(4, 1, 1), VectorReplay(4, 1, (3,), (), np.int32)
    replay.add(transitions(0, [""]))
    with pytest.raises(CheckpointError, match=r"observation .* must be float32\[1, 1, 3\], but is float32\[1, 1, 2\]"):
        other.restore(0, replay.rows(0, 1))
    with pytest.raises(CheckpointError, match="must follow row 1, but begin at 2"):
        replay.restore(2, replay.rows(0, 1))
    without = {name: array for name, array in replay.rows(0, 1).items() if name != "truncated"}
    with pytest.raises(CheckpointError, match="truncated"):
        buffer(4, 1, 1).restore(0, without)


def test_a_truncated_end_bootstraps_and_does_not_leak_into_the_next_episode() -> None:
    replay = buffer(10, 1, 3)
    for row, end in enumerate(["", "u", "", "t"]):
        replay.add(transitions(row, [end]))
    batch = replay.sample(np.random.default_rng(0), 100)
    first = batch.action.tolist().index(1)  # begins at row 0, cut at row 1
    assert element(batch, first) == ([0.0, 0.0], 1, [2.0, 12.0, 0.0], [10.5, -10.5], 0.0, 2)
    third = batch.action.tolist().index(21)  # begins at row 2, terminates at row 3
    assert element(batch, third) == ([20.0, -20.0], 21, [22.0, 32.0, 0.0], [30.5, -30.5], 1.0, 2)


@pytest.mark.parametrize("n_steps", [1, 3])
def test_sampling_is_uniform_over_rows_and_environments(n_steps: int) -> None:
    replay = buffer(20, 2, n_steps)
    for row in range(33):  # wrapped around
        replay.add(transitions(row, ["", "t"]))
    batch = replay.sample(np.random.default_rng(0), 20_000)
    codes, counts = np.unique(batch.action - 1, return_counts=True)
    assert codes.tolist() == [10 * row + env for row in range(23, 33) for env in range(2)]
    chi_square = float(((counts - 1000.0) ** 2 / 1000.0).sum())
    assert chi_square < 43.8  # 99.9 % quantile with 19 degrees of freedom


@pytest.mark.parametrize("n_steps", [1, 2])
def test_samples_do_not_share_memory_with_the_buffer_or_each_other(n_steps: int) -> None:
    replay = buffer(3, 1, n_steps)
    replay.add(transitions(0, [""]))
    first = replay.sample(np.random.default_rng(0), 4)
    second = replay.sample(np.random.default_rng(0), 4)
    for array in first:
        array[...] = 77
    replay.add(transitions(1, [""]))
    replay.restore(
        2,
        {name: 0 * array for name, array in replay.rows(0, 2).items() if array.dtype != bool}
        | {"terminated": np.zeros((2, 1), bool), "truncated": np.zeros((2, 1), bool)},
    )
    assert element(second, 0) == ([0.0, 0.0], 1, [2.0] + [0.0] * (n_steps - 1), [0.5, -0.5], 0.0, 1)


def test_batches_have_the_agreed_types_also_for_vector_actions() -> None:
    replay = VectorReplay(6, 2, (3,), (2,), np.float32, n_steps=2)
    replay.add(
        Transitions(
            np.ones((2, 3)),
            np.array([[1.0, 2.0], [3.0, 4.0]]),
            np.ones(2),
            np.ones((2, 3)),
            np.array([True, True]),
            np.array([False, False]),
        )
    )
    batch = replay.sample(np.random.default_rng(3), 5)
    assert [array.dtype.name for array in batch] == ["float32"] * 5 + ["int32"]
    assert [array.shape for array in batch] == [(5, 3), (5, 2), (5, 2), (5, 3), (5,), (5,)]
    assert {tuple(action) for action in batch.action.tolist()} == {(1.0, 2.0), (3.0, 4.0)}


def test_memory_is_known_before_the_buffer_is_full() -> None:
    # 2 observations of 3 floats, 2 floats of action, the reward, 2 flags: 11 words of 4 bytes; 5 // 2 = 2 rows of 2.
    assert VectorReplay(5, 2, (3,), (2,), np.float32).nbytes == 4 * 44


def test_the_buffer_is_what_the_loop_expects() -> None:
    replay: Replay = buffer(4, 1, 1)  # checked by pyright
    replay.add(transitions(0, [""]))
    assert (replay.added, replay.oldest) == (1, 0)


def test_nonsense_and_empty_buffers_are_refused() -> None:
    with pytest.raises(UserError, match="capacity of the replay buffer must be at least 1, but it is 0"):
        buffer(0, 1, 1)
    with pytest.raises(UserError, match="n_steps must be at least 1, but it is 0"):
        buffer(5, 1, 0)
    with pytest.raises(ValueError, match="empty"):
        buffer(5, 1, 1).sample(np.random.default_rng(0), 2)


def test_cut_keeps_returns_from_crossing_into_another_episode() -> None:
    replay = VectorReplay(10, 2, (1,), (), np.int32, n_steps=3)
    replay.cut([0])  # of an empty buffer: nothing to say
    zeros = np.zeros(2, bool)
    for step in range(4):
        observation = np.full((2, 1), step, np.float32)
        replay.add(Transitions(observation, np.arange(2), np.full(2, 1.0), observation + 1, zeros, zeros))
        if step == 1:
            replay.cut([1])
    batch = replay.sample(np.random.default_rng(0), 500)
    of_first = batch.action == 0
    began = batch.observation[:, 0]
    assert set(batch.steps[of_first & (began == 0)]) == {3}
    assert set(batch.steps[~of_first & (began == 0)]) == {2}  # given up after the step from 1
    assert set(batch.steps[~of_first & (began == 1)]) == {1}
    assert not batch.terminated.any()


@settings(max_examples=100, deadline=None)
@given(before=streams, capacity=st.integers(1, 30), n_steps=st.integers(1, 4), later=st.integers(1, 12))
def test_a_buffer_that_was_cleared_draws_as_a_new_one(
    before: list[list[str]], capacity: int, n_steps: int, later: int
) -> None:
    n_envs = len(before[0])
    cleared, new = buffer(capacity, n_envs, n_steps), buffer(capacity, n_envs, n_steps)
    for row, flags in enumerate(before):
        cleared.add(transitions(row, flags))
    cleared.clear()
    assert cleared.oldest == cleared.added == len(before)  # rows keep their numbers, so that a checkpoint knows them
    with pytest.raises(ValueError, match="nothing can be sampled from an empty replay buffer"):
        cleared.sample(np.random.default_rng(0), 1)
    for row in range(len(before), len(before) + later):
        for replay in (cleared, new):
            replay.add(transitions(row, [""] * n_envs))
        drawn, expected = (replay.sample(np.random.default_rng(row), 40) for replay in (cleared, new))
        for one, other in zip(drawn, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    restored = buffer(capacity, n_envs, n_steps)
    restored.restore(cleared.oldest, cleared.rows(cleared.oldest, cleared.added))
    drawn, expected = (replay.sample(np.random.default_rng(1), 40) for replay in (cleared, restored))
    for one, other in zip(drawn, expected, strict=True):
        np.testing.assert_array_equal(one, other)
