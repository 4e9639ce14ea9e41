"""Mutation of the kind of hidden layers, plain or residual, for spaces that vary it."""

from __future__ import annotations

import numpy as np

from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace


def applies(space: SearchSpace, member: Hyperparameters) -> bool:
    """Whether the space has another kind of layer that is possible for the member."""
    return bool(member.hidden and _others(space, member))


def mutate(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
    """The member with one of the other kinds of layers, all equally likely."""
    others = _others(space, member)
    return space.clip(member.replace(block=others[rng.integers(len(others))]))


def _others(space: SearchSpace, member: Hyperparameters) -> list[str]:
    """The other kinds of layers; residual blocks need equal widths."""
    possible = [name for name in space.block or () if name != "residual" or len(set(member.hidden)) == 1]
    return [name for name in possible if name != member.block]
