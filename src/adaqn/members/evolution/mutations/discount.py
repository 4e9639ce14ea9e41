"""Mutation of the discount, for spaces that vary it: its distance to 1 is multiplied by 0.8 or 1.2."""

from __future__ import annotations

import numpy as np

from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace

FACTORS = (0.8, 1.2)


def applies(space: SearchSpace, member: Hyperparameters) -> bool:
    """Whether the space has more than one discount."""
    del member
    return space.discount is not None and space.discount[0] < space.discount[1]


def mutate(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
    """The member with a horizon 1 / (1 - γ) that is 1.25 times as long, or 1.2 times shorter; both equally likely."""
    factor = FACTORS[rng.integers(2)]
    discount = space.clip(member).discount
    assert discount is not None, "a space with discounts gives one to each of its members"
    return space.clip(member.replace(discount=1.0 - factor * (1.0 - discount)))
