"""Mutation of the training loss."""

from __future__ import annotations

import numpy as np

from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace


def applies(space: SearchSpace, member: Hyperparameters) -> bool:
    """Whether the space has a loss other than the member's, whose head is trained with one."""
    return set(space.loss) != {member.loss} and member.head == "scalar"


def mutate(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
    """The member with one of the other losses, all equally likely."""
    others = [name for name in space.loss if name != member.loss]
    return space.clip(member.replace(loss=others[rng.integers(len(others))]))
