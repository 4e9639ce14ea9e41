"""How members are replaced during a run: by generations in a search space, or by a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from adaqn.agents.population import Population, Scheduled
from adaqn.agents.settings import EvolutionSettings
from adaqn.members.evolution import Descendant, next_generation
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace
from adaqn.networks.ensemble import Ensemble, GroupState, fresh_members
from adaqn.networks.inheritance import inherit


class Evolution(Protocol):
    """Decides when members are replaced, and by which."""

    def due(self, step: int, members: Sequence[Hyperparameters]) -> bool:
        """Whether these members are due for replacement at this step."""
        ...

    def children(
        self, rng: np.random.Generator, members: Sequence[Hyperparameters], fitness: np.ndarray, step: int
    ) -> tuple[Descendant, ...]:
        """The next member of every slot, given the fitness of the current ones (lower is better). [K]"""
        ...


@dataclass(frozen=True)
class Generations:
    """Exploit and explore in a search space, at a fixed interval of steps."""

    space: SearchSpace
    settings: EvolutionSettings

    def due(self, step: int, members: Sequence[Hyperparameters]) -> bool:
        """At every multiple of the interval."""
        del members
        return step % self.settings.generation_interval == 0

    def children(
        self, rng: np.random.Generator, members: Sequence[Hyperparameters], fitness: np.ndarray, step: int
    ) -> tuple[Descendant, ...]:
        """Survivors in their slots, and mutated copies of them in the other slots."""
        del step
        return next_generation(rng, self.space, members, fitness, self.settings.exploit, self.settings.mutations)


@dataclass(frozen=True)
class Replacements:
    """A single member that follows a schedule of hyperparameters."""

    schedule: tuple[Scheduled, ...]

    def due(self, step: int, members: Sequence[Hyperparameters]) -> bool:
        """Whether the scheduled hyperparameters at this step differ from the member's."""
        return self._at(step) != members[0]

    def children(
        self, rng: np.random.Generator, members: Sequence[Hyperparameters], fitness: np.ndarray, step: int
    ) -> tuple[Descendant, ...]:
        """The member scheduled at this step."""
        del rng, members, fitness
        return (Descendant(self._at(step), 0, "schedule"),)

    def _at(self, step: int) -> Hyperparameters:
        begun = [entry for entry in self.schedule if entry.step <= step]
        return (begun or self.schedule)[-1 if begun else 0].hyperparameters


def evolution_of(population: Population, settings: EvolutionSettings) -> Evolution | None:
    """How this population is evolved, or None if its members stay the same."""
    if population.space is not None:
        return Generations(population.space, settings)
    if population.schedule:
        return Replacements(population.schedule)
    return None


@dataclass(frozen=True)
class Inheritance:
    """How the next members inherit parameters from their parents."""

    old: Ensemble
    new: Ensemble
    children: tuple[Descendant, ...]
    fresh: tuple[np.ndarray, ...]  # [P] newly initialized parameters per slot, empty for survivors
    reset_weights: bool

    def parameters(self, slot: int, of_parents: Sequence[np.ndarray]) -> np.ndarray:
        """The parameters of the member in a slot, given those of all parents. [P]"""
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
    """Initialize the parameters that the children do not inherit."""
    fresh = tuple(
        new.network(slot).init(rng) if child.is_new else np.zeros(0, np.float32) for slot, child in enumerate(children)
    )
    return Inheritance(old, new, children, fresh, reset_weights)


def next_members(rng: np.random.Generator, states: Sequence[GroupState], heirs: Inheritance) -> list[GroupState]:
    """The state of each next member: survivors unchanged, children with a newly initialized optimizer."""
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
