"""Export of a learned policy: for `adaqn.exported_policy`, which needs only NumPy to run it, or as an ONNX model."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from adaqn import __version__
from adaqn.agents.protocol import PolicyWeights
from adaqn.base.errors import UserError, unknown_name
from adaqn.base.files import Json, make_parent, replacing, require_ours
from adaqn.envs.spaces import observation_dtype
from adaqn.exported_policy import FORMAT, ExportedPolicy, format_version
from adaqn.networks.layers import Layer, with_arrays
from adaqn.runs.onnx_graph import PRODUCER, onnx_model
from adaqn.runs.saved_spaces import describe_spaces

PolicyFormat = Literal["numpy", "onnx"]
SUFFIXES = {"numpy": ".npz", "onnx": ".onnx"}


def policy_path(path: str | Path, format: str | None = None) -> tuple[Path, PolicyFormat]:
    """The path of the policy file, with the format's suffix added if missing, and the format.

    Without a `format`, a path that ends in `.onnx` selects ONNX.
    """
    path = Path(path)
    if format is not None and format not in SUFFIXES:
        raise unknown_name("format of a policy", format, SUFFIXES)
    if path.is_dir():
        raise UserError(f"{path} is a directory; name a file for the policy")
    named = {suffix: name for name, suffix in SUFFIXES.items()}.get(path.suffix)
    if format is not None and named not in (None, format):
        raise UserError(f"{path} is the name of a policy in the format {named}, but the format {format} was given")
    chosen: PolicyFormat = "onnx" if "onnx" in (format, named) else "numpy"
    return (path if named is not None else path.with_name(path.name + SUFFIXES[chosen])), chosen


def require_policy(path: Path) -> None:
    """Raise if the file exists and is not an exported policy, so that it is not overwritten."""

    def is_policy(path: Path) -> bool:
        if path.suffix == SUFFIXES["onnx"]:
            return _is_onnx_policy(path)
        try:
            ExportedPolicy.load(path)
        except (OSError, ValueError):
            return False
        return True

    require_ours(path, "policy that adaqn exported", is_policy)


def _is_onnx_policy(path: Path) -> bool:
    """Whether the file begins as our ONNX models do: the version of ONNX, then the producer's name."""
    try:
        with path.open("rb") as file:
            return file.read(4 + len(PRODUCER))[2:] == b"\x12" + bytes([len(PRODUCER)]) + PRODUCER.encode()
    except OSError:
        return False


def write_policy(
    path: Path,
    weights: PolicyWeights,
    observations: spaces.Box,
    actions: spaces.Space,
    *,
    env: str | None,
    algo: str,
    format: PolicyFormat = "numpy",
) -> None:
    """Write the layers and everything needed to run them to one file, atomically and without pickle."""
    network = weights.network
    if not np.isfinite(weights.parameters).all():
        raise UserError("the policy has non-finite parameters, so it cannot be exported")
    described = [_described(layer) for layer in network.layers]
    if weights.scaling is not None:
        described.insert(0, {"kind": "scaling", "limit": weights.scaling.limit})
    version = format_version(described)
    plain = version == 1
    meta = {
        "format": FORMAT,
        "version": version,
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
        **({} if plain else {"layers": described}),
        # For information only.
        "environment": env,
        "algorithm": algo,
        "hyperparameters": weights.hyperparameters.to_dict(),
    }
    arrays = _arrays(weights)
    content = _onnx(arrays, meta, describe_spaces(observations, actions)) if format == "onnx" else _npz(arrays, meta)
    make_parent(path)
    with replacing(path) as file:
        file.write(content)


def _npz(arrays: dict[str, Any], meta: Json) -> bytes:
    file = io.BytesIO()
    np.savez(file, meta=np.array(json.dumps(meta)), **arrays)
    return file.getvalue()


def _onnx(arrays: dict[str, np.ndarray], meta: Json, described: Json) -> bytes:
    """An ONNX model whose metadata describes the spaces and the origin of the policy, as JSON or text."""
    properties: Json = {f"{name}_space": described[name] for name in ("observation", "action")}
    properties |= {name: meta[name] for name in ("kind", "environment", "algorithm", "hyperparameters")}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in properties.items()}
    return onnx_model(arrays, meta, texts, __version__).SerializeToString(deterministic=True)


def _described(layer: Layer) -> Json:
    """A layer as `ExportedPolicy` reads it; its arrays are in `_arrays`."""
    described: Json = {"kind": layer.kind}
    if layer.kind == "convolution":
        described["stride"] = layer.stride
    if layer.support is not None:
        described |= layer.support._asdict()
    if layer.inner:
        described["layers"] = [_described(inner) for inner in layer.inner]
    return described


def _arrays(weights: PolicyWeights) -> dict[str, np.ndarray]:
    """The flat parameter vector as the named arrays that `ExportedPolicy` reads."""
    shapes = weights.network.shapes
    pieces = np.split(weights.parameters, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
    first = 0 if weights.scaling is None else 1
    names = [
        f"{part}_{i}"
        for i, layer in enumerate(with_arrays(weights.network.layers), first)
        for part in ("scale" if layer.kind == "layer_norm" else "kernel", "bias")
    ]
    of_layers = {name: piece.reshape(shape) for name, piece, shape in zip(names, pieces, shapes, strict=True)}
    if weights.scaling is None:
        return of_layers
    return {"mean_0": weights.scaling.mean, "scale_0": weights.scaling.scale, **of_layers}


def _describe(space: spaces.Space) -> Json:
    if isinstance(space, spaces.Discrete):
        return {"start": int(space.start)}
    assert isinstance(space, spaces.Box), "agents are only made for Box and Discrete spaces"
    return {"low": space.low.tolist(), "high": space.high.tolist(), "dtype": str(space.dtype)}
