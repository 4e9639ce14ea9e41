"""Creates the replay buffer for an environment's spaces."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from adaqn.replay.frames import FrameReplay, Padding
from adaqn.replay.protocol import Replay
from adaqn.replay.vectors import VectorReplay


def make_replay(
    capacity: int,
    n_envs: int,
    observations: gymnasium.spaces.Box,
    actions: gymnasium.Space[Any],
    n_steps: int,
    frame_stack: int = 1,
    padding: Padding = "zeros",
) -> Replay:
    """Create an empty buffer for `capacity` transitions.

    Byte images are stored frame by frame; an observation has `frame_stack` of them, the newest last, and `padding`
    fills the stack when an episode begins. Other observations are stored whole, without these two arguments.
    """
    discrete = isinstance(actions, gymnasium.spaces.Discrete)
    action_shape = () if discrete else tuple(actions.shape or ())
    action_dtype = np.int32 if discrete else np.float32
    if observations.dtype == np.uint8 and len(observations.shape) == 3:
        height, width, channels = observations.shape
        return FrameReplay(
            capacity=capacity,
            n_envs=n_envs,
            observation_shape=(height, width, channels),
            action_shape=action_shape,
            action_dtype=action_dtype,
            n_steps=n_steps,
            stack=frame_stack,
            padding=padding,
        )
    return VectorReplay(
        capacity=capacity,
        n_envs=n_envs,
        observation_shape=observations.shape,
        action_shape=action_shape,
        action_dtype=action_dtype,
        n_steps=n_steps,
    )
