"""How members are replaced by others during a run: by generations in a space, or by a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from adaqn.agents.core.population import Population, Scheduled
from adaqn.agents.core.settings import EvolutionSettings
from adaqn.ensemble import Ensemble, GroupState, fresh_members
from adaqn.evolution import Descendant, next_generation
from adaqn.evolution.inheritance import inherit
from adaqn.hyperparameters import Hyperparameters
from adaqn.space import SearchSpace


class Evolution(Protocol):
    """Decides when members are replaced, and by whom."""

    def due(self, step: int, members: Sequence[Hyperparameters]) -> bool:
        """Whether members are replaced at this step, if these are the ones there."""
        ...

    def children(
        self, rng: np.random.Generator, members: Sequence[Hyperparameters], fitness: np.ndarray, step: int
    ) -> tuple[Descendant, ...]:
        """The next member of every slot, from the fitness of those there are (lower is better). [K]"""
        ...


@dataclass(frozen=True)
class Generations:
    """Exploit and explore in a space, every so many steps."""

    space: SearchSpace
    settings: EvolutionSettings

    def due(self, step: int, members: Sequence[Hyperparameters]) -> bool:
        """At every multiple of the interval."""
        del members
        return step % self.settings.generation_interval == 0

    def children(
        self, rng: np.random.Generator, members: Sequence[Hyperparameters], fitness: np.ndarray, step: int
    ) -> tuple[Descendant, ...]:
        """Survivors in their slots, and mutated copies of them in the others."""
        del step
        return next_generation(rng, self.space, members, fitness, self.settings.exploit, self.settings.mutations)


@dataclass(frozen=True)
class Replacements:
    """One member that becomes what a schedule says."""

    schedule: tuple[Scheduled, ...]

    def due(self, step: int, members: Sequence[Hyperparameters]) -> bool:
        """Where the schedule names other hyperparameters than the member has, however long it has done so."""
        return self._at(step) != members[0]

    def children(
        self, rng: np.random.Generator, members: Sequence[Hyperparameters], fitness: np.ndarray, step: int
    ) -> tuple[Descendant, ...]:
        """The member that the schedule names."""
        del rng, members, fitness
        return (Descendant(self._at(step), 0, "schedule"),)

    def _at(self, step: int) -> Hyperparameters:
        begun = [entry for entry in self.schedule if entry.step <= step]
        return (begun or self.schedule)[-1 if begun else 0].hyperparameters


def evolution_of(population: Population, settings: EvolutionSettings) -> Evolution | None:
    """How this population moves, or None if it stays what it is."""
    if population.space is not None:
        return Generations(population.space, settings)
    if population.schedule:
        return Replacements(population.schedule)
    return None


@dataclass(frozen=True)
class Inheritance:
    """How the parameters of the next members follow from those of their parents."""

    old: Ensemble
    new: Ensemble
    children: tuple[Descendant, ...]
    fresh: tuple[np.ndarray, ...]  # [P] of each child, where a child has not its parent's
    reset_weights: bool

    def parameters(self, slot: int, of_parents: Sequence[np.ndarray]) -> np.ndarray:
        """The parameters of the member in a slot, from those of all parents. [P]"""
        child = self.children[slot]
        assert child.parent is not None, "members of a generation have parents"
        if not child.is_new:
            return of_parents[child.parent]
        if self.reset_weights:
            return self.fresh[slot]
        parent = self.old.network(child.parent)
        return inherit(parent, of_parents[child.parent], self.new.network(slot), self.fresh[slot])


def inheritance(
    rng: np.random.Generator, old: Ensemble, new: Ensemble, children: tuple[Descendant, ...], reset_weights: bool
) -> Inheritance:
    """Draw what the children do not inherit."""
    fresh = tuple(
        new.network(slot).init(rng) if child.is_new else np.zeros(0, np.float32) for slot, child in enumerate(children)
    )
    return Inheritance(old, new, children, fresh, reset_weights)


def next_members(rng: np.random.Generator, states: Sequence[GroupState], heirs: Inheritance) -> list[GroupState]:
    """The members one by one: survivors as they were, children with an optimizer that starts afresh."""
    of_parents = [np.asarray(state.parameters)[0] for state in states]
    following = []
    for slot, child in enumerate(heirs.children):
        key = rng.integers(2**32, size=(1, 2), dtype=np.uint32)
        if child.is_new:
            weights = heirs.parameters(slot, of_parents)[None]
            following.append(fresh_members(heirs.new.network(slot), [child.hyperparameters], weights, key))
        else:
            following.append(states[slot])
    return following
