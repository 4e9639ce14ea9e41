"""Which of Gymnasium's spaces can be learned from: a check returns the space with its type, or says what is wrong."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from adaqn.errors import UserError

_FLATTENED = (
    "wrappers=['gymnasium.wrappers:FlattenObservation'] makes {what} "
    "(on the command line: --wrappers gymnasium.wrappers:FlattenObservation)"
)


def require_box_observations(space: spaces.Space) -> spaces.Box:
    """The space as a Box of numbers, which is the only kind of observation that a network takes."""
    if not isinstance(space, spaces.Box):
        flattens = isinstance(space, spaces.Space) and space.is_np_flattenable  # an environment may have none at all
        hint = f"; {_FLATTENED.format(what='a Box of it')}" if flattens else ""
        raise UserError(f"the observation space must be a Box, but it is a {_kind(space)}{hint}")
    if 0 in space.shape:
        raise UserError(f"observations must have at least one number, but their shape is {space.shape}")
    return space


def require_observations(space: spaces.Space) -> spaces.Box:
    """The space as a Box of vectors or of images (height, width, channels), which all networks together can take.

    Images of other numbers than bytes are held as float32, as vectors are.
    """
    box = require_box_observations(space)
    if len(box.shape) > 3:
        raise UserError(
            f"observations must be vectors, or images of the shape (height, width, channels), "
            f"but their shape is {box.shape}"
        )
    return box


def require_vector_observations(space: spaces.Space) -> spaces.Box:
    """The space as a Box that a multi-layer perceptron can take; images are more than it can make sense of."""
    box = require_box_observations(space)
    if len(box.shape) >= 3:
        raise UserError(
            f"observations of the shape {box.shape} are images, which only the DQN family learns from; "
            f"{_FLATTENED.format(what='a vector of them')}"
        )
    return box


def require_discrete_actions(space: spaces.Space) -> spaces.Discrete:
    """The space as a Discrete one, for algorithms that maximise over all actions."""
    if not isinstance(space, spaces.Discrete):
        hint = "; algorithms for Box actions are those of the SAC family" if isinstance(space, spaces.Box) else ""
        raise UserError(f"the action space must be Discrete, but it is a {_kind(space)}{hint}")
    return space


def require_box_actions(space: spaces.Space) -> spaces.Box:
    """The space as a Box of one dimension with finite limits, for algorithms with a continuous actor."""
    if not isinstance(space, spaces.Box):
        hint = (
            "; algorithms for Discrete actions are those of the DQN family"
            if isinstance(space, spaces.Discrete)
            else ""
        )
        raise UserError(f"the action space must be a Box, but it is a {_kind(space)}{hint}")
    if len(space.shape) != 1 or not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"the action space must be a Box of floats with one dimension, "
            f"but its shape is {space.shape} and its dtype {space.dtype}"
        )
    if 0 in space.shape:
        raise UserError(f"actions must have at least one number, but their shape is {space.shape}")
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise UserError(f"the action space must be a Box with finite limits, but they are {space.low} and {space.high}")
    return space


def observation_dtype(space: spaces.Box) -> np.dtype:
    """How observations are held: images stay bytes, a quarter of the memory, and all else is float32."""
    is_image = len(space.shape) == 3 and space.dtype == np.uint8
    return np.dtype(np.uint8 if is_image else np.float32)


def observation_scale(space: spaces.Box) -> float:
    """What brings observations near [0, 1]: images of bytes use all of a byte, except those that only say yes or no."""
    is_bytes = len(space.shape) == 3 and space.dtype == np.uint8 and float(space.high.max()) > 1.0
    return 1.0 / 255.0 if is_bytes else 1.0


def _kind(space: object) -> str:
    """The space's class as users know it from Gymnasium."""
    return type(space).__name__
