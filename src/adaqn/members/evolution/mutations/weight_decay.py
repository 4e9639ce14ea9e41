"""Mutation of the weight decay, for spaces that vary it, by a factor of 0.5 or 2."""

from __future__ import annotations

import numpy as np

from adaqn.members.hyperparameters import WITH_WEIGHT_DECAY, Hyperparameters
from adaqn.members.space import SearchSpace

FACTORS = (0.5, 2.0)


def applies(space: SearchSpace, member: Hyperparameters) -> bool:
    """Whether the space has more than one weight decay, and the member's optimizer has it."""
    bounds = space.weight_decay
    return bounds is not None and bounds[0] < bounds[1] and member.optimizer in WITH_WEIGHT_DECAY


def mutate(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
    """The member with half or twice its weight decay, both equally likely."""
    factor = FACTORS[rng.integers(2)]
    member = space.clip(member)
    options = dict(member.optimizer_options)
    return space.clip(member.replace(optimizer_options={**options, "weight_decay": factor * options["weight_decay"]}))
