"""A trained policy for deployment. It needs only this file and NumPy, not the rest of adaqn:

    policy = ExportedPolicy.load("policy.npz")
    action = policy(observation)

The file is written by an agent's `export` method, or by `adaqn export`.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import operator
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

FORMAT = "adaqn-policy"
VERSION = 3  # that of categorical heads; see `format_version`
NORM_EPSILON = 1e-6  # added to the variance in a layer norm


class ExportedPolicy:
    """The deterministic policy of the exported agent, as in `predict(observation, deterministic=True)`."""

    def __init__(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        """Build the network from its description in the metadata and the arrays `kernel_0`, `bias_0`, `scale_1`, ...

        `meta["layers"]` lists the layers in the order in which they are applied, each with its `kind` and, where it has
        them, its `stride`, `limit`, bins (`low`, `high` and `bins`) or inner `layers`. The arrays of the i-th layer
        with arrays end in `_i`.
        """
        self.meta = meta  # also has environment, algorithm, hyperparameters
        self.observation_shape = tuple(meta["observation"]["shape"])
        self._dtype = np.dtype(meta["observation"]["dtype"])
        self._scale = float(meta["observation"]["scale"])
        if self._dtype not in (np.uint8, np.float32):
            raise ValueError(f"observations of dtype {self._dtype}")
        if not all(type(side) is int and side > 0 for side in self.observation_shape):
            raise ValueError(f"observations of shape {self.observation_shape}")
        builder = _Builder(arrays, ACTIVATIONS[meta["activation"]], {"same": True, "valid": False}[meta["padding"]])
        self._network, shape = builder.sequence(described_layers(arrays, meta), self.observation_shape)
        self._decide, outputs = KINDS[meta["kind"]](meta["action"])
        if builder.used != len(arrays) or len(shape) != 1 or outputs not in (None, shape[0]):
            raise ValueError(f"{builder.used} of {len(arrays)} arrays end with {shape} outputs")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("weights that are not finite")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ExportedPolicy:
        """Load a policy from a file; loading never executes code from it."""
        with open(path, "rb") as file:
            # On invalid bytes zipfile, NumPy and json raise almost any exception.
            try:
                arrays = _read_arrays(file)
                meta = json.loads(arrays.pop("meta").item())
                version = int(meta["version"]) if meta["format"] == FORMAT else 0
            except Exception as error:
                raise ValueError(f"{os.fspath(path)} is not an exported policy") from error
        if version < 1:
            raise ValueError(f"{os.fspath(path)} is not an exported policy")
        if version > VERSION:
            raise ValueError(
                f"{os.fspath(path)} was written by a newer adaqn: its format has version {version}, and this "
                f"reader knows {VERSION}"
            )
        try:
            return cls(arrays, meta)
        except Exception as error:
            raise ValueError(f"{os.fspath(path)} is an exported policy, but a damaged one: {error!r}") from error

    def __call__(self, observation: Any) -> Any:
        """The action for one observation, or the actions for a batch of them."""
        observation = np.asarray(observation)
        single = observation.shape == self.observation_shape
        if not single and observation.shape[1:] != self.observation_shape:
            raise ValueError(
                f"observations have the shape {self.observation_shape}, or (n, *shape) for n of them, "
                f"but got {observation.shape}"
            )
        actions = self._decide(self.outputs(observation[None] if single else observation))
        return actions[0] if single else actions

    def outputs(self, observations: np.ndarray) -> np.ndarray:
        """Network outputs: Q-values, means and log standard deviations, or actions. [B, ...] -> [B, outputs]"""
        x = self._numbers(observations).astype(np.float32, copy=False)
        if self._scale != 1.0:
            x = x * self._scale
        return self._network(x)

    def _numbers(self, observations: np.ndarray) -> np.ndarray:
        """The observations with the agent's dtype; values that the agent cannot have seen raise instead of wrapping."""
        x, bytes_expected = observations, self._dtype.kind == "u"
        if observations.dtype.kind not in "biuf":
            raise ValueError(f"observations must be numbers, but their dtype is {observations.dtype}")
        if observations.dtype is not self._dtype:
            with np.errstate(over="ignore", invalid="ignore"):
                x = observations.astype(self._dtype)
        sound = x == observations if bytes_expected else np.isfinite(x)
        if np.count_nonzero(sound) != sound.size:
            wrong = observations.flat[int(np.argmin(sound))]
            expected = "whole numbers from 0 to 255" if bytes_expected else "finite"
            raise ValueError(f"observations must be {expected}, but one has {wrong}")
        return x


