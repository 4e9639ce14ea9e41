"""Mutation of the activation function."""

from __future__ import annotations

import numpy as np

from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace


def applies(space: SearchSpace, member: Hyperparameters) -> bool:
    """Whether the space has an activation other than the member's."""
    return set(space.activation) != {member.activation}


def mutate(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
    """The member with one of the other activations, all equally likely."""
    others = [name for name in space.activation if name != member.activation]
    return space.clip(member.replace(activation=others[rng.integers(len(others))]))
