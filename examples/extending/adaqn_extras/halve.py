"""A mutation: all hidden layers get half their width."""

import numpy as np

from adaqn import Hyperparameters, SearchSpace


def applies(space: SearchSpace, member: Hyperparameters) -> bool:
    """Whether a layer is wide enough to be halved within the space."""
    return any(width // 2 >= space.hidden.neurons[0] for width in member.hidden)


def mutate(rng: np.random.Generator, space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
    """The member with half as many neurons in each layer; the child keeps the weights of those that stay."""
    del rng  # nothing to draw
    return space.clip(member.replace(hidden=tuple(max(1, width // 2) for width in member.hidden)))
