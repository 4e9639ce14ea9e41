"""Conversion of agents' actions to the actions of an environment."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces


def environment_actions(space: spaces.Space, actions: np.ndarray) -> np.ndarray:
    """Convert actions of an agent, which are 0..n-1 for a Discrete space and in [-1, 1] for a bounded Box. [..., A]"""
    if isinstance(space, spaces.Discrete):
        return space.start + actions
    assert isinstance(space, spaces.Box), "checked by Environments"
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        return actions.copy()  # no algorithm trains in an unbounded Box, but episodes can be replayed
    share = 0.5 * (actions.astype(space.dtype) + 1.0)
    # Not low + share * (high - low), whose difference can overflow; the clip undoes rounding beyond the bounds.
    return np.clip(share * space.high + (1.0 - share) * space.low, space.low, space.high).astype(space.dtype)


def random_actions(space: spaces.Space, rng: np.random.Generator, count: int) -> np.ndarray:
    """Uniformly random actions as an agent would give them: integers from 0, or vectors in [-1, 1]. [count, ...]"""
    if isinstance(space, spaces.Discrete):
        return rng.integers(int(space.n), size=count)
    assert isinstance(space, spaces.Box), "checked by Environments"
    return rng.uniform(-1.0, 1.0, (count, *space.shape)).astype(np.float32)
