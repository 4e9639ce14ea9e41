"""The brackets of Hyperband (Li et al., 2018, Algorithm 1), with a lowest fidelity chosen by the user.

A bracket is one run of successive halving: many configurations for a few steps each, then ever fewer for η times as
many steps, up to the highest fidelity. The brackets of a round differ in how low they start. With s_max the largest s
for which min · η^s ≤ max, bracket s = s_max, ..., 0 starts with ⌈(s_max + 1) η^s / (s + 1)⌉ configurations at
max / η^s, and of n configurations in its first rung ⌊n / η^i⌋ are left in rung i.

Everything is computed with integers, because logarithms would sometimes miss a rung (log 243 / log 3 is below 5 in
floating point). Fidelities are rounded down to whole steps. They are derived from the highest one, so the lowest can be
above `min_fidelity`: 20 to 100 with η = 3 gives 33 and 100.
"""

from __future__ import annotations

from typing import NamedTuple

from adaqn.checks import count
from adaqn.errors import UserError


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
