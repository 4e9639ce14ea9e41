"""Floating-point operations of one step, counted from layer sizes.

A layer is a matrix product, and a product of [a, b] with [b, c] is 2abc operations. Learning takes three products per
layer: outputs, gradients of its weights, gradients of its inputs; the first layer needs no gradients of its inputs.
Elementwise work (activations, optimizers, Polyak averages) is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from benchmarks.contenders import Convolutions, Layers


class Layer(NamedTuple):
    """A layer as a matrix product, for one sample."""

    positions: int  # number of times the same weights are applied: 1 except in convolutions
    inputs: int
    outputs: int

    @property
    def flops(self) -> int:
        """Operations of its forward pass."""
        return 2 * self.positions * self.inputs * self.outputs


Network = Sequence[Layer]


def perceptron(inputs: int, hidden: Layers, outputs: int) -> Network:
    """Dense layers."""
    widths = (inputs, *hidden, outputs)
    return [Layer(1, before, after) for before, after in pairwise(widths)]


def convolutional(side: int, channels: int, convolutions: Convolutions, hidden: Layers, outputs: int) -> Network:
    """Convolutions over a square image without padding, then dense layers."""
    layers: list[Layer] = []
    for units, kernel, stride in convolutions:
        side = (side - kernel) // stride + 1
        layers.append(Layer(side * side, kernel * kernel * channels, units))
        channels = units
    return [*layers, *perceptron(side * side * channels, hidden, outputs)]


def values(network: Network) -> int:
    """Operations of the forward pass for one sample."""
    return sum(layer.flops for layer in network)


def learning(network: Network) -> int:
    """Operations of the forward pass and the gradients of all weights for one sample."""
    return 3 * values(network) - network[0].flops


def dqn_update(members: Sequence[Network], batch: int) -> float:
    """Operations of an update of all members; the target member is counted as their average."""
    target = _mean([values(member) for member in members])
    return batch * (target + sum(learning(member) for member in members))


def metagradient_update(network: Network, batch: int) -> float:
    """Operations of an update of meta-gradient DQN, which takes two batches.

    The target network is evaluated on both, and the network learns from each once. The derivative of the inner update
    with respect to the discount is another backward pass through it: the values do not depend on the discount, and the
    gradient is linear in the errors. The embedding only shifts a bias, once for a batch.
    """
    backward = learning(network) - values(network)
    return batch * (2 * values(network) + 2 * learning(network) + backward)


def sac_update(critics: Sequence[Network], actor: Network, batch: int) -> float:
    """Operations of an update of all critics and the actor.

    The target evaluates the actor and a pair of critics; the actor's update evaluates a pair with gradients of its
    inputs. A pair is counted as twice the average.
    """
    pair = 2 * _mean([values(critic) for critic in critics])
    target = values(actor) + pair
    return batch * (target + sum(learning(critic) for critic in critics) + learning(actor) + 2 * pair)


def _mean(counts: Sequence[int]) -> float:
    return sum(counts) / len(counts)
