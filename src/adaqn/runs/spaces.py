"""The spaces of an environment as JSON: what a saved agent must fit."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

from adaqn.errors import CheckpointError


def describe_spaces(observations: spaces.Space[Any], actions: spaces.Space[Any]) -> dict[str, Any]:
    """Kinds and shapes, and of actions also the limits."""
    return {"observation": _describe(observations, limits=False), "action": _describe(actions, limits=True)}


def check_same_spaces(what: str, saved: Any, given: dict[str, Any]) -> None:
    """Raise if an environment has other spaces than those that `what` was made for."""
    for which in ("observation", "action"):
        before = saved.get(which) if isinstance(saved, dict) else None
        if before != given[which]:
            raise CheckpointError(
                f"{what} was made for the {which} space {before}, but the environment has {given[which]}"
            )


def _describe(space: spaces.Space[Any], limits: bool) -> dict[str, Any]:
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    assert isinstance(space, spaces.Box), "agents are only made for Box and Discrete spaces"
    described: dict[str, Any] = {"kind": "Box", "shape": list(space.shape), "dtype": str(space.dtype)}
    if limits:
        described |= {"low": space.low.tolist(), "high": space.high.tolist()}
    return described
