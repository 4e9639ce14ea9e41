"""The buffer for images in the checkpoints of a run."""

from __future__ import annotations

import os
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaqn.replay.frames import FrameReplay
from adaqn.runs.checkpoint import Checkpointer, CheckpointStore
from adaqn.runs.directory import RunDirectory
from adaqn.training.trainer import Trainer
from tests.fakes import fake_run
from tests.replay.image_stream import ImageStream

STACK = 4


def image_run(stream: ImageStream, capacity: int) -> Trainer:
    """A new run with images from the stream."""
    space = gymnasium.spaces.Box(0, 255, stream.shape, np.uint8)
    run = fake_run(stream.n_envs, interval=None, space=space)
    run.replay = FrameReplay(capacity, stream.n_envs, stream.shape, (), np.int32, 2, STACK, "repeat")
    run.run(0)
    return run


def take_step(run: Trainer, stream: ImageStream, episode: int) -> None:
    rows = len(stream.history)
    ends = ["t" if (rows + env) % episode == 0 else "" for env in range(stream.n_envs)]
    run.replay.add(stream.step(ends))
    run.clock = run.clock._replace(step=run.clock.step + stream.n_envs)


@settings(max_examples=15, deadline=None)
@given(
    n_envs=st.integers(1, 3),
    capacity=st.integers(1, 60),
    segment_rows=st.integers(1, 30),
    episode=st.integers(1, 20),
    growth=st.lists(st.integers(1, 40), min_size=1, max_size=4),
)
def test_a_resumed_run_draws_the_samples_of_an_uninterrupted_one(
    tmp_path_factory: pytest.TempPathFactory,
    n_envs: int,
    capacity: int,
    segment_rows: int,
    episode: int,
    growth: list[int],
) -> None:
    directory = tmp_path_factory.mktemp("store")
    stream = ImageStream(n_envs, STACK, "repeat")
    run = image_run(stream, capacity)
    checkpointer = Checkpointer(CheckpointStore(directory, segment_rows), 1_000_000, RunDirectory(directory))
    for more in growth:
        for _ in range(more):
            take_step(run, stream, episode)
        checkpointer.on_last_step(run)
        resumed = image_run(stream, capacity)
        again = Checkpointer(CheckpointStore(directory, segment_rows), 1_000_000, RunDirectory(directory))
        assert again.restore(resumed)
        left, right = (each.replay.sample(np.random.default_rng(0), 40) for each in (run, resumed))
        for one, other in zip(left, right, strict=True):
            np.testing.assert_array_equal(one, other)
        stream.assert_shown(right, n_steps=2)


def test_the_cost_of_a_checkpoint_does_not_grow_with_the_buffer(tmp_path: Path) -> None:
    stream = ImageStream(n_envs=2, stack=STACK, padding="repeat", size=(20, 20))
    run = image_run(stream, 10_000)
    checkpointer = Checkpointer(CheckpointStore(tmp_path, segment_rows=64), 1000, RunDirectory(tmp_path))
    written: list[int] = []
    for _ in range(4):
        before = files(tmp_path)
        for _ in range(500):
            take_step(run, stream, episode=250)
        checkpointer.on_step(run)
        after = files(tmp_path)
        written.append(sum(path.stat().st_size for path in after if before.get(path) != after[path]))
    frames = 1004 * 400
    # The new rows since the last checkpoint, less than one segment, and kilobytes of index.
    assert all(frames - 64 * 400 < cost < frames + 64 * 400 + 1004 * 20 + 50_000 for cost in written)
    assert run.replay.added * 400 > 3.9 * frames


def files(directory: Path) -> dict[Path, tuple[int, int]]:
    """All files below; a rewritten file has another inode or time."""
    found = [Path(parent) / name for parent, _, names in os.walk(directory) for name in names]
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}
