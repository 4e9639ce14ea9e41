"""Mutation of the normalization of plain hidden layers, for spaces that vary it."""

from __future__ import annotations

import numpy as np

from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace


def applies(space: SearchSpace, member: Hyperparameters) -> bool:
    """Whether the space has another normalization, and the member has layers for which it makes a difference."""
    other = space.normalization is not None and set(space.normalization) != {member.normalization}
    return other and bool(member.hidden) and member.block == "plain"


def mutate(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
    """The member with one of the other normalizations, all equally likely."""
    others = [name for name in space.normalization or () if name != member.normalization]
    return space.clip(member.replace(normalization=others[rng.integers(len(others))]))
