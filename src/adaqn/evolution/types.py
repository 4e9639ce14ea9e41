"""What the parts of a generation hand to each other, and what plug-ins must look like.

All of it is pure: what is random comes from the generator that is given, and nothing given is changed.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from adaqn.errors import AllMembersDiverged
from adaqn.hyperparameters import Hyperparameters
from adaqn.space import SearchSpace


class Origin(NamedTuple):
    """Where the next member of a slot comes from. A member that is not mutated stays in its own slot."""

    parent: int
    mutate: bool


class Descendant(NamedTuple):
    """The next member of a slot, and where it comes from."""

    hyperparameters: Hyperparameters
    parent: int | None  # slot of the member that it descends from, or is; None for a member without parents
    mutation: str | None  # None: not mutated, so it is the parent itself or has none

    @property
    def is_new(self) -> bool:
        """Whether it takes the place of another member."""
        return self.mutation is not None


class ExploitRule(Protocol):
    """Says from the fitness [K] of the members who is in each slot of the next generation. [K]

    Lower is better. A member whose fitness is not finite has diverged: it does not survive, nor has children.
    """

    def __call__(self, rng: np.random.Generator, fitness: np.ndarray) -> tuple[Origin, ...]: ...


class Mutation(Protocol):
    """A module with one way of changing a member; the result is in the space."""

    def applies(self, space: SearchSpace, member: Hyperparameters) -> bool:
        """Whether the space leaves this mutation anything to change in the member."""
        ...

    def mutate(self, rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
        """The changed member. It may be the same one, where a number would leave the space and is clipped."""
        ...


def comparable(fitness: np.ndarray) -> np.ndarray:
    """The fitness with inf for all who diverged; there must be one who has not. [K]"""
    fitness = np.asarray(fitness, np.float64)
    if fitness.ndim != 1 or fitness.size == 0:
        raise ValueError(f"fitness must be one number for each member, but it has the shape {fitness.shape}")
    alive = np.isfinite(fitness)
    if not alive.any():
        raise AllMembersDiverged(f"all {fitness.size} members have diverged, so none can have children")
    return np.where(alive, fitness, np.inf)
