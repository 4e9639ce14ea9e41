"""What learning needs memory for besides the replay buffer, worked out from shapes before anything is allocated.

These are lower bounds, so that nothing is refused that would work: what a run takes at its start, without the
compiler's own needs.
"""

from __future__ import annotations

import math

from adaqn.ensemble import Ensemble
from adaqn.networks.network import Network
from adaqn.replay.memory import Need

_FLOAT = 4
# Online and target parameters, and two moments of the gradient as most optimizers keep them.
_COPIES = 4
# Of every step of a return: its index, its reward and whether the episode ended there.
_BYTES_PER_STEP = 8 + _FLOAT + 1


def networks_need(ensemble: Ensemble) -> Need:
    """The parameters of all members, with targets and optimizers."""
    network = max(ensemble.networks, key=lambda network: network.size)
    inputs, units = max(_dense_or_convolved(network), key=math.prod)
    members = "one member" if ensemble.size == 1 else f"{ensemble.size} members"
    return Need(
        f"the parameters of {members} (a layer has {inputs} x {units} weights)",
        _COPIES * _FLOAT * ensemble.parameter_count,
        _remedy(network, inputs, units) + (" or fewer members" if ensemble.size > 1 else ""),
    )


def batch_need(networks: tuple[Network, ...], batch_size: int, n_steps: int) -> Need:
    """The transitions of one update, and what the layers of one network make of them."""
    shape = networks[0].observation_shape
    observations = 2 * math.prod(shape) * (1 if len(shape) == 3 else _FLOAT)  # images may be bytes
    units = max(sum(math.prod(features) for features in _features(network)) for network in networks)
    returns = n_steps * _BYTES_PER_STEP
    return Need(
        f"a batch of {batch_size} transitions" + (f" over {n_steps} steps" if n_steps > 1 else ""),
        batch_size * (observations + returns + _FLOAT * units),
        f"lower {'n_steps' if returns > observations + _FLOAT * units else 'batch_size'}",
    )


def _features(network: Network) -> list[tuple[int, ...]]:
    """The shapes of what every layer puts out for one observation."""
    dense = [(units,) for units in (*network.architecture.hidden, network.outputs)]
    return [*network.images[1:], *dense]


def _dense_or_convolved(network: Network) -> list[tuple[int, int]]:
    """The weights of every layer: how many each unit (or channel) has, and how many of those there are."""
    return [(math.prod(inputs), units) for *inputs, units in network.shapes[::2]]


def _remedy(network: Network, inputs: int, units: int) -> str:
    """What to change if the layer with these weights, the largest, is too large."""
    layers = _dense_or_convolved(network)
    place, first_dense = layers.index((inputs, units)), len(network.architecture.convolutions)
    if place < first_dense or (place == first_dense > 0 and inputs > units):
        return "take smaller convolutions"
    if place == len(layers) - 1 and units > inputs:
        return f"take an environment with fewer actions than {units}"
    if place == 0 and inputs > units:
        return f"take smaller observations than {network.observation_shape}, smaller hidden layers"
    return "take smaller hidden layers"
