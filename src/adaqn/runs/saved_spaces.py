"""The observation and action spaces of an environment as JSON, to check that a saved agent fits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from adaqn.base.checks import count, number
from adaqn.base.errors import CheckpointError
from adaqn.base.files import Json
from adaqn.envs.spaces import observation_scale


def describe_spaces(observations: spaces.Space, actions: spaces.Space) -> Json:
    """Describe kinds and shapes, also the bounds of actions, and the scale of byte images."""
    observation = _describe(observations, limits=False)
    if isinstance(observations, spaces.Box) and (scale := observation_scale(observations)) != 1.0:
        observation["scale"] = scale
    return {"observation": observation, "action": _describe(actions, limits=True)}


def gym_spaces_from(saved: Any, nbytes: int) -> tuple[spaces.Box, spaces.Discrete | spaces.Box]:
    """Rebuild the spaces of a saved agent from the output of `describe_spaces`.

    `nbytes` is the size of the arrays in the same file. Spaces that are much larger are rejected, so that a forged file
    cannot exhaust the memory.
    """
    largest = max(nbytes, 1 << 24)
    observation, action = saved["observation"], saved["action"]
    shape = _shape(observation, largest)
    dtype = np.dtype(str(observation["dtype"]))
    if dtype.kind not in "biuf":
        raise CheckpointError(f"observations were saved with the dtype {dtype}, which no agent supports")
    low, high = (-np.inf, np.inf) if dtype.kind == "f" else _limits(dtype)
    if len(shape) == 3 and dtype == np.uint8:
        # Byte images are scaled by the highest value of their space; without a scale they are binary.
        high = round(1.0 / number("the saved scale", observation.get("scale", 1.0), 1.0 / 255.0, 1.0))
    observations = spaces.Box(low, high, shape, dtype.type)
    if action["kind"] == "Discrete":
        n = count("the number of actions", action["n"], low=1)
        if n > largest:
            raise CheckpointError(f"{n:,} actions were saved, but the parameters are for at most {largest:,}")
        return observations, spaces.Discrete(n, start=int(action["start"]))
    lowest, highest = (np.array(action[name], str(action["dtype"])) for name in ("low", "high"))
    if not _shape(action, largest) == lowest.shape == highest.shape:
        raise CheckpointError(f"actions were saved with the shape {action['shape']}, which their bounds do not have")
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
    """Raise if an environment's spaces differ from those that `what` was made for."""
    for which in ("observation", "action"):
        before = saved.get(which) if isinstance(saved, dict) else None
        if before != given[which]:
            raise CheckpointError(
                f"{what} was made for the {which} space {_text(before)}, but the environment has {_text(given[which])}"
            )


def _text(space: Any) -> str:
    """A described space as in the header of a run, such as `Box (2,) float32`; one that was damaged as it is."""
    match space:
        case {"kind": "Discrete", "n": n, "start": start}:
            return f"Discrete {n}" + (f" from {start}" if start else "")
        case {"kind": "Box", "shape": list(shape), "dtype": dtype}:
            bounds = f" between {space['low']} and {space['high']}" if {"low", "high"} <= set(space) else ""
            return f"Box {tuple(shape)} {dtype}{bounds}"
    return repr(space)


def _describe(space: spaces.Space, limits: bool) -> Json:
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    assert isinstance(space, spaces.Box), "agents are only made for Box and Discrete spaces"
    described: Json = {"kind": "Box", "shape": list(space.shape), "dtype": str(space.dtype)}
    if limits:
        described |= {"low": space.low.tolist(), "high": space.high.tolist()}
    return described
