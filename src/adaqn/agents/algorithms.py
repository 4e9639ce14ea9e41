"""The one table of algorithms: name, settings, agent, default members, and how each is called and documented.

It does not import JAX. The public classes in `adaqn.api` are made from it.
"""

from __future__ import annotations

from dataclasses import replace

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


_ENTRIES = {
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

_SEARCH = """

Sequential trials in one run, each a fresh agent (`base`, by default DQN) with hyperparameters from a space.
`predict`, `export` and evaluations use the best of the finished trials with the most steps; `members` describes the
current trial."""

# Name -> class in `adaqn`, label in figures and tables, documentation of the class.
_PUBLIC = {
    "adadqn": (
        "AdaDQN",
        "AdaDQN",
        "The Adaptive Deep Q-Network (Algorithm 1): the member with the smallest cumulated loss becomes the target.",
    ),
    "randdqn": ("RandDQN", "RandDQN", "AdaDQN with a random target member, one of the paper's ablations."),
    "adadqn-max": (
        "AdaDQNMax",
        "AdaDQN-max",
        "AdaDQN with the member with the largest cumulated loss as target, one of the paper's ablations.",
    ),
    "dqn": ("DQN", "DQN", "The Deep Q-Network: AdaDQN with one member."),
    "metagradient": (
        "MetaGradientDQN",
        "Meta-gradient DQN",
        """DQN that learns its discount by a meta-gradient (Xu et al., 2018), cross-validated with `gamma`.

The discount starts at the member's `discount`, by default at `gamma`. Each update samples two batches.""",
    ),
    "searl": (
        "SEARL",
        "SEARL",
        """Evolution of members by the returns they achieve when acting alone; the best member acts in `predict`.

Needs a search space and a single environment whose episodes end: the next member, and learning, wait for the end of
the current episode.""",
    ),
    "adasac": (
        "AdaSAC",
        "AdaSAC",
        "The Adaptive Soft Actor-Critic (Algorithm 2): the two members with the smallest losses form the target.",
    ),
    "randsac": ("RandSAC", "RandSAC", "AdaSAC with a random pair of members as target, one of the paper's ablations."),
    "sac": ("SAC", "SAC", "Soft Actor-Critic: AdaSAC with two equal members; a single given member is used twice."),
    "adatd3": (
        "AdaTD3",
        "AdaTD3",
        "TD3 with an ensemble of critics: the two members with the smallest losses form the target.",
    ),
    "randtd3": ("RandTD3", "RandTD3", "AdaTD3 with a random pair of members as target."),
    "td3": ("TD3", "TD3", "Twin Delayed DDPG: AdaTD3 with two equal members; a single given member is used twice."),
    "random-search": (
        "RandomSearch",
        "Random search",
        "Trials with hyperparameters drawn at random, each for `trial_steps` steps." + _SEARCH,
    ),
    "dehb": (
        "DEHB",
        "DEHB",
        "Differential evolution with Hyperband's brackets: promising hyperparameters are trained for more steps."
        + _SEARCH,
    ),
}


def _described(name: str, entry: Algorithm) -> Algorithm:
    public, label, about = _PUBLIC[name]
    return replace(entry, public=public, label=label, about=about)


ALGORITHMS = {name: _described(name, entry) for name, entry in _ENTRIES.items()}
# A search looks up its base by name, among those above.
_SEARCHES = {"random-search": search_with(RandomSearchSettings), "dehb": search_with(DEHBSettings)}
ALGORITHMS |= {name: _described(name, entry) for name, entry in _SEARCHES.items()}
