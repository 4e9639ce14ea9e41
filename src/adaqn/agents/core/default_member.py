"""The default network of a Q-function of discrete actions, by the shape of the observations."""

from __future__ import annotations

from adaqn.members.hyperparameters import Convolution, Hyperparameters

LARGE_IMAGE = (Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1))
SMALL_IMAGE = (Convolution(16, 3, 1),)


def default_member(observation_shape: tuple[int, ...]) -> Hyperparameters:
    """The default member of DQN: for images, a common network for their size."""
    if len(observation_shape) != 3:
        return Hyperparameters()
    if min(observation_shape[:2]) >= 36:
        return Hyperparameters(convolutions=LARGE_IMAGE, hidden=(512,), learning_rate=1e-4)
    return Hyperparameters(convolutions=SMALL_IMAGE, hidden=(128,), learning_rate=3e-4)
