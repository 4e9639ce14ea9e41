"""One generation in an infinite space: choose the survivors (exploit) and mutate copies of them (explore)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adaqn.base.errors import UserError
from adaqn.members.evolution.registry import DEFAULT_MUTATIONS, FURTHER_MUTATIONS, exploit_rule, mutation
from adaqn.members.evolution.types import Descendant
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace


def next_generation(
    rng: np.random.Generator,
    space: SearchSpace,
    members: Sequence[Hyperparameters],  # [K], in the space
    fitness: np.ndarray,  # [K] lower is better, inf if diverged
    exploit: str,
    mutations: Sequence[str],  # names of the mutations to choose from
) -> tuple[Descendant, ...]:
    """The next member of every slot. [K]"""
    survivors = exploit_rule(exploit)
    if len(fitness) != len(members):
        raise ValueError(f"fitness must be one number for each of {len(members)} members, but there are {len(fitness)}")
    children = []
    for parent, is_mutated in survivors(rng, fitness):
        name, member = mutate(rng, space, members[parent], mutations) if is_mutated else (None, members[parent])
        children.append(Descendant(member, parent, name))
    return tuple(children)


def mutate(
    rng: np.random.Generator, space: SearchSpace, member: Hyperparameters, mutations: Sequence[str]
) -> tuple[str, Hyperparameters]:
    """Apply one of the applicable mutations, all equally likely; return its name and the mutated member.

    The default mutations stand for those of every dimension that the space varies, except for the discount.
    """
    further = FURTHER_MUTATIONS if tuple(mutations) == DEFAULT_MUTATIONS else ()
    names = [name for name in (*mutations, *further) if mutation(name).applies(space, member)]
    if not names:
        raise UserError(
            f"none of the mutations {', '.join(mutations)} can change a member, because the search space has only "
            "one value for each of them"
        )
    name = names[rng.integers(len(names))]
    return name, mutation(name).mutate(rng, space, member)
