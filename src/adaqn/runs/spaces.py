"""The spaces of an environment as JSON: what a saved agent must fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from adaqn.errors import CheckpointError


def describe_spaces(observations: spaces.Space[Any], actions: spaces.Space[Any]) -> dict[str, Any]:
    """Kinds and shapes, and of actions also the limits."""
    return {"observation": _describe(observations, limits=False), "action": _describe(actions, limits=True)}


def spaces_from(described: dict[str, Any]) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """Spaces of these kinds and shapes; observations are taken to have no limits."""
    return _build(described["observation"]), _build(described["action"])


def check_same_spaces(path: Path, saved: dict[str, Any], given: dict[str, Any]) -> None:
    """Raise if an environment has other spaces than those that an agent was trained for."""
    for which in ("observation", "action"):
        if saved[which] != given[which]:
            raise CheckpointError(
                f"{path} was trained for the {which} space {saved[which]}, but the environment has {given[which]}"
            )


def _describe(space: spaces.Space[Any], limits: bool) -> dict[str, Any]:
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    assert isinstance(space, spaces.Box), "agents are only made for Box and Discrete spaces"
    described: dict[str, Any] = {"kind": "Box", "shape": list(space.shape), "dtype": str(space.dtype)}
    if limits:
        described |= {"low": space.low.tolist(), "high": space.high.tolist()}
    return described


def _build(described: dict[str, Any]) -> spaces.Space[Any]:
    if described["kind"] == "Discrete":
        return spaces.Discrete(described["n"], start=described["start"])
    dtype = np.dtype(described["dtype"])
    low, high = described.get("low"), described.get("high")
    if low is None or high is None:
        whole = np.issubdtype(dtype, np.integer)
        least, most = (np.iinfo(dtype).min, np.iinfo(dtype).max) if whole else (-np.inf, np.inf)
        return spaces.Box(least, most, tuple(described["shape"]), dtype.type)
    return spaces.Box(np.asarray(low, dtype), np.asarray(high, dtype), dtype=dtype.type)
