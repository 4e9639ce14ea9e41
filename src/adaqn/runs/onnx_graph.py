"""A policy as an ONNX graph, one function per kind of layer, activation and decision.

The graph computes what `adaqn.exported_policy` computes in NumPy. Images are transposed once to ONNX's layout (channels
first), and back before they are flattened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adaqn.base.errors import UserError
from adaqn.base.files import Json
from adaqn.base.plugins import require_extra
from adaqn.exported_policy import NORM_EPSILON, VERSION, bin_centres, described_layers, layer_kinds

OPSET = 17  # of 2022, which runtimes and converters of today read
IR_VERSION = 8  # of the same time
PRODUCER = "adaqn"

Arrays = Mapping[str, np.ndarray]


class Graph:
    """Nodes and constants in the order in which they are added; values are referred to by name."""

    def __init__(self) -> None:
        self.onnx = require_extra("the ONNX export", "onnx", "onnx")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, **attributes: object) -> str:
        """Add a node with one output, and return the name of that output."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, value: object, dtype: Any = np.float32) -> str:
        """Add a constant, and return its name."""
        name = f"constant_{len(self.constants)}"
        array = np.ascontiguousarray(np.asarray(value, dtype))
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def rename(self, value: str, name: str) -> None:
        """Give a value its final name, as an output of the graph."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name], name=name))


def onnx_model(arrays: Arrays, meta: Json, properties: Mapping[str, str], version: str) -> Any:
    """The checked ONNX model of a policy, given as the content of an exported policy file.

    Its input `observation` has a dynamic batch dimension; its outputs are `action` and, if greedy, `q_values`.
    """
    _require_known(arrays, meta)
    graph = Graph()
    onnx = graph.onnx
    observation, batch = meta["observation"], "batch"
    kinds = {"uint8": onnx.TensorProto.UINT8, "float32": onnx.TensorProto.FLOAT}
    entry = onnx.helper.make_tensor_value_info(
        "observation", kinds[observation["dtype"]], [batch, *observation["shape"]]
    )
    outputs = _network(graph, "observation", arrays, meta)
    results = DECISIONS[meta["kind"]](graph, outputs, arrays, meta)
    ends = []
    for name, (value, dtype, sides) in results.items():
        graph.rename(value, name)
        element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        ends.append(onnx.helper.make_tensor_value_info(name, element, [batch, *sides]))
    model = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "policy", [entry], ends, graph.constants),
        producer_name=PRODUCER,
        producer_version=version,
        ir_version=IR_VERSION,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
    )
    onnx.helper.set_model_props(model, dict(properties))
    onnx.checker.check_model(model, full_check=True)
    return model


# Everything that describes a network in the metadata of an exported policy; the rest is for information.
_KNOWN = {"format", "version", "kind", "observation", "action", "activation", "strides", "padding", "layers"}
_INFORMATION = {"environment", "algorithm", "hyperparameters"}


def _require_known(arrays: Arrays, meta: Json) -> None:
    """Raise for a network with a part that has no function below, instead of leaving that part out."""
    unknown = [name for name, value in meta.items() if name not in _KNOWN | _INFORMATION and value]
    unknown += [name for name in arrays if name.rpartition("_")[0] not in ("mean", "kernel", "scale", "bias")]
    kinds = sorted(layer_kinds(described_layers(arrays, meta))) if meta["version"] <= VERSION else []
    unknown += [f"layers of the kind {kind}" for kind in kinds if not hasattr(_Network, f"_{kind}")]
    unknown += [f"the activation {name}" for name in [meta["activation"]] if name not in ACTIVATIONS]
    unknown += [f"the kind {name}" for name in [meta["kind"]] if name not in DECISIONS]
    if meta["version"] > VERSION:
        unknown += [f"version {meta['version']}"]
    if unknown:
        raise UserError(f"the ONNX export does not support a part of this policy's network: {', '.join(unknown)}")


def _network(graph: Graph, x: str, arrays: Arrays, meta: Json) -> str:
    """The outputs of the network for a batch of observations. [B, ...] -> [B, outputs]"""
    x = scaled(graph, x, meta["observation"])
    return _Network(graph, arrays, meta).sequence(described_layers(arrays, meta), x)


class _Network:
    """Adds the layers of a network to a graph, one method per kind of layer."""

    def __init__(self, graph: Graph, arrays: Arrays, meta: Json) -> None:
        self._graph = graph
        self._arrays = arrays
        self._activate = ACTIVATIONS[meta["activation"]]
        self._padding = meta["padding"]
        self._used = 0  # layers with arrays so far
        self._channels_first = False  # whether the current value is an image in ONNX's layout

    def sequence(self, layers: Sequence[Json], x: str) -> str:
        """Add layers one after the other."""
        for layer in layers:
            x = getattr(self, f"_{layer['kind']}")(layer, x)
        return x

    def _pair(self, first: str, second: str = "bias") -> tuple[np.ndarray, np.ndarray]:
        number = self._used
        self._used += 1
        return self._arrays[f"{first}_{number}"], self._arrays[f"{second}_{number}"]

    def _scaling(self, layer: Json, x: str) -> str:
        graph = self._graph
        mean, scale = (graph.constant(array) for array in self._pair("mean", "scale"))
        limit = float(layer["limit"])
        return _clip(graph, graph.add("Mul", graph.add("Sub", x, mean), scale), -limit, limit)

    def _convolution(self, layer: Json, x: str) -> str:
        if not self._channels_first:
            x, self._channels_first = self._graph.add("Transpose", x, perm=[0, 3, 1, 2]), True
        return convolution(self._graph, x, *self._pair("kernel"), layer["stride"], self._padding)

    def _activation(self, layer: Json, x: str) -> str:
        return self._activate(self._graph, x, 1 if self._channels_first else -1)

    def _flatten(self, layer: Json, x: str) -> str:
        if self._channels_first:
            x, self._channels_first = self._graph.add("Transpose", x, perm=[0, 2, 3, 1]), False
        return self._graph.add("Flatten", x, axis=1)

    def _dense(self, layer: Json, x: str) -> str:
        return dense(self._graph, x, *self._pair("kernel"))

    def _layer_norm(self, layer: Json, x: str) -> str:
        scale, bias = (self._graph.constant(array) for array in self._pair("scale"))
        return self._graph.add("LayerNormalization", x, scale, bias, axis=-1, epsilon=NORM_EPSILON)

    def _residual(self, layer: Json, x: str) -> str:
        return self._graph.add("Add", x, self.sequence(layer["layers"], x))

    def _expectation(self, layer: Json, x: str) -> str:
        centres = bin_centres(layer)
        by_output = self._graph.constant([0, -1, len(centres)], np.int64)  # 0: the batch as it is
        masses = self._graph.add("Softmax", self._graph.add("Reshape", x, by_output), axis=-1)
        return self._graph.add("MatMul", masses, self._graph.constant(centres))


def scaled(graph: Graph, x: str, observation: Json) -> str:
    """Observations as float32, with byte images scaled as in training."""
    if observation["dtype"] != "float32":
        x = graph.add("Cast", x, to=graph.onnx.TensorProto.FLOAT)
    scale = float(observation["scale"])
    return x if scale == 1.0 else graph.add("Mul", x, graph.constant(scale))


def convolution(graph: Graph, x: str, kernel: np.ndarray, bias: np.ndarray, stride: int, padding: str) -> str:
    """2D convolution of channels-first images with a kernel [k, k, C, D]."""
    weights = [graph.constant(kernel.transpose(3, 2, 0, 1)), graph.constant(bias)]
    automatic = {"same": "SAME_UPPER", "valid": "VALID"}[padding]
    return graph.add("Conv", x, *weights, strides=[stride, stride], auto_pad=automatic)


def dense(graph: Graph, x: str, kernel: np.ndarray, bias: np.ndarray) -> str:
    """x @ kernel + bias."""
    return graph.add("Gemm", x, graph.constant(kernel), graph.constant(bias))


Results = dict[str, tuple[str, Any, list[int]]]  # by name of the output: value, dtype, shape without the batch


def _greedy(graph: Graph, outputs: str, arrays: Arrays, meta: Json) -> Results:
    """The action with the largest Q-value, offset by the space's start."""
    best = graph.add("ArgMax", outputs, axis=1, keepdims=0)
    action = graph.add("Add", best, graph.constant(meta["action"]["start"], np.int64))
    actions = len(arrays[f"bias_{len(arrays) // 2 - 1}"]) // described_layers(arrays, meta)[-1].get("bins", 1)
    return {"action": (action, np.int64, []), "q_values": (outputs, np.float32, [actions])}


