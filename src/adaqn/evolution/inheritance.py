"""What a child with another architecture keeps of its parent's weights: all that the two have in common.

Convolutions are matched with convolutions and hidden layers with hidden layers, each counted from the front, and
the output layer with the output layer. Two kernels have something in common only if they read the same kind of input:
the observation, the channels of a convolution or the units of a hidden layer. The weights of hidden units mean nothing
to an output layer that reads the observation instead, while one that reads the units of another hidden layer keeps
them, because they were there before. A bias reads nothing, and is kept in any case.

Of two kernels of different sizes the overlap lies at the upper left: the first rows, columns, channels and units. The
kernel behind the flattening is cut as [height, width, channel, units], because its flat rows are shifted as soon as
the image before it changes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from adaqn.networks.network import Network


class Place(NamedTuple):
    """Which array of a network."""

    layer: str  # convolution, hidden or output
    position: int  # among the layers of its kind, from the front
    reads: str  # what a kernel is multiplied with: observation, channels or units; a bias: nothing


def inherit(old: Network, parameters: np.ndarray, new: Network, fresh: np.ndarray) -> np.ndarray:
    """The parent's parameters [P_old] wherever the networks overlap, fresh ones [P_new] elsewhere. [P_new]"""
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
