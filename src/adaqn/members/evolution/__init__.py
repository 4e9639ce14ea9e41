"""Evolution of an ensemble in an infinite search space: exploit rules, mutations, and generations made of both.

A rule is a module in `exploit/` with `survivors(rng, fitness)`, a mutation one in `mutations/` with
`applies(space, member)` and `mutate(rng, space, member)`; adding a file there makes it available by its name.
"""

from __future__ import annotations

from adaqn.members.evolution.generation import mutate, next_generation
from adaqn.members.evolution.registry import (
    DEFAULT_MUTATIONS,
    FURTHER_MUTATIONS,
    exploit_rule,
    exploit_rules,
    mutation,
    mutation_names,
)
from adaqn.members.evolution.types import Descendant, ExploitRule, Mutation, Origin

__all__ = [
    "DEFAULT_MUTATIONS",
    "FURTHER_MUTATIONS",
    "Descendant",
    "ExploitRule",
    "Mutation",
    "Origin",
    "exploit_rule",
    "exploit_rules",
    "mutate",
    "mutation",
    "mutation_names",
    "next_generation",
]
