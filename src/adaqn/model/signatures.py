"""The arguments of each public class, for editors and `help`: the settings of its algorithm with their types.

Editors read the typed dictionaries; `inspect.signature` reads types and defaults from the settings classes. A test
checks that the two agree.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from adaqn.agents.population import Scheduled
from adaqn.agents.registry import Algorithm
from adaqn.members.space import SearchSpace


class RunArguments(TypedDict, total=False):
    """Arguments of every class besides the environment and the members."""

    space: SearchSpace | str | Mapping[str, object] | None
    schedule: Sequence[Scheduled | Mapping[str, object]] | str | Path | None
    base: str | None
    seed: int
    n_envs: int
    threads: int | Literal["auto"] | None
    env_kwargs: Mapping[str, object] | None
    wrappers: Sequence[object]
    imports: Sequence[str]


class OneKindArguments(TypedDict, total=False):
    """Hyperparameters under Stable-Baselines3's names, for the classes whose members are all equal."""

    learning_rate: float | None
    policy_kwargs: Mapping[str, object] | None


class EvolutionArguments(TypedDict, total=False):
    """The fields of `EvolutionSettings`."""

    population: int
    generation_interval: int
    exploit: str
    mutations: tuple[str, ...]
    reset_weights: bool


class SelectionArguments(EvolutionArguments, total=False):
    """The fields of `SelectionSettings`."""

    behaviour_initial_eps: float
    behaviour_final_eps: float
    behaviour_steps: int | None
    selection: str
    selection_temperature: float
    behaviour: str | None


class CommonArguments(TypedDict, total=False):
    """The fields of `Settings`."""

    gamma: float
    learning_starts: int
    buffer_size: int
    batch_size: int
    train_freq: int
    n_steps: int
    normalize_observations: bool


class PlainDQNArguments(CommonArguments, total=False):
    """The fields of `PlainDQNSettings`."""

    image_scale: float | None
    gradient_steps: int
    target_update_interval: int
    exploration_initial_eps: float
    exploration_final_eps: float
    exploration_steps: int
    double_q: bool


class DQNArguments(RunArguments, PlainDQNArguments, SelectionArguments, total=False):
    """The fields of `DQNSettings`."""


class OneDQNArguments(DQNArguments, OneKindArguments, total=False):
    """The arguments of `DQN`."""


class MetaGradientArguments(RunArguments, PlainDQNArguments, OneKindArguments, total=False):
    """The arguments of `MetaGradientDQN`."""

    meta_learning_rate: float


class ActorArguments(CommonArguments, total=False):
    """The fields of `ActorSettings`."""

    gradient_steps: int
    policy_delay: int
    tau: float
    actor_hidden: str
    actor_activation: str
    actor_normalization: str
    actor_block: str
    actor_optimizer: str
    actor_learning_rate: float
    selection_interval: int


class SACArguments(RunArguments, ActorArguments, SelectionArguments, total=False):
    """The fields of `SACSettings`."""

    ent_coef: str | float
    target_entropy: str | float


class OneSACArguments(SACArguments, OneKindArguments, total=False):
    """The arguments of `SAC`."""


class TD3Arguments(RunArguments, ActorArguments, SelectionArguments, total=False):
    """The fields of `TD3Settings`."""

    action_noise: float
    target_policy_noise: float
    target_noise_clip: float


class OneTD3Arguments(TD3Arguments, OneKindArguments, total=False):
    """The arguments of `TD3`."""


class SEARLArguments(RunArguments, CommonArguments, EvolutionArguments, total=False):
    """The fields of `SEARLSettings`."""

    image_scale: float | None
    target_update_interval: int


class TrialArguments(RunArguments, PlainDQNArguments, total=False):
    """The fields of `TrialSettings`."""

    epoch_steps: int
    keep_replay: bool


class RandomSearchArguments(TrialArguments, total=False):
    """The fields of `RandomSearchSettings`."""

    trial_steps: int


class DEHBArguments(TrialArguments, total=False):
    """The fields of `DEHBSettings`."""

    min_trial_steps: int
    max_trial_steps: int
    eta: int


def other_arguments(algorithm: Algorithm) -> tuple[str, ...]:
    """The names of the arguments of an algorithm's class that are not settings, without the environment."""
    one_kind = () if algorithm.copies is None else tuple(OneKindArguments.__annotations__)
    return ("members", *RunArguments.__annotations__, *one_kind)


def signature_of(init: Callable[..., object], algorithm: Algorithm) -> inspect.Signature:
    """The signature of a class: `Model.__init__` with the algorithm's settings in place of `**settings`."""
    types = {name: hint.__forward_arg__ for name, hint in RunArguments.__annotations__.items()}
    own = [  # without self; with the types for users, where adaqn itself may pass others
        p.replace(annotation=types.get(p.name, p.annotation))
        for p in list(inspect.signature(init).parameters.values())[1:]
        if p.kind is not p.VAR_KEYWORD
    ]
    settings = [
        inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=algorithm.overrides.get(f.name, f.default),
            annotation=f.type,
        )
        for f in dataclasses.fields(algorithm.settings)
    ]
    if algorithm.copies is not None:
        settings += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint.__forward_arg__)
            for name, hint in OneKindArguments.__annotations__.items()
        ]
    return inspect.Signature([*own, *settings])
