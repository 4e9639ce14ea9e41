"""The size of the matrix products in an update, which decides whether more than one thread is worthwhile."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adaqn.agents.execution.shares import lanes_for
from adaqn.agents.population import Population
from adaqn.agents.registry import Traits
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.networks.network import Network
from adaqn.networks.xla.threads import Threads

# All cores are used from this number of multiplications in a product on: between the 4.2 million of 256 x 256 units and
# a batch of 64, where two threads are slower than one (645 steps/s of AdaDQN against 785), and the 16.8 million of a
# batch of 256, where they are faster (345 against 266).
WORTH_SHARING = 8_000_000

# From about this number on, XLA leaves a product to a thread of its own, as it does with convolutions and all that
# follows them: lanes need as many of those threads. Smaller products are computed by the lane that calls the program.
LEFT_TO_XLA = 40_000_000


def worth_sharing(population: Population, settings: Any, observation_shape: tuple[int, ...]) -> bool:
    """Whether the matrix products of an update are large enough to be divided among threads."""
    return largest_product(population, settings, observation_shape) >= WORTH_SHARING


def threads_for(
    traits: Traits, population: Population, settings: Any, observation_shape: tuple[int, ...], number: int
) -> Threads:
    """How this number of threads is used: as lanes if the algorithm divides its updates, otherwise by XLA."""
    lanes = _lanes(traits, population, settings, number)
    if lanes == 1:
        return Threads(number)
    large = largest_product(population, settings, observation_shape) >= LEFT_TO_XLA
    return Threads(lanes if large or len(observation_shape) == 3 else 1, lanes)


def can_have(traits: Traits, population: Population, settings: Any, lanes: int) -> bool:
    """Whether updates can be divided among exactly this number of lanes."""
    return _lanes(traits, population, settings, lanes) == lanes


def limit_of_lanes(traits: Traits, population: Population, settings: Any) -> str:
    """Why an update is not divided among more lanes, for a user."""
    if _divides_members(traits, population):
        return f"there are {len(population.members)} members"
    return f"a batch of {settings.sample_size} is divided into equal shares of at least {traits.rows_per_lane} rows"


def _lanes(traits: Traits, population: Population, settings: Any, number: int) -> int:
    if traits.rows_per_lane == 0:
        return 1
    if _divides_members(traits, population):
        return min(number, len(population.members))
    return lanes_for(settings.sample_size, number, traits.rows_per_lane)


def _divides_members(traits: Traits, population: Population) -> bool:
    replaceable = population.space is not None or bool(population.schedule)
    return traits.members_in_lanes and replaceable and bool(population.members)


def largest_product(population: Population, settings: Any, observation_shape: tuple[int, ...]) -> int:
    """Multiplications in the largest matrix product of an update: one layer applied to a whole batch."""
    networks = list(population.members)
    if not networks and population.space is not None:
        # A search has not sampled any members yet: the middle of its space represents them.
        networks = [population.space.from_unit(np.full(population.space.dimensions, 0.5))]
    if (actor := getattr(settings, "actor", None)) is not None:
        networks.append(actor)
    return settings.batch_size * max((_largest_layer(network, observation_shape) for network in networks), default=0)


def _largest_layer(member: Hyperparameters, observation_shape: tuple[int, ...]) -> int:
    """Multiplications of the largest layer for a single observation."""
    shape = observation_shape if member.convolutions else (math.prod(observation_shape),)
    network = Network(member.architecture, shape, outputs=1)
    convolutions = len(member.convolutions)
    # A convolution's kernel is applied at every pixel of its output, the weights of a dense layer once.
    places = [math.prod(image[:2]) for image in network.images[1:]]
    kernels = [math.prod(shape) for shape in network.shapes[::2]]
    return max(size * (places[i] if i < convolutions else 1) for i, size in enumerate(kernels))
