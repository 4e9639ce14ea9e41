"""From the actions that agents choose to those that an environment takes."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces


def environment_actions(space: spaces.Space, actions: np.ndarray) -> np.ndarray:
    """Agents number the actions of a Discrete space from 0, and see every finite Box as [-1, 1]. [..., A]"""
    if isinstance(space, spaces.Discrete):
        return space.start + actions
    assert isinstance(space, spaces.Box), "checked when the environment was taken"
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        return actions.copy()  # no agent of ours learns in it, but its episodes can be played
    share = 0.5 * (actions.astype(space.dtype) + 1.0)
    # Not low + share * (high - low), whose difference can overflow; and rounding must not lead out of the Box.
    return np.clip(share * space.high + (1.0 - share) * space.low, space.low, space.high).astype(space.dtype)


def random_actions(space: spaces.Space, rng: np.random.Generator, count: int) -> np.ndarray:
    """Uniform actions as agents choose them: numbers from 0, or vectors in [-1, 1]. [count, ...]"""
    if isinstance(space, spaces.Discrete):
        return rng.integers(int(space.n), size=count)
    assert isinstance(space, spaces.Box), "checked when the environment was taken"
    return rng.uniform(-1.0, 1.0, (count, *space.shape)).astype(np.float32)