def _tanh(graph: Graph, outputs: str, arrays: Arrays, meta: Json) -> Results:
    """The tanh of the first outputs, rescaled from [-1, 1] to the bounds of the action space."""
    dtype = np.dtype(meta["action"]["dtype"])
    low, high = (np.asarray(meta["action"][name], dtype) for name in ("low", "high"))
    size = len(low)
    first = [graph.constant(value, np.int64) for value in ([0], [size], [1])]
    x = graph.add("Tanh", graph.add("Slice", outputs, *first))
    if dtype != np.float32:
        x = graph.add("Cast", x, to=graph.onnx.helper.np_dtype_to_tensor_dtype(dtype))
    half, one = (graph.constant(value, dtype) for value in (0.5, 1.0))
    lowest, highest = graph.constant(low, dtype), graph.constant(high, dtype)
    share = graph.add("Mul", half, graph.add("Add", x, one))
    # Not low + share * (high - low), whose difference can overflow; the bounds undo rounding beyond them.
    above = graph.add("Mul", share, highest)
    below = graph.add("Mul", graph.add("Sub", one, share), lowest)
    bounded = graph.add("Min", graph.add("Max", graph.add("Add", above, below), lowest), highest)
    return {"action": (bounded, dtype, [size])}


DECISIONS: dict[str, Callable[[Graph, str, Arrays, Json], Results]] = {
    "greedy": _greedy,
    "tanh-gaussian": _tanh,
    "tanh": _tanh,
}


