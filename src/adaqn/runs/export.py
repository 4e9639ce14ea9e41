"""Export of a learned policy for `adaqn.exported_policy`, which needs only NumPy to run it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from adaqn.agents.protocol import PolicyWeights
from adaqn.envs.gym_spaces import observation_dtype
from adaqn.errors import UserError
from adaqn.exported_policy import FORMAT, VERSION, ExportedPolicy
from adaqn.files import Json, make_parent, replacing, require_ours


def policy_path(path: str | Path) -> Path:
    """The path of the policy file: `.npz` is added if missing."""
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path} is a directory; name a file for the policy")
    return path if path.suffix == ".npz" else path.with_name(path.name + ".npz")


def require_policy(path: Path) -> None:
    """Raise if the file exists and is not an exported policy, so that it is not overwritten."""

    def is_policy(path: Path) -> bool:
        try:
            ExportedPolicy.load(path)
        except (OSError, ValueError):
            return False
        return True

    require_ours(path, "policy that adaqn exported", is_policy)


def write_policy(
    path: Path,
    weights: PolicyWeights,
    observations: spaces.Box,
    actions: spaces.Space,
    *,
    env: str | None,
    algo: str,
) -> None:
    """Write the layers and everything needed to run them to one file, atomically and without pickle."""
    network = weights.network
    if not np.isfinite(weights.parameters).all():
        raise UserError("the policy has non-finite parameters, so it cannot be exported")
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "kind": weights.kind,
        "observation": {
            "shape": list(observations.shape),
            "dtype": str(observation_dtype(observations)),
            "scale": network.scale,
        },
        "action": _describe(actions),
        "activation": network.architecture.activation,
        "strides": [layer.stride for layer in network.architecture.convolutions],
        "padding": network.architecture.padding,
        # For information only.
        "environment": env,
        "algorithm": algo,
        "hyperparameters": weights.hyperparameters.to_dict(),
    }
    make_parent(path)
    with replacing(path) as file:
        np.savez(file, meta=np.array(json.dumps(meta)), **_layers(weights))


def _layers(weights: PolicyWeights) -> Any:
    """The flat parameter vector as the named arrays that `ExportedPolicy` reads."""
    shapes = weights.network.shapes
    pieces = np.split(weights.parameters, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
    names = [f"{part}_{i}" for i in range(len(shapes) // 2) for part in ("kernel", "bias")]
    return {name: piece.reshape(shape) for name, piece, shape in zip(names, pieces, shapes, strict=True)}


def _describe(space: spaces.Space) -> Json:
    if isinstance(space, spaces.Discrete):
        return {"start": int(space.start)}
    assert isinstance(space, spaces.Box), "agents are only made for Box and Discrete spaces"
    return {"low": space.low.tolist(), "high": space.high.tolist(), "dtype": str(space.dtype)}
