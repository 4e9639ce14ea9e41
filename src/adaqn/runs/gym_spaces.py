"""The observation and action spaces of an environment as JSON: what a saved agent must fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from adaqn.checks import count
from adaqn.envs.gym_spaces import observation_scale
from adaqn.errors import CheckpointError
from adaqn.files import Json


def describe_spaces(observations: spaces.Space, actions: spaces.Space) -> Json:
    """Kinds and shapes, of actions also the limits, and of images of bytes what they are multiplied by."""
    observation = _describe(observations, limits=False)
    if isinstance(observations, spaces.Box) and (scale := observation_scale(observations)) != 1.0:
        observation["scale"] = scale
    return {"observation": observation, "action": _describe(actions, limits=True)}


def gym_spaces_from(saved: Any, nbytes: int) -> tuple[spaces.Box, spaces.Discrete | spaces.Box]:
    """Spaces that an agent can be made for, out of what `describe_spaces` said of those that it was made for.

    The arrays beside it have `nbytes`. No space may be much larger, so that a forged file cannot ask for all memory.
    """
    largest = max(nbytes, 1 << 24)
    observation, action = saved["observation"], saved["action"]
    shape = _shape(observation, largest)
    dtype = np.dtype(str(observation["dtype"]))
    if dtype.kind not in "biuf":
        raise CheckpointError(f"observations were saved with the dtype {dtype}, which no agent takes")
    low, high = (-np.inf, np.inf) if dtype.kind == "f" else _limits(dtype)
    if len(shape) == 3 and dtype == np.uint8 and "scale" not in observation:
        high = 1  # images that say only yes or no
    observations = spaces.Box(low, high, shape, dtype.type)
    if action["kind"] == "Discrete":
        n = count("the number of actions", action["n"], low=1)
        if n > largest:
            raise CheckpointError(f"{n:,} actions were saved, but there are parameters for {largest:,} at most")
        return observations, spaces.Discrete(n, start=int(action["start"]))
    lowest, highest = (np.array(action[name], str(action["dtype"])) for name in ("low", "high"))
    if not _shape(action, largest) == lowest.shape == highest.shape:
        raise CheckpointError(f"actions were saved with the shape {action['shape']}, which is not that of their limits")
    return observations, spaces.Box(lowest, highest, dtype=lowest.dtype.type)


def _shape(saved: Any, largest: int) -> tuple[int, ...]:
    if saved["kind"] != "Box":
        raise CheckpointError(f"a space was saved as {saved['kind']!r}, where Box is expected")
    shape = tuple(count("a side of the saved space", side, low=1) for side in saved["shape"])
    if math.prod(shape) > largest:
        raise CheckpointError(f"a space was saved with the shape {shape}, too large for the parameters beside it")
    return shape


def _limits(dtype: np.dtype) -> tuple[int, int]:
    return (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def check_same_spaces(what: str, saved: Any, given: Json) -> None:
    """Raise if an environment has other spaces than those that `what` was made for."""
    for which in ("observation", "action"):
        before = saved.get(which) if isinstance(saved, dict) else None
        if before != given[which]:
            raise CheckpointError(
                f"{what} was made for the {which} space {before}, but the environment has {given[which]}"
            )


def _describe(space: spaces.Space, limits: bool) -> Json:
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    assert isinstance(space, spaces.Box), "agents are only made for Box and Discrete spaces"
    described: Json = {"kind": "Box", "shape": list(space.shape), "dtype": str(space.dtype)}
    if limits:
        described |= {"low": space.low.tolist(), "high": space.high.tolist()}
    return described
