"""Observation and action spaces: which are supported, and actions as environments expect them."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from adaqn.base.errors import UserError

_FLATTENED = (
    "wrappers=['gymnasium.wrappers:FlattenObservation'] makes {what} "
    "(on the command line: --wrappers gymnasium.wrappers:FlattenObservation)"
)


def require_box_observations(space: spaces.Space) -> spaces.Box:
    """The space as a Box, the only kind of observation space that the networks support."""
    if not isinstance(space, spaces.Box):
        flattens = isinstance(space, spaces.Space) and space.is_np_flattenable  # `space` can be None
        hint = f"; {_FLATTENED.format(what='it a Box')}" if flattens else ""
        raise UserError(f"the observation space must be a Box, but it is a {_kind(space)}{hint}")
    if 0 in space.shape:
        raise UserError(f"observations must have at least one element, but their shape is {space.shape}")
    return space


def require_observations(space: spaces.Space) -> spaces.Box:
    """The space as a Box of vectors or of images (height, width, channels), for algorithms that support both.

    Images with a dtype other than uint8 are stored as float32, like vectors.
    """
    box = require_box_observations(space)
    if len(box.shape) > 3:
        raise UserError(
            f"observations must be vectors, or images of the shape (height, width, channels), "
            f"but their shape is {box.shape}"
        )
    return box


def require_vector_observations(space: spaces.Space) -> spaces.Box:
    """The space as a Box without images, for algorithms whose only networks are multi-layer perceptrons."""
    box = require_box_observations(space)
    if len(box.shape) >= 3:
        raise UserError(
            f"observations of the shape {box.shape} are images, which only the DQN family learns from; "
            f"{_FLATTENED.format(what='them vectors')}"
        )
    return box


def require_discrete_actions(space: spaces.Space) -> spaces.Discrete:
    """The space as a Discrete space, for algorithms that maximize over all actions."""
    if not isinstance(space, spaces.Discrete):
        hint = (
            "; for Box actions use AdaSAC or AdaTD3 (--algo adasac, --algo adatd3)"
            if isinstance(space, spaces.Box)
            else ""
        )
        raise UserError(f"the action space must be Discrete, but it is a {_kind(space)}{hint}")
    return space


def require_box_actions(space: spaces.Space) -> spaces.Box:
    """The space as a one-dimensional Box with finite bounds, for algorithms with a continuous actor."""
    if not isinstance(space, spaces.Box):
        hint = "; for Discrete actions use AdaDQN (--algo adadqn)" if isinstance(space, spaces.Discrete) else ""
        raise UserError(f"the action space must be a Box, but it is a {_kind(space)}{hint}")
    if len(space.shape) != 1 or not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"the action space must be a Box of floats with one dimension, "
            f"but its shape is {space.shape} and its dtype {space.dtype}"
        )
    if 0 in space.shape:
        raise UserError(f"actions must have at least one element, but their shape is {space.shape}")
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise UserError(f"the action space must be a Box with finite limits, but they are {space.low} and {space.high}")
    return space


def observation_dtype(space: spaces.Box) -> np.dtype:
    """The dtype in which observations are stored: uint8 for byte images (a quarter of the memory), else float32."""
    is_image = len(space.shape) == 3 and space.dtype == np.uint8
    return np.dtype(np.uint8 if is_image else np.float32)


def observation_scale(space: spaces.Box, given: float | None = None) -> float:
    """The factor that scales byte images: 1 / the highest value of their space, or as given; 1 for other observations.

    Some environments declare the whole range of bytes and use little of it: MiniGrid's bytes are at most 10.
    """
    if observation_dtype(space) != np.uint8:
        if given is not None:
            raise UserError(
                f"image_scale={given:g} has an effect only on byte images, but the observations are of the shape "
                f"{space.shape} and the dtype {space.dtype}"
            )
        return 1.0
    return 1.0 / max(1.0, float(space.high.max())) if given is None else given


def _kind(space: object) -> str:
    """The name of the space's class in Gymnasium."""
    return type(space).__name__


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
