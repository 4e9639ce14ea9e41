"""AdaDQN (Algorithm 1), its ablations and DQN: their names and default members."""

from __future__ import annotations

from adaqn.agents.dqn.settings import DQNSettings, PlainDQNSettings
from adaqn.agents.registry import Algorithm, agent_class
from adaqn.hyperparameters import Convolution, Hyperparameters, grid

LARGE_IMAGE = (Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1))
SMALL_IMAGE = (Convolution(16, 3, 1),)


def default_member(observation_shape: tuple[int, ...]) -> Hyperparameters:
    """The default member of DQN: for images, a common network for their size."""
    if len(observation_shape) != 3:
        return Hyperparameters()
    if min(observation_shape[:2]) >= 36:
        return Hyperparameters(convolutions=LARGE_IMAGE, hidden=(512,), learning_rate=1e-4)
    return Hyperparameters(convolutions=SMALL_IMAGE, hidden=(128,), learning_rate=3e-4)


def default_members(observation_shape: tuple[int, ...]) -> tuple[Hyperparameters, ...]:
    """The default members of an ensemble."""
    if len(observation_shape) != 3:
        return grid(hidden=[(64, 64), (256, 256)], learning_rate=[3e-4, 1e-3])
    return grid(default_member(observation_shape), learning_rate=[1e-4, 3e-4, 1e-3])


_AGENT = agent_class("adaqn.agents.dqn.agent:DQNAgent")

ALGORITHMS = {
    "adadqn": Algorithm(DQNSettings, _AGENT, default_members, space="optional"),
    "randdqn": Algorithm(DQNSettings, _AGENT, default_members, {"selection": "random"}, space="optional"),
    "adadqn-max": Algorithm(DQNSettings, _AGENT, default_members, {"selection": "highest"}, space="optional"),
    "dqn": Algorithm(
        DQNSettings,
        _AGENT,
        lambda shape: (default_member(shape),),
        copies=1,
        scheduled=True,
        base_settings=PlainDQNSettings,
    ),
}
