"""A Q-network that is conditioned on a discount through an embedding of it."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from jax import Array

from adaqn.networks.network import Network, Shape

EMBEDDING = 16  # dimensions, as in the original


class ConditionedNetwork(Network):
    """A network whose first dense layer also gets e(γ) = γ w, a learned embedding w of the discount. [16]

    The embedding is concatenated to the input of that layer: to the observation itself, as in the original, or to the
    features of the convolutions, because a vector cannot be concatenated to an image. For a given discount it only
    shifts the layer's bias, so the network conditioned on this discount is an ordinary one (`fold`).

    Its arrays are those of the ordinary network, then w [1, 16], then the layer's kernel for the embedding. [16, units]
    """

    @cached_property
    def plain(self) -> Network:
        """The network without the embedding."""
        return Network(self.architecture, self.observation_shape, self.outputs, self.scale)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of all arrays, in the order of the flat vector."""
        return (*self.plain.shapes, (1, EMBEDDING), (EMBEDDING, self.plain.shapes[self._first_dense][1]))

    @property
    def _first_dense(self) -> int:
        return 2 * len(self.architecture.convolutions)

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """Initial parameters; both kernels of the first dense layer are scaled as the one that they are together."""
        arrays, start = [], 0
        flat = super().init(rng)
        for shape in self.shapes:
            arrays.append(flat[start : start + math.prod(shape)].reshape(shape))
            start += math.prod(shape)
        features, units = self.shapes[self._first_dense]
        by_average = bool(self.architecture.convolutions)
        for place, inputs in ((self._first_dense, features), (-1, EMBEDDING)):
            own, both = (n + units if by_average else n for n in (inputs, features + EMBEDDING))
            arrays[place] *= np.float32(math.sqrt(own / both))
        return np.concatenate([array.ravel() for array in arrays])

    def fold(self, arrays: list[Array], discount: Array) -> list[Array]:
        """The arrays of the ordinary network that this one is when it is conditioned on a discount []."""
        *ordinary, embedding, kernel = arrays
        ordinary[self._first_dense + 1] = ordinary[self._first_dense + 1] + (discount * embedding[0]) @ kernel
        return ordinary

    def values(self, arrays: list[Array], observation: Array, discount: Array) -> Array:
        """The Q-values, conditioned on a discount []. [B, ...] -> [B, A]"""
        return self.plain.apply(self.fold(arrays, discount), observation)
