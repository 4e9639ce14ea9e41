"""Mutation of the value head, scalar or categorical, for spaces that vary it."""

from __future__ import annotations

import numpy as np

from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace


def applies(space: SearchSpace, member: Hyperparameters) -> bool:
    """Whether the space has a head other than the member's."""
    return space.head is not None and set(space.head) != {member.head}


def mutate(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
    """The member with one of the other heads, all equally likely.

    A categorical head is trained by cross-entropy; for a scalar one, the loss is drawn from the space. A member without
    a range of values gets that of the space.
    """
    others = [name for name in space.head or () if name != member.head]
    head = others[rng.integers(len(others))]
    if head == "categorical":
        value_range = member.value_range or space.fixed.value_range
        return space.clip(member.replace(head=head, loss=Hyperparameters.loss, value_range=value_range))
    return space.clip(member.replace(head=head, loss=space.loss[rng.integers(len(space.loss))]))
