"""Inheritance of weights by a child with another architecture: it keeps all that the two networks have in common.

Convolutions are matched with convolutions and hidden layers with hidden layers, each counted from the input, and
the output layer with the output layer. A kernel is inherited only if both read the same kind of input: the
observation, the channels of a convolution or the units of a hidden layer. Weights on hidden units are meaningless to
an output layer that reads the observation instead, while an output layer that now reads another hidden layer keeps
them. A bias has no input, and is always inherited. Between plain layers and residual blocks, the first hidden layer
is inherited, which is the projection of the blocks. Layer norms are matched with layer norms. The output layer of a
categorical head is inherited only by a head with the same bins.

The overlap of two kernels of different sizes is at the upper left: the first rows, columns, channels and units. The
first dense kernel after the convolutions is sliced as [height, width, channel, units], because its flattened rows
shift when the size of the last image changes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from adaqn.networks.layers import with_arrays
from adaqn.networks.network import Network


class Place(NamedTuple):
    """The position of a parameter array in a network."""

    part: str  # layer that it belongs to
    array: int  # 0 for a kernel or a scale, 1 for a bias
    reads: str  # kind of input of a kernel; nothing for other arrays


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
    for layer in with_arrays(network.layers):
        for index, shape in enumerate(layer.shapes):
            stop = start + math.prod(shape)
            place = Place(layer.part, index, layer.reads if index == 0 else "")
            arrays[place] = flat[start:stop].reshape(shape)
            start = stop
    return arrays
