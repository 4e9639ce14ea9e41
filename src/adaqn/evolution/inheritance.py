"""Inheritance of weights by a child with another architecture: it keeps all that the two networks have in common.

Convolutions are matched with convolutions and hidden layers with hidden layers, each counted from the input, and
the output layer with the output layer. A kernel is inherited only if both read the same kind of input: the
observation, the channels of a convolution or the units of a hidden layer. Weights on hidden units are meaningless to
an output layer that reads the observation instead, while an output layer that now reads another hidden layer keeps
them. A bias has no input, and is always inherited.

The overlap of two kernels of different sizes is at the upper left: the first rows, columns, channels and units. The
first dense kernel after the convolutions is sliced as [height, width, channel, units], because its flattened rows
shift when the size of the last image changes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from adaqn.networks.network import Network


class Place(NamedTuple):
    """The position of a parameter array in a network."""

    layer: str  # convolution, hidden or output
    position: int  # index among the layers of its kind, from the input
    reads: str  # input of a kernel: observation, channels or units; nothing for a bias


def inherit(old: Network, parameters: np.ndarray, new: Network, fresh: np.ndarray) -> np.ndarray:
    """The parent's parameters [P_old] where the networks overlap, fresh ones [P_new] elsewhere. [P_new]"""
    child = np.array(fresh)
    parent_arrays = _arrays(old, np.asarray(parameters))
    for place, array in _arrays(new, child).items():
        parent = parent_arrays.get(place)
        if parent is not None:
            overlap = tuple(slice(min(sides)) for sides in zip(parent.shape, array.shape, strict=True))
            array[overlap] = parent[overlap]
    return child


def _arrays(network: Network, flat: np.ndarray) -> dict[Place, np.ndarray]:
    """Views of the flat vector, by place."""
    if flat.shape != (network.size,):
        raise ValueError(f"the network has {network.size} parameters, but got an array of shape {flat.shape}")
    arrays: dict[Place, np.ndarray] = {}
    start = 0
    for place, shape in zip(_places(network), network.structured_shapes, strict=True):
        stop = start + math.prod(shape)
        arrays[place] = flat[start:stop].reshape(shape)
        start = stop
    return arrays


def _places(network: Network) -> list[Place]:
    """The place of each array in the order of the flat vector."""
    layers = (
        ("convolution", len(network.architecture.convolutions), "channels"),
        ("hidden", len(network.architecture.hidden), "units"),
        ("output", 1, "values"),
    )
    places: list[Place] = []
    reads = "observation"
    for layer, count, gives in layers:
        for position in range(count):
            places += [Place(layer, position, reads), Place(layer, position, "nothing")]
            reads = gives
    return places
