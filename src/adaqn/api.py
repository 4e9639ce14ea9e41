"""The public classes, with Stable-Baselines3's names; their shared code is in `model.Model`."""

from __future__ import annotations

from typing import Unpack

from adaqn.agents.protocol import TrialEnd
from adaqn.agents.trials.agent import TrialAgent
from adaqn.envs.source import EnvironmentLike
from adaqn.model.model import MODELS, Members, Model, model_class
from adaqn.model.signatures import (
    DEHBArguments,
    DQNArguments,
    MetaGradientArguments,
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
    "MetaGradientDQN",
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
    """AdaDQN with a random target member, one of the paper's ablations."""

    algo = "randdqn"


class AdaDQNMax(_DQNFamily):
    """AdaDQN with the member with the largest cumulated loss as target, one of the paper's ablations."""

    algo = "adadqn-max"


class DQN(Model):
    """The Deep Q-Network: AdaDQN with one member."""

    algo = "dqn"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[OneDQNArguments]) -> None:
        super().__init__(env, members, **settings)


class MetaGradientDQN(Model):
    """DQN that learns its discount by a meta-gradient (Xu et al., 2018), cross-validated with `gamma`.

    The discount starts at the member's `discount`, by default at `gamma`. Each update samples two batches.
    """

    algo = "metagradient"

    def __init__(
        self, env: EnvironmentLike, members: Members = None, **settings: Unpack[MetaGradientArguments]
    ) -> None:
        super().__init__(env, members, **settings)


class SEARL(Model):
    """Evolution of members by the returns they achieve when acting alone; the best member acts in `predict`.

    Needs a search space and a single environment whose episodes end: the next member, and learning, wait for the end
    of the current episode.
    """

    algo = "searl"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[SEARLArguments]) -> None:
        super().__init__(env, members, **settings)


class _Search(Model):
    """Sequential trials in one run, each a fresh agent (`base`, by default DQN) with hyperparameters from a space.

    `predict`, `export` and evaluations use the best of the finished trials with the most steps; `members` describes
    the current trial.
    """

    @property
    def best_trial(self) -> TrialEnd | None:
        """The trial that `predict` acts with, or None until a trial has finished without failing."""
        agent = self._trainer.agent
        assert isinstance(agent, TrialAgent), "all searches consist of trials"
        return agent.best_trial(self._trainer.state)


class RandomSearch(_Search):
    """Trials with hyperparameters drawn at random, each for `trial_steps` steps."""

    algo = "random-search"

    def __init__(
        self, env: EnvironmentLike, members: Members = None, **settings: Unpack[RandomSearchArguments]
    ) -> None:
        super().__init__(env, members, **settings)


class DEHB(_Search):
    """Differential evolution with Hyperband's brackets: promising hyperparameters are trained for more steps."""

    algo = "dehb"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[DEHBArguments]) -> None:
        super().__init__(env, members, **settings)


class _SACFamily(Model):
    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[SACArguments]) -> None:
        super().__init__(env, members, **settings)


class AdaSAC(_SACFamily):
    """The Adaptive Soft Actor-Critic (Algorithm 2): the two members with the smallest losses form the target."""

    algo = "adasac"


class RandSAC(_SACFamily):
    """AdaSAC with a random pair of members as target, one of the paper's ablations."""

    algo = "randsac"


class SAC(Model):
    """Soft Actor-Critic: AdaSAC with two equal members; a single given member is used twice."""

    algo = "sac"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[OneSACArguments]) -> None:
        super().__init__(env, members, **settings)


class _TD3Family(Model):
    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[TD3Arguments]) -> None:
        super().__init__(env, members, **settings)


class AdaTD3(_TD3Family):
    """TD3 with an ensemble of critics: the two members with the smallest losses form the target."""

    algo = "adatd3"


class RandTD3(_TD3Family):
    """AdaTD3 with a random pair of members as target."""

    algo = "randtd3"


class TD3(Model):
    """Twin Delayed DDPG: AdaTD3 with two equal members; a single given member is used twice."""

    algo = "td3"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[OneTD3Arguments]) -> None:
        super().__init__(env, members, **settings)
