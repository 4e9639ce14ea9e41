"""Data types of a generation, and the interfaces of its plug-ins.

All functions are pure: randomness comes from the given generator, and arguments are not modified.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from adaqn.base.errors import AllMembersDiverged
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace


class Origin(NamedTuple):
    """The origin of a slot's next member. A member that is not mutated stays in its own slot."""

    parent: int
    mutate: bool


class Descendant(NamedTuple):
    """The next member of a slot, and its origin."""

    hyperparameters: Hyperparameters
    parent: int | None  # slot of the parent, its own slot for a survivor; None for a member without parents
    mutation: str | None  # None for a survivor and for a member without parents

    @property
    def is_new(self) -> bool:
        """Whether it replaces another member."""
        return self.mutation is not None


class ExploitRule(Protocol):
    """Chooses the origin of every slot of the next generation by the fitness [K] of the members. [K]

    Lower is better. A member with non-finite fitness has diverged: it neither survives nor has children.
    """

    def __call__(self, rng: np.random.Generator, fitness: np.ndarray) -> tuple[Origin, ...]: ...


class Mutation(Protocol):
    """A module with one mutation; the mutated member is in the space."""

    def applies(self, space: SearchSpace, member: Hyperparameters) -> bool:
        """Whether this mutation can change the member within the space."""
        ...

    def mutate(self, rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
        """The mutated member; it is unchanged if clipping to the space reverts the change."""
        ...


def comparable(fitness: np.ndarray) -> np.ndarray:
    """The fitness with inf for diverged members; raises if all have diverged. [K]"""
    fitness = np.asarray(fitness, np.float64)
    if fitness.ndim != 1 or fitness.size == 0:
        raise ValueError(f"fitness must be one number for each member, but it has the shape {fitness.shape}")
    alive = np.isfinite(fitness)
    if not alive.any():
        raise AllMembersDiverged(f"all {fitness.size} members have diverged, so none can have children")
    return np.where(alive, fitness, np.inf)