Activation = Callable[[Graph, str, int], str]  # graph, value, axis of the units


def _operator(name: str, **attributes: object) -> Activation:
    """An activation that is one operator of ONNX."""
    return lambda graph, x, axis: graph.add(name, x, **attributes)


def _normalizing(name: str) -> Activation:
    """An activation that is one operator of ONNX over the axis of the units."""
    return lambda graph, x, axis: graph.add(name, x, axis=axis)


def _times(gate: Activation) -> Activation:
    """x multiplied by another activation of x."""
    return lambda graph, x, axis: graph.add("Mul", x, gate(graph, x, axis))


def _clip(graph: Graph, x: str, low: float, high: float) -> str:
    return graph.add("Clip", x, graph.constant(low), graph.constant(high))


def _gelu(graph: Graph, x: str, axis: int) -> str:
    """GELU with the tanh approximation, x ½ (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    bounded = _clip(graph, x, -10.0, 10.0)  # as in `exported_policy`
    cube = graph.add("Mul", graph.add("Mul", bounded, bounded), bounded)
    inner = graph.add("Add", bounded, graph.add("Mul", graph.constant(0.044715), cube))
    gate = graph.add("Tanh", graph.add("Mul", graph.constant(math.sqrt(2.0 / math.pi)), inner))
    return graph.add("Mul", x, graph.add("Mul", graph.constant(0.5), graph.add("Add", graph.constant(1.0), gate)))


def _standardize(graph: Graph, x: str, axis: int) -> str:
    """Mean 0 and variance 1, with E[x²] - E[x]² as the variance, as in training."""
    mean = graph.add("ReduceMean", x, axes=[axis], keepdims=1)
    squares = graph.add("ReduceMean", graph.add("Mul", x, x), axes=[axis], keepdims=1)
    variance = graph.add("Sub", squares, graph.add("Mul", mean, mean))
    deviation = graph.add(
        "Sqrt", graph.add("Add", graph.add("Max", variance, graph.constant(0.0)), graph.constant(1e-5))
    )
    return graph.add("Div", graph.add("Sub", x, mean), deviation)


def _log_sigmoid(graph: Graph, x: str, axis: int) -> str:
    return graph.add("Neg", graph.add("Softplus", graph.add("Neg", x)))


_hard_sigmoid = _operator("HardSigmoid", alpha=1.0 / 6.0, beta=0.5)
ACTIVATIONS: dict[str, Activation] = {
    "celu": _operator("Elu"),
    "elu": _operator("Elu"),
    "gelu": _gelu,
    "hard_sigmoid": _hard_sigmoid,
    "hard_silu": _times(_hard_sigmoid),
    "hard_tanh": lambda graph, x, axis: _clip(graph, x, -1.0, 1.0),
    "leaky_relu": _operator("LeakyRelu", alpha=0.01),
    "log_sigmoid": _log_sigmoid,
    "log_softmax": _normalizing("LogSoftmax"),
    "relu": _operator("Relu"),
    "selu": _operator("Selu"),
    "sigmoid": _operator("Sigmoid"),
    "silu": _times(_operator("Sigmoid")),
    "soft_sign": _operator("Softsign"),
    "softmax": _normalizing("Softmax"),
    "softplus": _operator("Softplus"),
    "standardize": _standardize,
    "tanh": _operator("Tanh"),
}
