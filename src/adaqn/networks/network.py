"""One member's network as plain functions of a flat parameter vector.

Parameters are one vector [P] per member: a state of few arrays is dispatched faster than one of many, and
element-wise optimizers make one pass over it. Initial values are drawn with NumPy, because compiling a small
program for every array shape takes longer than compiling the step that trains them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.errors import UserError
from adaqn.hyperparameters import Architecture
from adaqn.networks.activations import ACTIVATION_FUNCTIONS


@dataclass(frozen=True)
class Network:
    """A multi-layer perceptron from observations of one shape to `outputs` values."""

    architecture: Architecture
    observation_shape: tuple[int, ...]
    outputs: int

    def __post_init__(self) -> None:
        if self.architecture.convolutions:
            raise UserError("convolutions are for image observations, which are not supported yet")

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """The number of units of every layer, input and output included."""
        return (math.prod(self.observation_shape), *self.architecture.hidden, self.outputs)

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of kernel and bias of every layer, in the order of the flat vector."""
        pairs = zip(self.widths, self.widths[1:], strict=False)
        return tuple(shape for units in pairs for shape in (units, units[1:]))

    @cached_property
    def size(self) -> int:
        """The number of parameters P."""
        return sum(math.prod(shape) for shape in self.shapes)

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """Initial parameters: LeCun normal kernels, zero biases. [P]"""
        parts = [_lecun_normal(rng, shape) if len(shape) > 1 else np.zeros(shape, np.float32) for shape in self.shapes]
        return np.concatenate([part.ravel() for part in parts])

    def unravel(self, flat: Array) -> list[Array]:
        """The arrays of the layers, cut out of the flat vector."""
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
        activation = ACTIVATION_FUNCTIONS[self.architecture.activation]
        x = observation.reshape(observation.shape[0], -1).astype(jnp.float32)
        for layer in range(0, len(arrays), 2):
            if layer:
                x = activation(x)
            x = x @ arrays[layer] + arrays[layer + 1][None, :]
        return x


def _lecun_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A normal distribution cut at two deviations, with variance 1 / fan-in after the cut."""
    values = rng.standard_normal(shape, np.float32)
    while (outside := np.abs(values) > 2.0).any():
        values[outside] = rng.standard_normal(int(outside.sum()), np.float32)
    deviation_of_cut_normal = 0.87962566103423978
    return values * np.float32(math.sqrt(1.0 / shape[0]) / deviation_of_cut_normal)
