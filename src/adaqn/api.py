"""The public classes, with Stable-Baselines3's names; what they share is in `model.Model`."""

from __future__ import annotations

from typing import Unpack

from adaqn.agents.events import TrialEnd
from adaqn.agents.trials.agent import TrialAgent
from adaqn.envs.source import EnvironmentLike
from adaqn.model import MODELS, Members, Model, model_class
from adaqn.signatures import (
    DEHBArguments,
    DQNArguments,
    OneDQNArguments,
    OneSACArguments,
    OneTD3Arguments,
    RandomSearchArguments,
    SACArguments,
    SEARLArguments,
    TD3Arguments,
)

__all__ = [
    "DEHB",
    "DQN",
    "MODELS",
    "SAC",
    "SEARL",
    "TD3",
    "AdaDQN",
    "AdaDQNMax",
    "AdaSAC",
    "AdaTD3",
    "Model",
    "RandDQN",
    "RandSAC",
    "RandTD3",
    "RandomSearch",
    "model_class",
]


class _DQNFamily(Model):
    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[DQNArguments]) -> None:
        super().__init__(env, members, **settings)


class AdaDQN(_DQNFamily):
    """The Adaptive Deep Q-Network (Algorithm 1): the member with the smallest cumulated loss becomes the target."""

    algo = "adadqn"


class RandDQN(_DQNFamily):
    """AdaDQN with a random member as target, one of the paper's ablations."""

    algo = "randdqn"


class AdaDQNMax(_DQNFamily):
    """AdaDQN with the member of the largest cumulated loss as target, one of the paper's ablations."""

    algo = "adadqn-max"


class DQN(Model):
    """The Deep Q-Network: AdaDQN with one member."""

    algo = "dqn"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[OneDQNArguments]) -> None:
        super().__init__(env, members, **settings)


class SEARL(Model):
    """Members that are judged by the returns they get when acting alone; the best of them acts in `predict`.

    It needs a space of hyperparameters, and one environment whose episodes end: until the current one does, the
    next member waits, and so does learning.
    """

    algo = "searl"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[SEARLArguments]) -> None:
        super().__init__(env, members, **settings)


class _Search(Model):
    """Trial after trial within one run, each a fresh agent (`base`, by default DQN) with hyperparameters of a space.

    `predict`, `export` and evaluations use the best of the finished trials with the most steps; `members` has the
    trial under way.
    """

    @property
    def best_trial(self) -> TrialEnd | None:
        """The trial that `predict` acts with, or None before one is finished that did not fail."""
        agent = self._trainer.agent
        assert isinstance(agent, TrialAgent), "all searches are made of trials"
        return agent.best_trial(self._trainer.state)


class RandomSearch(_Search):
    """Trials with hyperparameters drawn at random, each for `trial_steps` steps."""

    algo = "random-search"

    def __init__(
        self, env: EnvironmentLike, members: Members = None, **settings: Unpack[RandomSearchArguments]
    ) -> None:
        super().__init__(env, members, **settings)


class DEHB(_Search):
    """Differential evolution in the brackets of Hyperband: promising hyperparameters are given more steps."""

    algo = "dehb"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[DEHBArguments]) -> None:
        super().__init__(env, members, **settings)


class _SACFamily(Model):
    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[SACArguments]) -> None:
        super().__init__(env, members, **settings)


class AdaSAC(_SACFamily):
    """The Adaptive Soft Actor-Critic (Algorithm 2): the two members with the smallest losses make up the target."""

    algo = "adasac"


class RandSAC(_SACFamily):
    """AdaSAC with a random pair of members as target, one of the paper's ablations."""

    algo = "randsac"


class SAC(Model):
    """The Soft Actor-Critic: AdaSAC with two equal members; one is given, or none."""

    algo = "sac"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[OneSACArguments]) -> None:
        super().__init__(env, members, **settings)


class _TD3Family(Model):
    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[TD3Arguments]) -> None:
        super().__init__(env, members, **settings)


class AdaTD3(_TD3Family):
    """TD3 with an ensemble of critics: the two members with the smallest losses make up the target."""

    algo = "adatd3"


class RandTD3(_TD3Family):
    """AdaTD3 with a random pair of members as target."""

    algo = "randtd3"


class TD3(Model):
    """The Twin Delayed DDPG: AdaTD3 with two equal members; one is given, or none."""

    algo = "td3"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[OneTD3Arguments]) -> None:
        super().__init__(env, members, **settings)
