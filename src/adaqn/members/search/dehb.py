"""DEHB: differential evolution (Awad et al., 2021) with the brackets of Hyperband (Li et al., 2017)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from adaqn.base.checks import count
from adaqn.base.errors import CheckpointError, UserError
from adaqn.base.files import Json
from adaqn.members.search.protocol import (
    Origin,
    Trial,
    frozen_vector,
    require_pending,
    require_told,
    trial_from_dict,
    trial_to_dict,
    unit_vector,
)


class Rung(NamedTuple):
    """A number of configurations, each run for `fidelity` steps."""

    configurations: int
    fidelity: int


Bracket = tuple[Rung, ...]  # from the lowest fidelity to the highest


def checked(min_fidelity: int, max_fidelity: int, eta: int) -> tuple[int, int, int]:
    """Validate the three numbers."""
    low = count("min_fidelity", min_fidelity, low=1)
    high = count("max_fidelity", max_fidelity, low=1)
    if high < low:
        raise UserError(f"max_fidelity must be at least min_fidelity, which is {low}, but got {high}")
    return low, high, count("eta", eta, low=2)


def brackets(min_fidelity: int, max_fidelity: int, eta: int = 3) -> tuple[Bracket, ...]:
    """One round of brackets, in ascending order of their lowest fidelity."""
    low, high, eta = checked(min_fidelity, max_fidelity, eta)
    s_max = 0
    while low * eta ** (s_max + 1) <= high:
        s_max += 1
    return tuple(_bracket(s, s_max, high, eta) for s in range(s_max, -1, -1))


def fidelities(table: tuple[Bracket, ...]) -> tuple[int, ...]:
    """All fidelities of a round in ascending order; its first bracket has all of them."""
    return tuple(rung.fidelity for rung in table[0])


def largest_rungs(table: tuple[Bracket, ...]) -> tuple[int, ...]:
    """The largest number of configurations of any bracket at each fidelity, in ascending order."""
    rungs = [rung for bracket in table for rung in bracket]
    return tuple(max(rung.configurations for rung in rungs if rung.fidelity == level) for level in fidelities(table))


def describe(min_fidelity: int, max_fidelity: int, eta: int = 3) -> list[str]:
    """Lines that describe the table, or explain that there is only one rung."""
    low, high, eta = checked(min_fidelity, max_fidelity, eta)
    table = brackets(low, high, eta)
    rungs = [rung for bracket in table for rung in bracket]
    trials = sum(rung.configurations for rung in rungs)
    steps = sum(rung.configurations * rung.fidelity for rung in rungs)
    if len(table) == 1:
        return [
            f"A single rung: {high:,} steps are less than eta = {eta} times {low:,}, so every trial takes "
            f"{high:,} steps and none is stopped early."
        ]
    lines = [f"A round of {len(table)} brackets (eta = {eta}) has {trials:,} trials and takes {steps:,} steps:"]
    for number, bracket in enumerate(table):
        parts = (f"{rung.configurations:,} x {rung.fidelity:,}" for rung in bracket)
        lines.append(f"  bracket {number}: {', '.join(parts)} steps")
    return lines


def _bracket(s: int, s_max: int, max_fidelity: int, eta: int) -> Bracket:
    first = -(-(s_max + 1) * eta**s // (s + 1))  # rounded up
    return tuple(Rung(first // eta**i, max_fidelity // eta ** (s - i)) for i in range(s + 1))


MUTATION_FACTOR = 0.5
CROSSOVER_PROBABILITY = 0.5
PARENTS = 3

Vector = tuple[float, ...]  # [d] in the unit cube; a tuple, because it is hashable


class Member(NamedTuple):
    """A configuration with a successful trial."""

    u: Vector
    fitness: float  # finite


class Subpopulation(NamedTuple):
    """The members of one fidelity."""

    slots: tuple[Member | None, ...]
    pointer: int = 0  # the slot that the next trial competes for

    def best(self) -> list[Member]:
        """The members, best first; ties go to the earlier slot."""
        return sorted((member for member in self.slots if member is not None), key=lambda member: member.fitness)


class DEHBState(NamedTuple):
    """The subpopulations, and the position of the search in the table of brackets."""

    subpopulations: tuple[Subpopulation, ...]  # by ascending fidelity
    asked: int = 0  # trials so far, the pending one included
    bracket: int = 0  # counted across rounds
    rung: int = 0
    place: int = 0  # finished trials of this rung
    promotions: tuple[Vector, ...] = ()  # configurations still to be promoted in this rung, best first
    pending: Trial | None = None


@dataclass(frozen=True)
class DEHB:
    """The configuration of the search; all methods are pure."""

    dimensions: int
    min_fidelity: int  # environment steps
    max_fidelity: int
    eta: int = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimensions", count("the number of searched dimensions", self.dimensions, low=1))
        bounds = checked(self.min_fidelity, self.max_fidelity, self.eta)
        for name, value in zip(("min_fidelity", "max_fidelity", "eta"), bounds, strict=True):
            object.__setattr__(self, name, value)

    @cached_property
    def table(self) -> tuple[Bracket, ...]:
        """One round of brackets."""
        return brackets(self.min_fidelity, self.max_fidelity, self.eta)

    def init(self) -> DEHBState:
        """The state before the first trial: all slots are empty."""
        return DEHBState(tuple(Subpopulation((None,) * size) for size in largest_rungs(self.table)))

    def ask(self, state: DEHBState, rng: np.random.Generator) -> tuple[DEHBState, Trial]:
        """The next trial of the current bracket."""
        require_told(state.pending)
        bracket = self._bracket(state)
        level = self._level(state)
        slot = state.subpopulations[level].pointer
        first_round = state.bracket < len(self.table)
        promotions = state.promotions
        if first_round and state.rung > 0 and state.place == 0:
            promotions = _promotions(
                state.subpopulations[level - 1], state.subpopulations[level], bracket[state.rung].configurations
            )
        origin: Origin
        if state.bracket == 0 and state.rung == 0:
            origin, u = "random", rng.random(self.dimensions)
        elif promotions:
            origin, u, promotions = "promoted", promotions[0], promotions[1:]
        else:
            origin, u = "evolved", self._evolved(state, rng)
        trial = Trial(
            state.asked, frozen_vector(u), bracket[state.rung].fidelity, origin, state.bracket, state.rung, slot
        )
        return state._replace(asked=state.asked + 1, promotions=promotions, pending=trial), trial

    def tell(self, state: DEHBState, trial: Trial, fitness: float) -> DEHBState:
        """Let the trial take its slot if it is at least as good as the member there, and advance the search."""
        trial = require_pending(state.pending, trial)
        level = self._level(state)
        subpopulations = list(state.subpopulations)
        subpopulations[level] = _selected(subpopulations[level], trial, float(fitness))
        bracket, rung, place = state.bracket, state.rung, state.place + 1
        if place == self._bracket(state)[rung].configurations:
            rung, place = rung + 1, 0
        if rung == len(self._bracket(state)):
            bracket, rung = bracket + 1, 0
        return state._replace(
            subpopulations=tuple(subpopulations), bracket=bracket, rung=rung, place=place, pending=None
        )

    def pending(self, state: DEHBState) -> Trial | None:
        """The trial that was asked for and not yet told, if any."""
        return state.pending

    def to_dict(self, state: DEHBState) -> Json:
        """The state in plain JSON."""
        return state._asdict() | {
            "subpopulations": [
                {
                    "slots": [
                        None if m is None else {"u": list(m.u), "fitness": m.fitness} for m in subpopulation.slots
                    ],
                    "pointer": subpopulation.pointer,
                }
                for subpopulation in state.subpopulations
            ],
            "promotions": [list(u) for u in state.promotions],
            "pending": trial_to_dict(state.pending),
        }

    def from_dict(self, values: Mapping[str, Any]) -> DEHBState:
        """The inverse of `to_dict`."""
        if set(values) != set(DEHBState._fields):
            raise CheckpointError(
                f"a DEHB search must have {', '.join(DEHBState._fields)}, but has {', '.join(values)}"
            )
        try:
            state = DEHBState(**values)._replace(
                subpopulations=tuple(self._subpopulation(saved) for saved in values["subpopulations"]),
                promotions=tuple(unit_vector(u, self.dimensions) for u in values["promotions"]),
                pending=trial_from_dict(values["pending"], self.dimensions),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"the saved DEHB search cannot be read: {error!r}") from error
        self._require_own(state)
        return state

    def describe(self) -> list[str]:
        """Lines to print before a run starts: the brackets and the size of each subpopulation."""
        lines = describe(self.min_fidelity, self.max_fidelity, self.eta)
        if len(self.table) == 1:
            return [
                f"DEHB: {lines[0]}",
                "It is then differential evolution at full fidelity with a subpopulation of one: each trial is the "
                "best so far with about half of its coordinates resampled.",
            ]
        sizes = ", ".join(str(size) for size in largest_rungs(self.table))
        return [f"DEHB: {lines[0]}", *lines[1:], f"Subpopulations from the lowest fidelity to the highest: {sizes}."]

    def _bracket(self, state: DEHBState) -> Bracket:
        return self.table[state.bracket % len(self.table)]

    def _level(self, state: DEHBState) -> int:
        """The index of the current fidelity; every bracket starts one level higher, and all end at the highest."""
        return len(self.table) - len(self._bracket(state)) + state.rung

    def _evolved(self, state: DEHBState, rng: np.random.Generator) -> np.ndarray:
        level = self._level(state)
        own = state.subpopulations[level]
        member = own.slots[own.pointer]
        target = tuple(rng.random(self.dimensions).tolist()) if member is None else member.u
        source = own if state.rung == 0 else state.subpopulations[level - 1]
        pool = source.best()[: self._bracket(state)[state.rung].configurations]
        everyone = [m for subpopulation in state.subpopulations for m in subpopulation.best()]
        return offspring(np.array(target), _parents(target, pool, everyone, rng), rng)

    def _subpopulation(self, saved: Mapping[str, Any]) -> Subpopulation:
        slots = (
            None if m is None else Member(unit_vector(m["u"], self.dimensions), m["fitness"]) for m in saved["slots"]
        )
        return Subpopulation(tuple(slots), saved["pointer"])

    def _require_own(self, state: DEHBState) -> None:
        """Raise if this state does not belong to a search with these fidelities."""
        expected = list(largest_rungs(self.table))
        sizes = [len(subpopulation.slots) for subpopulation in state.subpopulations]
        if sizes != expected:
            raise CheckpointError(f"the subpopulations of this search have sizes {expected}, the saved ones {sizes}")
        bracket = self._bracket(state)
        on_table = 0 <= state.rung < len(bracket) and 0 <= state.place < bracket[state.rung].configurations
        in_slots = all(0 <= s.pointer < len(s.slots) for s in state.subpopulations)
        if not (on_table and in_slots) or (
            state.pending is not None and state.pending.slot != state.subpopulations[self._level(state)].pointer
        ):
            raise CheckpointError("the saved DEHB search is at a position that its brackets do not have")


def offspring(target: np.ndarray, parents: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """rand/1/bin: r1 + F (r2 - r3), crossed with the target; coordinates outside [0, 1] are resampled. [d]"""
    base, plus, minus = parents
    mutant = base + MUTATION_FACTOR * (plus - minus)
    crossed = rng.random(target.size) < CROSSOVER_PROBABILITY
    crossed[rng.integers(target.size)] = True
    child = np.where(crossed, mutant, target)
    return np.where((child < 0.0) | (child > 1.0), rng.random(target.size), child)


def _parents(target: Vector, pool: list[Member], everyone: list[Member], rng: np.random.Generator) -> np.ndarray:
    """Three distinct vectors other than the target in random order: from the pool, else everyone, else uniform."""
    chosen = _draw(_distinct(pool, {target}), PARENTS, rng)
    chosen += _draw(_distinct(everyone, {target, *chosen}), PARENTS - len(chosen), rng)
    uniform = rng.random((PARENTS - len(chosen), len(target)))
    return rng.permutation(np.concatenate([np.reshape(chosen, (len(chosen), len(target))), uniform]))


def _distinct(members: Iterable[Member], without: set[Vector]) -> list[Vector]:
    """The distinct vectors of these members; a promoted one can be in several subpopulations."""
    return list(dict.fromkeys(member.u for member in members if member.u not in without))


def _draw(vectors: list[Vector], size: int, rng: np.random.Generator) -> list[Vector]:
    """Up to `size` of these vectors, drawn without replacement."""
    return [vectors[index] for index in rng.permutation(len(vectors))[:size]]


def _promotions(lower: Subpopulation, higher: Subpopulation, size: int) -> tuple[Vector, ...]:
    """The best of the lower fidelity that are not yet in the higher subpopulation, best first."""
    held = {member.u for member in higher.slots if member is not None}
    return tuple(_distinct(lower.best(), held)[:size])


def _selected(subpopulation: Subpopulation, trial: Trial, fitness: float) -> Subpopulation:
    """The subpopulation after this trial, with its pointer on the next slot."""
    slots = list(subpopulation.slots)
    member = slots[trial.slot]
    if math.isfinite(fitness) and (member is None or fitness <= member.fitness):
        slots[trial.slot] = Member(tuple(trial.u.tolist()), fitness)
    return Subpopulation(tuple(slots), (trial.slot + 1) % len(slots))
