"""The layers of a network as data: what each computes, and the arrays that it owns.

A network is a sequence of layers. Training, export, inheritance and memory estimates all read this one description.
With `block="residual"` each hidden layer is the pre-norm residual block of SimBa (Lee et al., 2024, "SimBa: Simplicity
Bias for Scaling Up Parameters in Deep Reinforcement Learning"): x + Dense(h)(σ(Dense(4h)(LayerNorm(x)))), behind a
linear projection to h units, and with a layer norm before the output layer. A categorical head has a logit for each bin
of each output, and ends with the expectation over the bins (`categorical.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from adaqn.members.hyperparameters import Architecture, Support
from adaqn.networks.convolution import output_size

Shape = tuple[int, ...]
LayerKind = Literal["convolution", "activation", "flatten", "dense", "layer_norm", "residual", "expectation"]

EXPANSION = 4  # units inside a residual block, as a multiple of its width
NORM_EPSILON = 1e-6  # added to the variance


@dataclass(frozen=True)
class Layer:
    """One step of a network."""

    kind: LayerKind
    # Shapes of its arrays: kernel and bias, or scale and bias of a layer norm. The first dense kernel is given as
    # (height, width, channels, units) if it reads an image.
    shapes: tuple[Shape, ...] = ()
    part: str = ""  # name of its place in the network, such as "hidden 0"; unique among layers with arrays
    reads: str = ""  # kind of input of a kernel: observation, channels, units, stream or inside (of a residual block)
    stride: int = 1  # of a convolution
    inner: tuple[Layer, ...] = ()  # the layers f of a residual connection x + f(x)
    support: Support | None = None  # of an expectation

    @property
    def flat_shapes(self) -> tuple[Shape, ...]:
        """`shapes` as they are stored: the kernel of a dense layer is a matrix."""
        if self.kind != "dense":
            return self.shapes
        *features, units = self.shapes[0]
        return (math.prod(features), units), self.shapes[1]


def layers_of(architecture: Architecture, observation_shape: Shape, outputs: int) -> tuple[Layer, ...]:
    """The layers of a network with this architecture."""
    layers: list[Layer] = []
    features, reads = observation_shape, "observation"
    activation = Layer("activation")
    for i, convolution in enumerate(architecture.convolutions):
        size, stride = convolution.kernel, convolution.stride
        shapes = ((size, size, features[-1], convolution.channels), (convolution.channels,))
        layers += [Layer("convolution", shapes, f"convolution {i}", reads, stride), activation]
        sides = (output_size(side, size, stride, architecture.padding) for side in features[:2])
        features, reads = (*sides, convolution.channels), "channels"
    layers.append(Layer("flatten"))
    if architecture.block == "residual":
        width = architecture.hidden[0]
        layers.append(_dense(features, width, "hidden 0", reads))
        layers += [_residual_block(i, width) for i in range(len(architecture.hidden))]
        layers.append(_layer_norm(width, "last norm"))
        features, reads = (width,), "stream"
    else:
        for i, width in enumerate(architecture.hidden):
            layers.append(_dense(features, width, f"hidden {i}", reads))
            if architecture.normalization == "layer":
                layers.append(_layer_norm(width, f"norm {i}"))
            layers.append(activation)
            features, reads = (width,), "units"
    return *layers, *_head(features, outputs, reads, architecture.support)


def _head(features: Shape, outputs: int, reads: str, support: Support | None) -> tuple[Layer, ...]:
    if support is None:
        return (_dense(features, outputs, "output", reads),)
    # Named by its support: the weights of a bin mean nothing to a bin of other values, or to a scalar output.
    part = f"output over {support.bins} bins from {support.low} to {support.high}"
    logits = _dense(features, outputs * support.bins, part, reads)
    return logits, Layer("expectation", support=support)


def _dense(features: Shape, units: int, part: str, reads: str) -> Layer:
    return Layer("dense", ((*features, units), (units,)), part, reads)


def _layer_norm(units: int, part: str) -> Layer:
    return Layer("layer_norm", ((units,), (units,)), part)


def _residual_block(position: int, width: int) -> Layer:
    inside = EXPANSION * width
    inner = (
        _layer_norm(width, f"block {position} norm"),
        _dense((width,), inside, f"block {position} in", "stream"),
        Layer("activation"),
        _dense((inside,), width, f"block {position} out", "inside"),
    )
    return Layer("residual", inner=inner)


def with_arrays(layers: Sequence[Layer]) -> Iterator[Layer]:
    """The layers that own arrays, in the order of the flat vector."""
    for layer in layers:
        if layer.shapes:
            yield layer
        yield from with_arrays(layer.inner)


def layer_norm(x: Array, scale: Array, bias: Array) -> Array:
    """Normalize every sample to mean 0 and variance 1 over its units, then scale and shift. [B, units]"""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = jnp.square(centred).mean(axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + NORM_EPSILON) * scale[None, :] + bias[None, :]