def _read_arrays(file: BinaryIO) -> dict[str, np.ndarray]:
    """The arrays of an uncompressed `.npz` file, without allocating more memory than the file's size."""
    arrays: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
        if not stored or sum(entry.file_size for entry in entries) > os.fstat(file.fileno()).st_size:
            raise ValueError("it unpacks to more than its size")
        for entry in entries:
            data = io.BytesIO(archive.read(entry))
            header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(data)]
            shape, fortran_order, dtype = header(data)
            if dtype.kind not in "fU":
                raise ValueError(f"an array of dtype {dtype}")
            # NumPy's own reader allocates memory for the shape before it checks how much data there is.
            flat = np.frombuffer(data.getbuffer()[data.tell() :], dtype)
            arrays[entry.filename.removesuffix(".npy")] = flat.reshape(shape, order="F" if fortran_order else "C")
    return arrays


def described_layers(arrays: Mapping[str, np.ndarray], meta: dict[str, Any]) -> list[dict[str, Any]]:
    """The layers of a policy; version 1 has only the strides of convolutions, which come before dense layers."""
    if int(meta["version"]) > 1:
        return meta["layers"]
    convolutions = [[{"kind": "convolution", "stride": stride}, {"kind": "activation"}] for stride in meta["strides"]]
    dense = [{"kind": "dense"}, {"kind": "activation"}] * (len(arrays) // 2 - len(convolutions))
    if not dense:
        raise ValueError(f"{len(arrays)} arrays for {len(convolutions)} convolutions and no dense layer")
    return [*itertools.chain(*convolutions), {"kind": "flatten"}, *dense[:-1]]


def layer_kinds(layers: Sequence[dict[str, Any]]) -> set[str]:
    """All kinds of layers in a description, inside residual blocks too."""
    return {str(layer["kind"]) for layer in layers}.union(*(layer_kinds(layer.get("layers", ())) for layer in layers))


def format_version(layers: Sequence[dict[str, Any]]) -> int:
    """The first version of the format with all of these layers, so that earlier readers can read what they know."""
    kinds = layer_kinds(layers)
    if "expectation" in kinds:
        return 3
    return 1 if kinds <= {"convolution", "activation", "flatten", "dense"} else 2


class _Builder:
    """Turns descriptions of layers into functions, and checks that the arrays fit one another."""

    def __init__(self, arrays: dict[str, np.ndarray], activation: Callable[[np.ndarray], np.ndarray], same: bool):
        self._arrays = arrays
        self._activation = activation
        self._same = same  # padding of the convolutions
        self.used = 0  # number of arrays used

    def sequence(
        self, layers: list[dict[str, Any]], shape: tuple[int, ...]
    ) -> tuple[Callable[[np.ndarray], np.ndarray], tuple[int, ...]]:
        """The function that applies layers to a batch of inputs of this shape, and the shape of its outputs."""
        functions = []
        for layer in layers:
            function, shape = getattr(self, f"_{LAYERS[layer['kind']]}")(layer, shape)
            functions.append(function)

        def apply(x: np.ndarray) -> np.ndarray:
            for function in functions:
                x = function(x)
            return x

        return apply, shape

    def _pair(self, first: str, second: str = "bias") -> tuple[np.ndarray, np.ndarray]:
        """The arrays of the next layer that has some."""
        number = self.used // 2
        self.used += 2
        return self._arrays[f"{first}_{number}"], self._arrays[f"{second}_{number}"]

    def _scale(self, layer: dict[str, Any], shape: tuple[int, ...]) -> Any:
        mean, scale = self._pair("mean", "scale")
        limit = float(layer["limit"])
        if mean.shape != shape or scale.shape != shape or not limit > 0.0:
            raise ValueError(f"a scaling of the shapes {mean.shape} and {scale.shape} with the limit {limit}")
        return lambda x: np.clip((x - mean) * scale, -limit, limit), shape

    def _activate(self, layer: dict[str, Any], shape: tuple[int, ...]) -> Any:
        return self._activation, shape

    def _flatten(self, layer: dict[str, Any], shape: tuple[int, ...]) -> Any:
        return lambda x: x.reshape(len(x), -1), (math.prod(shape),)

    def _dense(self, layer: dict[str, Any], shape: tuple[int, ...]) -> Any:
        kernel, bias = self._pair("kernel")
        _require(len(shape) == 1, (*shape, len(bias)), kernel, bias)
        return lambda x: x @ kernel + bias, bias.shape

    def _convolve(self, layer: dict[str, Any], shape: tuple[int, ...]) -> Any:
        kernel, bias = self._pair("kernel")
        stride, size = int(layer["stride"]), kernel.shape[0]
        height, width, channels = shape
        _require(stride > 0, (size, size, channels, len(bias)), kernel, bias)
        sides = [-(-side // stride) if self._same else (side - size) // stride + 1 for side in (height, width)]
        _require(min(sides) > 0, kernel.shape, kernel, bias)
        return lambda x: convolve(x, kernel, stride, self._same) + bias, (*sides, len(bias))

    def _normalize(self, layer: dict[str, Any], shape: tuple[int, ...]) -> Any:
        scale, bias = self._pair("scale")
        _require(len(shape) == 1, shape, scale, bias)
        return lambda x: layer_norm(x, scale, bias), shape

    def _add(self, layer: dict[str, Any], shape: tuple[int, ...]) -> Any:
        inner, after = self.sequence(layer["layers"], shape)
        if after != shape:
            raise ValueError(f"a residual block from {shape} to {after} units")
        return lambda x: x + inner(x), shape

    def _expect(self, layer: dict[str, Any], shape: tuple[int, ...]) -> Any:
        bins = operator.index(layer["bins"])
        if len(shape) != 1 or bins < 1 or shape[0] % bins:  # before anything of this size is allocated
            raise ValueError(f"{shape} outputs for {bins} bins")
        outputs, centres = shape[0] // bins, bin_centres(layer)
        return lambda x: (_softmax(x.reshape(len(x), outputs, bins)) * centres).sum(axis=-1), (outputs,)


# The method of `_Builder` for each kind of layer.
LAYERS = {
    "convolution": "convolve",
    "activation": "activate",
    "flatten": "flatten",
    "dense": "dense",
    "layer_norm": "normalize",
    "scaling": "scale",
    "residual": "add",
    "expectation": "expect",
}


def _require(sound: bool, expected: tuple[int, ...], array: np.ndarray, bias: np.ndarray) -> None:
    """Raise if the arrays of a layer do not have the expected shapes."""
    if not sound or array.shape != expected or bias.ndim != 1 or len(bias) < 1 or bias.shape != array.shape[-1:]:
        raise ValueError(f"a layer has arrays of the shapes {array.shape} and {bias.shape}")


def bin_centres(layer: dict[str, Any]) -> np.ndarray:
    """The values of the bins of a categorical head. [bins]"""
    low, high = float(layer["low"]), float(layer["high"])
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"bins from {low} to {high}")
    edges = np.linspace(low, high, layer["bins"] + 1)
    return (0.5 * (edges[:-1] + edges[1:])).astype(np.float32)


def layer_norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Normalize every sample to mean 0 and variance 1 over its units, then scale and shift. [B, units]"""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + np.float32(NORM_EPSILON)) * scale + bias


def convolve(x: np.ndarray, kernel: np.ndarray, stride: int, same: bool) -> np.ndarray:
    """2D convolution with `valid` padding, or `same` padding with zeros. [B, H, W, C], [k, k, C, D]"""
    size = kernel.shape[0]
    if same:
        # Enough zeros for one window per `stride` pixels; if their number is odd, the extra one goes to the end.
        missing = [max((-(-side // stride) - 1) * stride + size - side, 0) for side in x.shape[1:3]]
        x = np.pad(x, ((0, 0), *((zeros // 2, zeros - zeros // 2) for zeros in missing), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))[:, ::stride, ::stride]
    return np.tensordot(windows, kernel, axes=((4, 5, 3), (0, 1, 2)))


def _greedy(action: dict[str, Any]) -> tuple[Callable[[np.ndarray], np.ndarray], None]:
    """The action with the largest Q-value, offset by the space's start; any number of outputs is valid."""
    start = np.int64(operator.index(action["start"]))
    return lambda outputs: start + outputs.argmax(axis=-1), None


def _tanh(action: dict[str, Any], per_action: int) -> tuple[Callable[[np.ndarray], np.ndarray], int]:
    """The tanh of the first len(low) outputs, rescaled from [-1, 1] to the bounds of the action space."""
    dtype = np.dtype(action["dtype"])
    low, high = np.asarray(action["low"], dtype), np.asarray(action["high"], dtype)
    if dtype.kind != "f" or low.ndim != 1 or low.shape != high.shape or not np.isfinite([low, high]).all():
        raise ValueError(f"actions from {low} to {high}")

    def decide(outputs: np.ndarray) -> np.ndarray:
        share = 0.5 * (np.tanh(outputs[:, : len(low)]).astype(dtype) + 1.0)
        # Not low + share * (high - low), whose difference can overflow; the clip undoes rounding beyond the bounds.
        return np.clip(share * high + (1.0 - share) * low, low, high).astype(dtype)

    return decide, per_action * len(low)


# For each kind of policy: the function from outputs to actions, and the required number of outputs (None: any).
# A Gaussian's outputs are its means, then its log standard deviations.
KINDS: dict[str, Callable[[dict[str, Any]], tuple[Callable[[np.ndarray], np.ndarray], int | None]]] = {
    "greedy": _greedy,
    "tanh-gaussian": partial(_tanh, per_action=2),
    "tanh": partial(_tanh, per_action=1),
}


def _sigmoid(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0.0, 1.0, small) / (1.0 + small)


def _elu(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    return np.where(x > 0.0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def _gelu(x: np.ndarray) -> np.ndarray:
    """GELU with the usual tanh approximation."""
    bounded = np.clip(x, -10.0, 10.0)  # tanh saturates long before, and the cube of larger values could overflow
    return x * (0.5 * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (bounded + 0.044715 * bounded**3))))


def _hard_sigmoid(x: np.ndarray) -> np.ndarray:
    return np.clip(x + 3.0, 0.0, 6.0) / 6.0


def _log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _standardize(x: np.ndarray) -> np.ndarray:
    mean = x.mean(axis=-1, keepdims=True)
    # E[x²] - E[x]², as in training: a numerically better formula would give different outputs where it cancels.
    variance = np.maximum(np.square(x).mean(axis=-1, keepdims=True) - np.square(mean), 0.0)
    return (x - mean) / np.sqrt(variance + 1e-5)


# Activations that normalize do so over the last axis.
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "celu": _elu,
    "elu": _elu,
    "gelu": _gelu,
    "hard_sigmoid": _hard_sigmoid,
    "hard_silu": lambda x: x * _hard_sigmoid(x),
    "hard_tanh": lambda x: np.clip(x, -1.0, 1.0),
    "leaky_relu": lambda x: np.where(x >= 0.0, x, 0.01 * x),
    "log_sigmoid": lambda x: -np.logaddexp(-x, 0.0),
    "log_softmax": _log_softmax,
    "relu": lambda x: np.maximum(x, 0.0),
    "selu": lambda x: 1.0507009873554805 * _elu(x, 1.6732632423543772),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "soft_sign": lambda x: x / (np.abs(x) + 1.0),
    "softmax": _softmax,
    "softplus": lambda x: np.logaddexp(x, 0.0),
    "standardize": _standardize,
    "tanh": np.tanh,
}
