"""AdaDQN (Algorithm 1), its ablations and DQN: their names and default members."""

from __future__ import annotations

from adaqn.agents.core.default_member import LARGE_IMAGE, SMALL_IMAGE, default_member
from adaqn.agents.core.value_settings import PlainDQNSettings
from adaqn.agents.dqn.settings import DQNSettings
from adaqn.agents.registry import Algorithm, Traits, agent_class
from adaqn.members.hyperparameters import Hyperparameters, grid

__all__ = ["ALGORITHMS", "LARGE_IMAGE", "SMALL_IMAGE", "default_member", "default_members"]


def default_members(observation_shape: tuple[int, ...]) -> tuple[Hyperparameters, ...]:
    """The default members of an ensemble."""
    if len(observation_shape) != 3:
        return grid(hidden=[(64, 64), (256, 256)], learning_rate=[3e-4, 1e-3])
    return grid(default_member(observation_shape), learning_rate=[1e-4, 3e-4, 1e-3])


_AGENT = agent_class("adaqn.agents.dqn.agent:DQNAgent")
_TRAITS = Traits(rows_per_lane=8, members_in_lanes=True)


def _with_members(**overrides: str) -> Algorithm:
    return Algorithm(DQNSettings, _AGENT, default_members, overrides, space="optional", traits=_TRAITS)


ALGORITHMS = {
    "adadqn": _with_members(),
    "randdqn": _with_members(selection="random"),
    "adadqn-max": _with_members(selection="highest"),
    "dqn": Algorithm(
        DQNSettings,
        _AGENT,
        lambda shape: (default_member(shape),),
        copies=1,
        scheduled=True,
        traits=_TRAITS,
        base_settings=PlainDQNSettings,
    ),
}
