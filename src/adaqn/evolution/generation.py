"""One generation in an infinite space: who survives (exploit), and what the others become (explore)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adaqn.errors import UserError
from adaqn.evolution.registry import exploit_rule, mutation, mutation_names
from adaqn.evolution.types import Child
from adaqn.hyperparameters import Hyperparameters
from adaqn.space import SearchSpace


def next_generation(
    rng: np.random.Generator,
    space: SearchSpace,
    members: Sequence[Hyperparameters],  # [K], in the space
    fitness: np.ndarray,  # [K] lower is better, inf: diverged
    exploit: str,
) -> tuple[Child, ...]:
    """The next member of every slot. [K]"""
    survivors = exploit_rule(exploit)
    if len(fitness) != len(members):
        raise ValueError(f"fitness must be one number for each of {len(members)} members, but there are {len(fitness)}")
    children = []
    for parent, is_mutated in survivors(rng, fitness):
        name, member = mutate(rng, space, members[parent]) if is_mutated else (None, members[parent])
        children.append(Child(member, parent, name))
    return tuple(children)


def mutate(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> tuple[str, Hyperparameters]:
    """One mutation of those that apply, all equally likely: its name, and what the member becomes."""
    names = [name for name in mutation_names() if mutation(name).applies(space, member)]
    if not names:
        raise UserError("nothing can be mutated, because the search space has one value only for everything")
    name = names[rng.integers(len(names))]
    return name, mutation(name).mutate(rng, space, member)
