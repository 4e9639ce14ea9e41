"""Creates the replay buffer for an environment's spaces."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import DTypeLike

from adaqn.replay.frames import FrameReplay, Padding
from adaqn.replay.protocol import Replay
from adaqn.replay.rows import RowLayout
from adaqn.replay.vectors import VectorReplay


def row_layout(observations: gymnasium.spaces.Box, actions: gymnasium.Space[Any], n_steps: int) -> RowLayout | None:
    """The layout in which a buffer for these spaces gives out rows; None for images of bytes, which have no rows."""
    if _are_images(observations):
        return None
    return RowLayout.of(observations.shape, *_action_kind(actions), n_steps)


def _are_images(observations: gymnasium.spaces.Box) -> bool:
    return observations.dtype == np.uint8 and len(observations.shape) == 3


def _action_kind(actions: gymnasium.Space[Any]) -> tuple[tuple[int, ...], DTypeLike]:
    """Shape and dtype of an action as it is kept."""
    if isinstance(actions, gymnasium.spaces.Discrete):
        return (), np.int32
    return tuple(actions.shape or ()), np.float32


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
    action_shape, action_dtype = _action_kind(actions)
    if _are_images(observations):
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
