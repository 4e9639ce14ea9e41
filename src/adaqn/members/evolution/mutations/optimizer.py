"""Mutation of the optimizer."""

from __future__ import annotations

import numpy as np

from adaqn.members.hyperparameters import Hyperparameters, numeric_options
from adaqn.members.space import SearchSpace


def applies(space: SearchSpace, member: Hyperparameters) -> bool:
    """Whether the space has an optimizer other than the member's."""
    return set(space.optimizer) != {member.optimizer}


def mutate(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
    """The member with one of the other optimizers, all equally likely; unsupported options are dropped."""
    others = [name for name in space.optimizer if name != member.optimizer]
    optimizer = others[rng.integers(len(others))]
    known = numeric_options(optimizer)
    options = tuple((name, value) for name, value in member.optimizer_options if name in known)
    return space.clip(member.replace(optimizer=optimizer, optimizer_options=options))
