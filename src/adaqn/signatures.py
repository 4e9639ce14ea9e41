"""What each public class can be given, for editors and for `help`: the settings of its algorithm with their types.

An editor reads the typed dictionaries, and `inspect.signature` the defaults from the settings classes themselves; a
test holds the two together.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from adaqn.agents.catalogue import Algorithm, Scheduled
from adaqn.space import SearchSpace


class RunArguments(TypedDict, total=False):
    """What every class takes beside the environment and the members."""

    space: SearchSpace | str | Mapping[str, Any] | None
    schedule: Sequence[Scheduled | Mapping[str, Any]] | str | Path | None
    seed: int
    n_envs: int
    env_kwargs: Mapping[str, Any] | None
    wrappers: Sequence[Any]
    imports: Sequence[str]


class OneKindArguments(TypedDict, total=False):
    """Hyperparameters in Stable-Baselines3's words, for the classes with one kind of member."""

    learning_rate: float | None
    policy_kwargs: Mapping[str, Any] | None


class EvolutionArguments(TypedDict, total=False):
    """The fields of `EvolutionSettings`."""

    population: int
    generation_interval: int
    exploit: str
    reset_weights: bool


class PlainDQNArguments(TypedDict, total=False):
    """The fields of `PlainDQNSettings`."""

    gamma: float
    learning_starts: int
    buffer_size: int
    batch_size: int
    train_freq: int
    gradient_steps: int
    target_update_interval: int
    n_steps: int
    exploration_initial_eps: float
    exploration_final_eps: float
    exploration_steps: int


class DQNArguments(RunArguments, PlainDQNArguments, EvolutionArguments, total=False):
    """The fields of `DQNSettings`."""

    behaviour_initial_eps: float
    behaviour_final_eps: float
    behaviour_steps: int | None
    selection: str
    behaviour: str | None


class OneDQNArguments(DQNArguments, OneKindArguments, total=False):
    """What `DQN` takes."""


class SACArguments(RunArguments, EvolutionArguments, total=False):
    """The fields of `SACSettings`."""

    gamma: float
    learning_starts: int
    buffer_size: int
    batch_size: int
    train_freq: int
    gradient_steps: int
    policy_delay: int
    tau: float
    n_steps: int
    ent_coef: str | float
    target_entropy: str | float
    actor_hidden: str
    actor_activation: str
    actor_optimizer: str
    actor_learning_rate: float
    behaviour_initial_eps: float
    behaviour_final_eps: float
    behaviour_steps: int | None
    selection: str
    behaviour: str | None
    selection_interval: int


class OneSACArguments(SACArguments, OneKindArguments, total=False):
    """What `SAC` takes."""


class SEARLArguments(RunArguments, EvolutionArguments, total=False):
    """The fields of `SEARLSettings`."""

    gamma: float
    learning_starts: int
    buffer_size: int
    batch_size: int
    train_freq: int
    n_steps: int


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


def signature_of(init: Any, algorithm: Algorithm) -> inspect.Signature:
    """The signature of a class: that of `Model.__init__` with the algorithm's settings in place of `**settings`."""
    own = [p for p in inspect.signature(init).parameters.values() if p.kind is not p.VAR_KEYWORD][1:]  # without self
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
