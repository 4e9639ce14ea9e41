from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from adaqn.replay.frames import FrameReplay
from adaqn.replay.making import make_replay
from adaqn.replay.vectors import VectorReplay

DISCRETE = gymnasium.spaces.Discrete(3)


def test_images_of_bytes_go_frame_by_frame() -> None:
    images = gymnasium.spaces.Box(0, 255, (8, 9, 4), np.uint8)
    replay = make_replay(100, 2, images, DISCRETE, 3, frame_stack=4, padding="zeros")
    assert isinstance(replay, FrameReplay)
    assert (replay.n_envs, replay.n_steps, replay.stack, replay.padding) == (2, 3, 4, "zeros")
    single = make_replay(100, 2, images, DISCRETE, 1)
    assert isinstance(single, FrameReplay)
    assert (single.stack, single.padding) == (1, "zeros")


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Box(-1, 1, (5,)),
        gymnasium.spaces.Box(0, 1, (8, 9, 4), np.float32),
        gymnasium.spaces.Box(0, 255, (128,), np.uint8),
    ],
)
def test_all_else_is_kept_whole(space: Any) -> None:
    replay = make_replay(100, 2, space, gymnasium.spaces.Box(-1, 1, (6,)), 2, frame_stack=4)
    assert isinstance(replay, VectorReplay)
    # Two observations, the action, the reward and the flags of each transition.
    assert replay.nbytes == 100 * (2 * 4 * int(np.prod(space.shape)) + 4 * 6 + 4 + 2 * 4)
