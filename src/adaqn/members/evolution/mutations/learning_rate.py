"""Mutation of the learning rate by a factor of 0.8 or 1.2."""

from __future__ import annotations

import numpy as np

from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace

FACTORS = (0.8, 1.2)


def applies(space: SearchSpace, member: Hyperparameters) -> bool:
    """Whether the space has more than one learning rate."""
    del member
    low, high = space.learning_rate
    return low < high


def mutate(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
    """The member with 0.8 or 1.2 times its learning rate, both equally likely."""
    factor = FACTORS[rng.integers(2)]
    return space.clip(member.replace(learning_rate=member.learning_rate * factor))
