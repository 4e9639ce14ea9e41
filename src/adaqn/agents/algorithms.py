"""The one table of algorithms: name, settings, agent and default members of each. It does not import JAX."""

from __future__ import annotations

from adaqn.agents.registry import Algorithm, Traits, agent_class
from adaqn.agents.settings import (
    DQNSettings,
    MetaGradientSettings,
    PlainDQNSettings,
    PlainSACSettings,
    PlainTD3Settings,
    SACSettings,
    SEARLSettings,
    TD3Settings,
)
from adaqn.agents.trials.settings import DEHBSettings, RandomSearchSettings, search_with
from adaqn.members.hyperparameters import Convolution, Hyperparameters, grid

LARGE_IMAGE = (Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1))
SMALL_IMAGE = (Convolution(16, 3, 1),)

# Chosen by measurement: `python -m benchmarks.defaults`.
SAC_MEMBERS = grid(hidden=[(128, 128)], learning_rate=[3e-4, 1e-3], normalization=["none", "layer"])
TD3_MEMBERS = grid(hidden=[(64, 64), (256, 256)], learning_rate=[3e-4, 1e-3])
PAPER_CRITIC = Hyperparameters(hidden=(256, 256), learning_rate=1e-3)


def default_member(observation_shape: tuple[int, ...]) -> Hyperparameters:
    """The default member of DQN: for images, a common network for their size."""
    if len(observation_shape) != 3:
        return Hyperparameters()
    if min(observation_shape[:2]) >= 36:
        return Hyperparameters(convolutions=LARGE_IMAGE, hidden=(512,), learning_rate=1e-4)
    return Hyperparameters(convolutions=SMALL_IMAGE, hidden=(128,), learning_rate=3e-4)


def default_members(observation_shape: tuple[int, ...]) -> tuple[Hyperparameters, ...]:
    """The default members of AdaDQN."""
    if len(observation_shape) != 3:
        return grid(hidden=[(64, 64), (256, 256)], learning_rate=[3e-4, 1e-3])
    return grid(default_member(observation_shape), learning_rate=[1e-4, 3e-4, 1e-3])


_DQN = agent_class("adaqn.agents.dqn:DQNAgent")
_DQN_TRAITS = Traits(rows_per_lane=8, members_in_lanes=True)
_SAC = agent_class("adaqn.agents.sac:SACAgent")
_TD3 = agent_class("adaqn.agents.td3:TD3Agent")
_PAIR_TRAITS = Traits(sums_up_selections=True, rows_per_lane=64)


def _adadqn(**overrides: str) -> Algorithm:
    return Algorithm(DQNSettings, _DQN, default_members, overrides, space="optional", traits=_DQN_TRAITS)


def _adasac(**overrides: str) -> Algorithm:
    return Algorithm(
        SACSettings, _SAC, lambda _: SAC_MEMBERS, overrides, least=2, space="optional", traits=_PAIR_TRAITS
    )


def _adatd3(**overrides: str) -> Algorithm:
    return Algorithm(
        TD3Settings, _TD3, lambda _: TD3_MEMBERS, overrides, least=2, space="optional", traits=_PAIR_TRAITS
    )


ALGORITHMS = {
    "adadqn": _adadqn(),
    "randdqn": _adadqn(selection="random"),
    "adadqn-max": _adadqn(selection="highest"),
    "dqn": Algorithm(
        DQNSettings,
        _DQN,
        lambda shape: (default_member(shape),),
        copies=1,
        scheduled=True,
        traits=_DQN_TRAITS,
        base_settings=PlainDQNSettings,
    ),
    "metagradient": Algorithm(
        MetaGradientSettings,
        agent_class("adaqn.agents.metagradient:MetaGradientAgent"),
        lambda shape: (default_member(shape),),
        copies=1,
        traits=Traits(learns_hyperparameters=True),
    ),
    "searl": Algorithm(
        SEARLSettings,
        agent_class("adaqn.agents.searl:SEARLAgent"),
        lambda _: (),
        space="required",
        one_environment=True,
        traits=Traits(tables=("evaluations",), measures_policy=True, rows_per_lane=8, members_in_lanes=True),
    ),
    "adasac": _adasac(),
    "randsac": _adasac(selection="random"),
    "sac": Algorithm(
        SACSettings,
        _SAC,
        lambda _: (PAPER_CRITIC,),
        copies=2,
        traits=_PAIR_TRAITS,
        base_settings=PlainSACSettings,
    ),
    "adatd3": _adatd3(),
    "randtd3": _adatd3(selection="random"),
    "td3": Algorithm(
        TD3Settings,
        _TD3,
        lambda _: (PAPER_CRITIC,),
        {"behaviour": "first"},
        copies=2,
        traits=_PAIR_TRAITS,
        base_settings=PlainTD3Settings,
    ),
}
# A search looks up its base by name, among those above.
ALGORITHMS |= {"random-search": search_with(RandomSearchSettings), "dehb": search_with(DEHBSettings)}
