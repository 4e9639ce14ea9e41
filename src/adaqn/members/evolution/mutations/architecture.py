"""Mutation of the architecture by one step: one layer more or less, or larger or smaller layers.

The paper's table has one number of channels, kernel, stride and neurons for all layers of a network, so a step in one
of these changes all layers together, and a new layer is a copy of the last one. The first layer of a network without
layers is drawn uniformly from the space.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from adaqn.members.hyperparameters import Convolution, Hyperparameters
from adaqn.members.space import ConvolutionLayers, IntegerBounds, SearchSpace

CHANNELS = 4  # step sizes; those of kernel, stride and layers are 1
NEURONS = 16


class Change(NamedTuple):
    """One way of changing the architecture."""

    weight: float  # its probability if all changes apply
    applies: Callable[[SearchSpace, Hyperparameters], bool]
    make: Callable[[np.random.Generator, SearchSpace, Hyperparameters, int], Hyperparameters]  # last argument: -1 or 1


def applies(space: SearchSpace, member: Hyperparameters) -> bool:
    """Whether any part of the architecture may change."""
    return any(change.applies(space, member) for change in CHANGES.values())


def mutate(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
    """The member after one step up or down, both equally likely, clipped to the space.

    If some changes do not apply, the probabilities of the others are renormalized. Without convolutions they are 0.2
    for the number of hidden layers and 0.8 for their width.
    """
    changes = [change for change in CHANGES.values() if change.applies(space, member)]
    weights = np.array([change.weight for change in changes])
    change = changes[rng.choice(len(changes), p=weights / weights.sum())]
    direction = 1 if rng.integers(2) else -1
    return space.clip(change.make(rng, space, member, direction))


def _hidden_layer(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters, step: int) -> Hyperparameters:
    hidden = member.hidden
    if step < 0:
        return member.replace(hidden=hidden[: max(len(hidden) - 1, space.hidden.layers[0])])
    return member.replace(hidden=(*hidden, hidden[-1] if hidden else _draw(rng, space.hidden.neurons)))


def _neurons(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters, step: int) -> Hyperparameters:
    del rng, space
    return member.replace(hidden=tuple(max(1, width + step * NEURONS) for width in member.hidden))


def _convolution(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters, step: int) -> Hyperparameters:
    layers, of_layers = member.convolutions, _of_convolutions(space)
    if step < 0:
        return member.replace(convolutions=layers[: max(len(layers) - 1, of_layers.layers[0])])
    if not layers:
        shape = (of_layers.channels, of_layers.kernel, of_layers.stride)
        return member.replace(convolutions=(Convolution(*(_draw(rng, bounds) for bounds in shape)),))
    return member.replace(convolutions=(*layers, layers[-1]))


def _every_convolution(field: str, size: int) -> Change:
    """A change of one field of all convolutions, in steps of this size."""

    def may_change(space: SearchSpace, member: Hyperparameters) -> bool:
        of_layers = space.convolutions
        return of_layers is not None and bool(member.convolutions) and _varies(getattr(of_layers, field))

    def make(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters, step: int) -> Hyperparameters:
        del rng, space
        moved = ({field: max(1, getattr(layer, field) + step * size)} for layer in member.convolutions)
        layers = zip(member.convolutions, moved, strict=True)
        return member.replace(convolutions=tuple(dataclasses.replace(layer, **change) for layer, change in layers))

    return Change(0.4 / 3, may_change, make)


def _of_convolutions(space: SearchSpace) -> ConvolutionLayers:
    assert space.convolutions is not None
    return space.convolutions


def _varies(bounds: IntegerBounds) -> bool:
    return bounds[0] < bounds[1]


def _draw(rng: np.random.Generator, bounds: IntegerBounds) -> int:
    return int(rng.integers(bounds[0], bounds[1], endpoint=True))


CHANGES = {
    "convolution": Change(
        0.1, lambda space, _: space.convolutions is not None and _varies(space.convolutions.layers), _convolution
    ),
    "channels": _every_convolution("channels", CHANNELS),
    "kernel": _every_convolution("kernel", 1),
    "stride": _every_convolution("stride", 1),
    "hidden": Change(0.1, lambda space, _: _varies(space.hidden.layers), _hidden_layer),
    "neurons": Change(0.4, lambda space, member: bool(member.hidden) and _varies(space.hidden.neurons), _neurons),
}
