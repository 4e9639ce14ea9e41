"""Memory that learning needs besides the replay buffer, computed from shapes before anything is allocated.

These are lower bounds, so that no run is rejected that would work: memory at the start of a run, without that of the
compiler.
"""

from __future__ import annotations

import math

from adaqn.networks.ensemble import Ensemble
from adaqn.networks.layers import with_arrays
from adaqn.networks.network import Network
from adaqn.replay.memory import Need

_FLOAT = 4
# Online and target parameters, and two moments of the gradient, as in most optimizers.
_COPIES = 4
# Per step of an n-step return: its index, its reward, and whether the episode ended there.
_BYTES_PER_STEP = 8 + _FLOAT + 1


def networks_need(ensemble: Ensemble) -> Need:
    """Memory for the parameters of all members, with targets and optimizer states."""
    network = max(ensemble.networks, key=lambda network: network.size)
    inputs, units = max(_dense_or_convolved(network), key=math.prod)
    members = "one member" if ensemble.size == 1 else f"{ensemble.size} members"
    return Need(
        f"the parameters of {members} (a layer has {inputs} x {units} weights)",
        _COPIES * _FLOAT * ensemble.parameter_count,
        _remedy(network, inputs, units) + (" or fewer members" if ensemble.size > 1 else ""),
    )


def batch_need(networks: tuple[Network, ...], batch_size: int, n_steps: int) -> Need:
    """Memory for the transitions of one update, and for the activations of one network."""
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
    """The output shape of every layer for one observation."""
    dense = [layer.shapes[0][-1:] for layer in with_arrays(network.layers) if layer.kind == "dense"]
    return [*network.images[1:], *dense]


def _dense_or_convolved(network: Network) -> list[tuple[int, int]]:
    """The weights of every layer as (inputs per unit or channel, units or channels)."""
    return [(math.prod(inputs), units) for *inputs, units in network.shapes[::2]]


def _remedy(network: Network, inputs: int, units: int) -> str:
    """The advice when the largest layer, with these weights, is too large."""
    layers = _dense_or_convolved(network)
    place, first_dense = layers.index((inputs, units)), len(network.architecture.convolutions)
    if place < first_dense or (place == first_dense > 0 and inputs > units):
        return "take smaller convolutions"
    if place == len(layers) - 1 and network.architecture.support is not None and units > inputs:
        return f"take fewer bins than {network.architecture.support.bins}"
    if place == len(layers) - 1 and units > inputs:
        return f"take an environment with fewer actions than {units}"
    if place == 0 and inputs > units:
        return f"take smaller observations than {network.observation_shape}, smaller hidden layers"
    return "take smaller hidden layers"
