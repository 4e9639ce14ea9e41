"""The image buffer against the stream that was added to it, and against a buffer that keeps everything."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaqn.base.errors import CheckpointError, EnvironmentFault, UserError
from adaqn.replay.frames import FrameReplay, Padding
from adaqn.replay.protocol import Batch, Replay, Transitions
from adaqn.replay.vectors import VectorReplay
from tests.replay.image_stream import ImageStream

PADDINGS: tuple[Padding, ...] = ("repeat", "zeros")
ATARI = (84, 84, 4)

# What happens after each row to each environment: an end of its episode, or "c" for one that is given up.
EVENTS = st.integers(1, 3).flatmap(
    lambda n_envs: st.lists(
        st.lists(st.sampled_from(["", "", "", "", "t", "u", "b", "c"]), min_size=n_envs, max_size=n_envs),
        min_size=1,
        max_size=30,
    )
)


def buffer_for(stream: ImageStream, capacity: int, stack: int, padding: Padding, n_steps: int = 1) -> FrameReplay:
    return FrameReplay(capacity, stream.n_envs, stream.shape, (), np.int32, n_steps, stack, padding)


def feed(stream: ImageStream, events: list[str], *replays: Replay) -> None:
    """Add one row of the stream to all buffers."""
    transitions = stream.step(["" if event == "c" else event for event in events])
    given_up = [env for env, event in enumerate(events) if event == "c"]
    stream.give_up(given_up)
    for replay in replays:
        replay.add(transitions)
        replay.cut(given_up)


def assert_same_draws(left: Replay, right: Replay, seed: int = 0, batch_size: int = 50) -> None:
    for one, other in zip(
        left.sample(np.random.default_rng(seed), batch_size),
        right.sample(np.random.default_rng(seed), batch_size),
        strict=True,
    ):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@settings(max_examples=150, deadline=None)
@given(
    events=EVENTS,
    capacity=st.integers(1, 40),
    stack=st.integers(1, 5),
    channels=st.integers(1, 2),
    n_steps=st.integers(1, 4),
    padding=st.sampled_from(PADDINGS),
)
def test_every_sample_is_what_the_environment_showed(
    events: list[list[str]], capacity: int, stack: int, channels: int, n_steps: int, padding: Padding
) -> None:
    n_envs = len(events[0])
    stream = ImageStream(n_envs, stack, padding, channels)
    replay = buffer_for(stream, capacity, stack, padding, n_steps)
    rng = np.random.default_rng(0)
    for row, happening in enumerate(events):
        feed(stream, happening, replay)
        batch = replay.sample(rng, 20)
        stream.assert_shown(batch, n_steps)
        assert batch.action.min() // n_envs > row - max(1, capacity // n_envs)


@settings(max_examples=60, deadline=None)
@given(
    ends=st.lists(st.sets(st.integers(0, 59), max_size=4), min_size=1, max_size=3),
    rows=st.integers(1, 60),
    capacity=st.integers(1, 60),
    n_steps=st.integers(1, 4),
    kind=st.sampled_from(["t", "u", "c"]),
)
def test_draws_are_those_of_a_buffer_that_keeps_every_observation(
    ends: list[set[int]], rows: int, capacity: int, n_steps: int, kind: str
) -> None:
    stream = ImageStream(n_envs=len(ends), stack=4, padding="repeat")
    frames = buffer_for(stream, capacity, 4, "repeat", n_steps)
    vectors = VectorReplay(capacity, stream.n_envs, stream.shape, (), np.int32, n_steps)
    for row in range(rows):
        feed(stream, [kind if row in env else "" for env in ends], frames, vectors)
        batch = frames.sample(np.random.default_rng(row), 30)
        expected = vectors.sample(np.random.default_rng(row), 30)
        for name, array in batch._asdict().items():
            np.testing.assert_array_equal(array, getattr(expected, name), err_msg=name)


@settings(max_examples=80, deadline=None)
@given(
    events=EVENTS,
    capacity=st.integers(1, 40),
    stack=st.integers(1, 4),
    n_steps=st.integers(1, 3),
    padding=st.sampled_from(PADDINGS),
    cuts=st.lists(st.floats(0, 1), max_size=3),
)
def test_restored_rows_draw_the_same_samples(
    events: list[list[str]], capacity: int, stack: int, n_steps: int, padding: Padding, cuts: list[float]
) -> None:
    stream = ImageStream(len(events[0]), stack, padding)
    original, restored = (buffer_for(stream, capacity, stack, padding, n_steps) for _ in range(2))
    for happening in events:
        feed(stream, happening, original)
    held = original.added - original.oldest
    borders = sorted([original.oldest, original.added, *(original.oldest + int(held * cut) for cut in cuts)])
    for first, last in itertools.pairwise(borders):
        restored.restore(first, original.rows(first, last))
    for happening in events:
        assert (restored.added, restored.oldest) == (original.added, original.oldest)
        assert_same_draws(original, restored)
        feed(stream, happening, original, restored)
    stream.assert_shown(restored.sample(np.random.default_rng(1), 50), n_steps)


def test_an_episode_given_up_after_its_rows_were_saved_stays_apart_from_the_next() -> None:
    stream = ImageStream(n_envs=1, stack=2, padding="repeat")
    original, restored = (buffer_for(stream, 20, 2, "repeat", n_steps=3) for _ in range(2))
    for _ in range(4):
        feed(stream, [""], original)
    saved = original.rows(0, 5)
    original.cut([0])
    stream.give_up([0])
    for _ in range(4):
        feed(stream, [""], original)
    restored.restore(0, saved)
    restored.restore(5, original.rows(5, original.added))
    assert_same_draws(original, restored)
    stream.assert_shown(restored.sample(np.random.default_rng(0), 50), n_steps=3)


def numbered(replay: FrameReplay, shown: list[int], following: list[int], end: str = "") -> None:
    """Add a step of one environment whose frames have one pixel."""
    images = [np.array(frames, np.uint8).reshape(1, 1, 1, 3) for frames in (shown, following)]
    replay.add(
        Transitions(
            images[0], np.array([following[-1]]), np.zeros(1), images[1], np.array([end == "t"]), np.array([end == "u"])
        )
    )


def stacks(batch: Batch[np.ndarray]) -> dict[int, tuple[list[int], list[int]]]:
    """Observation and next observation of each transition, keyed by the resulting frame."""
    return {
        action: (before.ravel().tolist(), after.ravel().tolist())
        for action, before, after in zip(batch.action.tolist(), batch.observation, batch.next_observation, strict=True)
    }


def test_stacks_by_hand_with_the_first_frame_repeated() -> None:
    replay = FrameReplay(10, 1, (1, 1, 3), (), np.int32, stack=3, padding="repeat")
    numbered(replay, [1, 1, 1], [1, 1, 2])
    numbered(replay, [1, 1, 2], [1, 2, 3])
    numbered(replay, [1, 2, 3], [2, 3, 4], end="u")
    numbered(replay, [5, 5, 5], [5, 5, 6])
    assert replay.added == 6  # frames 1 to 6, each once
    assert replay.rows(0, 6)["frame"].ravel().tolist() == [1, 2, 3, 4, 5, 6]
    assert stacks(replay.sample(np.random.default_rng(0), 50)) == {
        2: ([1, 1, 1], [1, 1, 2]),
        3: ([1, 1, 2], [1, 2, 3]),
        4: ([1, 2, 3], [2, 3, 4]),  # the true end of the truncated episode
        6: ([5, 5, 5], [5, 5, 6]),
    }


def test_stacks_by_hand_with_zeros_before_the_first_frame_also_after_a_cut() -> None:
    replay = FrameReplay(10, 1, (1, 1, 3), (), np.int32, stack=3, padding="zeros", n_steps=2)
    replay.cut([0])  # of an empty buffer: nothing to say
    numbered(replay, [0, 0, 1], [0, 1, 2])
    numbered(replay, [0, 1, 2], [1, 2, 3])
    replay.cut([0])
    numbered(replay, [0, 0, 7], [0, 7, 8], end="t")
    batch = replay.sample(np.random.default_rng(0), 50)
    assert stacks(batch) == {
        2: ([0, 0, 1], [1, 2, 3]),  # over two steps
        3: ([0, 1, 2], [1, 2, 3]),  # over one: the episode was given up
        8: ([0, 0, 7], [0, 7, 8]),
    }
    assert set(zip(batch.action.tolist(), batch.terminated.tolist(), strict=True)) == {(2, 0.0), (3, 0.0), (8, 1.0)}


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("episode", [1, 3, 50])
def test_sampling_is_uniform_over_whole_steps_up_to_the_newest(episode: int, n_steps: int) -> None:
    stream = ImageStream(n_envs=2, stack=4, padding="repeat")
    replay = buffer_for(stream, 20, 4, "repeat", n_steps)
    for row in range(133):  # wrapped around
        feed(stream, ["t" if (row + env) % episode == 0 else "" for env in range(2)], replay)
    batch = replay.sample(np.random.default_rng(0), 20_000)
    numbers, counts = np.unique(batch.action, return_counts=True)
    # All of the capacity. The ring has room for (10 + 4) * 2 + 6 * 2 = 40 frames: episodes of one step have four for
    # each step of both environments, so 10 steps are held, and no stack reaches back beyond its own.
    assert numbers.tolist() == list(range(2 * (133 - 10), 2 * 133))
    expected = 20_000 / len(numbers)
    assert float(((counts - expected) ** 2 / expected).sum()) < 43.8  # 99.9 % quantile with 19 degrees of freedom


def test_short_episodes_shorten_the_memory_by_little() -> None:
    stream = ImageStream(n_envs=1, stack=1, padding="repeat", channels=4)
    replay = buffer_for(stream, 2000, 1, "repeat")
    for row in range(5000):
        feed(stream, ["t" if row % 30 == 0 else ""], replay)
    oldest = replay.sample(np.random.default_rng(0), 50_000).action.min()
    assert 0.98 * 2000 < 5000 - oldest < 2000


def test_an_image_costs_one_frame_and_nothing_before_it_comes() -> None:
    before = resident_bytes()
    replay = FrameReplay(100_000, 1, ATARI, (), np.int32, stack=4, padding="repeat")
    assert 100_000 * 84 * 84 < replay.nbytes < 0.73e9  # a tenth of what a million transitions may take
    observation = np.ones((1, *ATARI), np.uint8)
    going_on = np.zeros(1, bool)
    for _ in range(100):
        replay.add(Transitions(observation, np.zeros(1), np.zeros(1), observation, going_on, going_on))
    replay.sample(np.random.default_rng(0), 32)
    assert resident_bytes() - before < 0.1e9


def resident_bytes() -> int:
    statistics = Path("/proc/self/statm")
    if not statistics.exists():
        pytest.skip("resident memory is read from /proc")
    return int(statistics.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_batches_have_the_agreed_types_and_memory_of_their_own() -> None:
    stream = ImageStream(n_envs=2, stack=2, padding="repeat", channels=3)
    replay = FrameReplay(8, 2, stream.shape, (2,), np.float32, n_steps=2, stack=2, padding="repeat")
    transitions = stream.step(["", "t"])
    actions = np.array([[1.0, 2.0], [3.0, 4.0]])
    replay.add(transitions._replace(action=actions))
    batch = replay.sample(np.random.default_rng(3), 5)
    assert [array.dtype.name for array in batch] == ["uint8", "float32", "float32", "uint8", "float32", "int32"]
    assert [array.shape for array in batch] == [(5, 2, 3, 6), (5, 2), (5, 2), (5, 2, 3, 6), (5,), (5,)]
    assert all(array.flags.c_contiguous for array in batch)
    assert {tuple(action) for action in batch.action.tolist()} == {(1.0, 2.0), (3.0, 4.0)}
    again = replay.sample(np.random.default_rng(3), 5)
    for array in batch:
        array[...] = 77
    third = replay.sample(np.random.default_rng(3), 5)
    assert all((one == other).all() for one, other in zip(again, third, strict=True))


def test_rows_of_another_shape_order_or_number_of_environments_are_refused() -> None:
    stream = ImageStream(n_envs=2, stack=2, padding="repeat")
    replay = buffer_for(stream, 20, 2, "repeat")
    for _ in range(3):
        feed(stream, ["", ""], replay)
    rows = replay.rows(0, replay.added)
    with pytest.raises(CheckpointError, match=r"frame .* must be uint8\[8, 2, 4, 1\], but is uint8\[8, 2, 3, 1\]"):
        FrameReplay(20, 2, (2, 4, 2), (), np.int32, stack=2).restore(0, rows)
    with pytest.raises(CheckpointError, match="must have 3 environments in turn, but 2 are in another order"):
        FrameReplay(20, 3, stream.shape, (), np.int32, stack=2).restore(0, rows)
    with pytest.raises(CheckpointError, match="must follow row 8, but begin at 9"):
        replay.restore(9, rows)
    with pytest.raises(ValueError, match="rows 3 to 9 are not among those held, 0 to 8"):
        replay.rows(3, 9)


def test_a_restore_that_begins_late_samples_only_whole_stacks() -> None:
    stream = ImageStream(n_envs=1, stack=3, padding="repeat")
    whole, part = (buffer_for(stream, 20, 3, "repeat") for _ in range(2))
    for _ in range(10):
        feed(stream, [""], whole)
    part.restore(4, whole.rows(4, 11))  # frame 4 is where row 3 led to; row 8 has the frames 6 to 9
    batch = part.sample(np.random.default_rng(0), 100)
    assert set(batch.action.tolist()) == {7, 8, 9}
    stream.assert_shown(batch, 1)


@pytest.mark.parametrize(("shown", "expected"), [("zeros", "repeat"), ("repeat", "zeros")])
def test_episodes_that_begin_with_another_stack_are_refused(shown: Padding, expected: Padding) -> None:
    stream = ImageStream(n_envs=1, stack=2, padding=shown)
    with pytest.raises(EnvironmentFault, match="an episode must begin with 2 stacked frames, the newest last"):
        buffer_for(stream, 20, 2, expected).add(stream.step([""]))


def test_images_that_are_not_stacked_as_said_are_refused() -> None:
    stream = ImageStream(n_envs=1, stack=2, padding="repeat")
    transitions = stream.step([""])
    swapped = transitions._replace(next_observation=transitions.next_observation[..., ::-1])
    with pytest.raises(EnvironmentFault, match="an episode must begin with 2 stacked frames"):
        buffer_for(stream, 20, 2, "repeat").add(swapped)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"capacity": 0}, "capacity of the replay buffer must be at least 1, but it is 0"),
        ({"n_steps": 0}, "n_steps must be at least 1, but it is 0"),
        ({"stack": 3}, r"frame_stack must divide the channels of an image, but it is 3 for images \(84, 84, 4\)"),
        ({"stack": 0}, "frame_stack must divide"),
    ],
)
def test_nonsense_is_refused(changed: dict[str, Any], sentence: str) -> None:
    arguments = {"capacity": 5, "n_envs": 1, "observation_shape": ATARI, "action_shape": (), "action_dtype": np.int32}
    with pytest.raises(UserError, match=sentence):
        FrameReplay(**(arguments | changed))


def test_an_empty_buffer_gives_no_samples() -> None:
    with pytest.raises(ValueError, match="nothing can be sampled from an empty replay buffer"):
        FrameReplay(5, 1, ATARI, (), np.int32).sample(np.random.default_rng(0), 2)


@settings(max_examples=100, deadline=None)
@given(
    before=EVENTS,
    capacity=st.integers(1, 40),
    stack=st.integers(1, 4),
    n_steps=st.integers(1, 3),
    padding=st.sampled_from(PADDINGS),
    later=st.integers(0, 12),
)
def test_a_buffer_that_was_cleared_holds_only_what_came_after(
    before: list[list[str]], capacity: int, stack: int, n_steps: int, padding: Padding, later: int
) -> None:
    n_envs = len(before[0])
    stream = ImageStream(n_envs, stack, padding)
    cleared = buffer_for(stream, capacity, stack, padding, n_steps)
    for events in before:
        feed(stream, events, cleared)
    cleared.clear()
    stream.give_up(range(n_envs))
    assert cleared.oldest == cleared.added
    with pytest.raises(ValueError, match="nothing can be sampled from an empty replay buffer"):
        cleared.sample(np.random.default_rng(0), 1)
    for step in range(later + stack + 1):
        feed(stream, before[step % len(before)], cleared)
    batch = cleared.sample(np.random.default_rng(0), 50)
    stream.assert_shown(batch, n_steps)
    assert batch.action.min() >= n_envs * len(before)
    restored = buffer_for(stream, capacity, stack, padding, n_steps)
    restored.restore(cleared.oldest, cleared.rows(cleared.oldest, cleared.added))
    assert_same_draws(cleared, restored)


@pytest.mark.parametrize("n_envs", [1, 2])
def test_after_clear_the_first_step_can_be_sampled(n_envs: int) -> None:
    stream = ImageStream(n_envs=n_envs, stack=4, padding="zeros")
    replay = buffer_for(stream, 20, 4, "zeros", 1)
    for _ in range(30):
        feed(stream, ["t"] * n_envs, replay)
    replay.clear()
    feed(stream, [""] * n_envs, replay)
    assert replay.sample(np.random.default_rng(0), 8).observation.shape == (8, *stream.shape)
