"""The replay buffer that fits an environment's spaces."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from adaqn.replay.vectors import VectorReplay


def make_replay(
    capacity: int,
    n_envs: int,
    observations: gymnasium.spaces.Box,
    actions: gymnasium.Space[Any],
    n_steps: int,
) -> VectorReplay:
    """An empty buffer for so many transitions."""
    discrete = isinstance(actions, gymnasium.spaces.Discrete)
    return VectorReplay(
        capacity=capacity,
        n_envs=n_envs,
        observation_shape=observations.shape,
        action_shape=() if discrete else tuple(actions.shape or ()),
        action_dtype=np.int32 if discrete else np.float32,
        n_steps=n_steps,
    )
