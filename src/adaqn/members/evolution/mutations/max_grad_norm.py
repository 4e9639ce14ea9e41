"""Mutation of the global norm that gradients are clipped to, for spaces that vary it, by a factor of 0.5 or 2."""

from __future__ import annotations

import numpy as np

from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace

FACTORS = (0.5, 2.0)


def applies(space: SearchSpace, member: Hyperparameters) -> bool:
    """Whether the space has more than one limit of the gradient's norm."""
    del member
    bounds = space.max_grad_norm
    return bounds is not None and bounds[0] < bounds[1]


def mutate(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
    """The member with half or twice its limit, both equally likely."""
    factor = FACTORS[rng.integers(2)]
    limit = space.clip(member).max_grad_norm
    assert limit is not None, "a space with limits gives one to each of its members"
    return space.clip(member.replace(max_grad_norm=limit * factor))
