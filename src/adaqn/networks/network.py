"""The activation functions of the paper's search space, by their names in `jax.nn`.

Activations that normalize (such as softmax) do so over the last axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import ACTIVATIONS, Architecture
from adaqn.networks.categorical import expectation
from adaqn.networks.convolution import convolve, output_size, product
from adaqn.networks.layers import Layer, Shape, layer_norm, layers_of, with_arrays

ACTIVATION_FUNCTIONS: dict[str, Callable[[Array], Array]] = {name: getattr(jax.nn, name) for name in ACTIVATIONS}


@dataclass(frozen=True)
class Network:
    """Optional convolutions, followed by a multi-layer perceptron with `outputs` outputs."""

    architecture: Architecture
    observation_shape: Shape  # (height, width, channels) if there are convolutions
    outputs: int
    scale: float = 1.0  # factor applied to observations: 1 / 255 for byte images

    def __post_init__(self) -> None:
        if self.architecture.convolutions and len(self.observation_shape) != 3:
            raise UserError(
                "convolutions need image observations of shape (height, width, channels), "
                f"but these have the shape {self.observation_shape}"
            )
        for layer, (height, width, _) in zip(self.architecture.convolutions, self.images, strict=False):
            if self.architecture.padding == "valid" and layer.kernel > min(height, width):
                raise UserError(
                    f"a convolution with padding 'valid' needs an image of at least its kernel, {layer.kernel} x "
                    f"{layer.kernel}, but its input is {height} x {width}"
                )

    @cached_property
    def images(self) -> tuple[Shape, ...]:
        """The input shape of every convolution, then the shape that is flattened for the perceptron."""
        shapes, padding = [self.observation_shape], self.architecture.padding
        for layer in self.architecture.convolutions:
            sides = (output_size(side, layer.kernel, layer.stride, padding) for side in shapes[-1][:2])
            shapes.append((*sides, layer.channels))
        return tuple(shapes)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The layers in the order in which they are applied."""
        return layers_of(self.architecture, self.observation_shape, self.outputs)

    @cached_property
    def structured_shapes(self) -> tuple[Shape, ...]:
        """Like `shapes`, but with the first dense kernel as (height, width, channels, units)."""
        return tuple(shape for layer in with_arrays(self.layers) for shape in layer.shapes)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of every layer's arrays, in the order of the flat vector: kernel or scale, then bias."""
        return tuple(shape for layer in with_arrays(self.layers) for shape in layer.flat_shapes)

    @cached_property
    def size(self) -> int:
        """The number of parameters P."""
        return sum(math.prod(shape) for shape in self.shapes)

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """Initial parameters as in the authors' code, with zero biases and unit scales. [P]

        A perceptron uses LeCun normal kernels. With convolutions, all kernels are scaled by fan_avg instead of fan_in.
        """
        average = bool(self.architecture.convolutions)
        scales = {2 * i for i, layer in enumerate(with_arrays(self.layers)) if layer.kind == "layer_norm"}
        parts = [
            _kernel(rng, shape, average) if len(shape) > 1 else np.full(shape, float(i in scales), np.float32)
            for i, shape in enumerate(self.shapes)
        ]
        return np.concatenate([part.ravel() for part in parts])

    def unravel(self, flat: Array) -> list[Array]:
        """Split the flat vector into the arrays of the layers."""
        arrays, start = [], 0
        for shape in self.shapes:
            stop = start + math.prod(shape)
            arrays.append(flat[start:stop].reshape(shape))
            start = stop
        return arrays

    def ravel(self, arrays: list[Array]) -> Array:
        """The inverse of `unravel`."""
        return jnp.concatenate([array.ravel() for array in arrays])

    def apply(self, arrays: list[Array], observation: Array) -> Array:
        """The outputs for a batch of observations. [B, ...] -> [B, outputs]"""
        return self._applied(self.layers, iter(arrays), self._scaled(observation))

    def logits(self, arrays: list[Array], observation: Array) -> Array:
        """The logits of a categorical head; `apply` returns their expectations. [B, ...] -> [B, outputs, bins]"""
        return self._by_output(self._applied(self.layers[:-1], iter(arrays), self._scaled(observation)))

    def _scaled(self, observation: Array) -> Array:
        x = observation.astype(jnp.float32)
        return x * self.scale if self.scale != 1.0 else x

    def _by_output(self, logits: Array) -> Array:
        return logits.reshape(logits.shape[0], self.outputs, -1)

    def _applied(self, layers: Sequence[Layer], arrays: Iterator[Array], x: Array) -> Array:
        """Apply layers, whose arrays come next from the iterator."""
        for layer in layers:
            match layer.kind:
                case "activation":
                    x = ACTIVATION_FUNCTIONS[self.architecture.activation](x)
                case "flatten":
                    x = x.reshape(x.shape[0], -1)
                case "convolution":
                    kernel, bias = next(arrays), next(arrays)
                    x = convolve(x, kernel, layer.stride, self.architecture.padding) + bias[None, None, None, :]
                case "dense":
                    kernel, bias = next(arrays), next(arrays)
                    x = product(x, kernel) + bias[None, :]
                case "layer_norm":
                    x = layer_norm(x, next(arrays), next(arrays))
                case "residual":
                    x = x + self._applied(layer.inner, arrays, x)
                case "expectation":
                    assert layer.support is not None, "an expectation has a support"
                    x = expectation(layer.support, self._by_output(x))
        return x


def _kernel(rng: np.random.Generator, shape: Shape, average: bool) -> np.ndarray:
    """A normal distribution truncated at two standard deviations, with variance 1 / fan after truncation.

    The fan is fan_in, or fan_avg if `average`.
    """
    values = rng.standard_normal(shape, np.float32)
    while (outside := np.abs(values) > 2.0).any():
        values[outside] = rng.standard_normal(int(outside.sum()), np.float32)
    *window, inputs, units = shape
    fan = math.prod(window) * ((inputs + units) / 2 if average else inputs)
    deviation_of_cut_normal = 0.87962566103423978
    return values * np.float32(math.sqrt(1.0 / fan) / deviation_of_cut_normal)
