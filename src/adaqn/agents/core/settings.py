"""Settings of an algorithm as dataclasses: every field has a default, a help text and a validator.

Neither this module nor the settings of a family import JAX, so that the command line can list them quickly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from adaqn.base.checks import Check, at_least, between, flag, one_of, optional, some_of
from adaqn.base.errors import UserError
from adaqn.members.evolution.registry import DEFAULT_MUTATIONS, exploit_rules, mutation_names
from adaqn.members.selection import behaviour_rules, takes_temperature, target_rules


class MinimumSteps(NamedTuple):
    """The minimum length of a run that learns anything."""

    steps: int
    reason: str  # why fewer steps are not enough, and what to change


def setting(default: Any, help: str, check: Check, choices: Callable[[], Sequence[str]] | None = None) -> Any:
    """A field of a settings class, with the help text for the command line and a validator."""
    return field(default=default, metadata={"help": help, "check": check, "choices": choices})


def named(default: Any, help: str, names: Callable[[], Sequence[str]]) -> Any:
    """A field with one of several names as its value, or None if that is its default."""
    check = one_of(names)
    return setting(default, help, optional(check) if default is None else check, names)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of every algorithm. Periods and durations count environment steps."""

    gamma: float = setting(
        0.99, "discount factor that members are compared with, and their default for learning", between(0.0, 1.0)
    )
    learning_starts: int = setting(1_000, "steps before the first update", at_least(0))
    buffer_size: int = setting(100_000, "capacity of the replay buffer in transitions", at_least(1))
    batch_size: int = setting(64, "transitions per update", at_least(1))
    train_freq: int = setting(1, "steps between updates", at_least(1))
    n_steps: int = setting(1, "length of n-step returns", at_least(1))
    normalize_observations: bool = setting(
        False, "normalize vector observations by their running mean and variance", flag
    )

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            object.__setattr__(self, item.name, item.metadata["check"](item.name, getattr(self, item.name)))

    @property
    def sample_size(self) -> int:
        """The number of transitions sampled for one update."""
        return self.batch_size

    @property
    def minimum_steps(self) -> MinimumSteps:
        """A run must reach its first update."""
        return until_learning(self.learning_starts)


@dataclass(frozen=True, kw_only=True)
class ImageSettings(Settings):
    """Settings of the algorithms that also learn from images."""

    image_scale: float | None = setting(
        None,
        "factor that byte images are multiplied by (default: 1 / the highest value of the observation space)",
        optional(between(1e-6)),
    )


def until_learning(learning_starts: int) -> MinimumSteps:
    """The minimum length of a run that learns from `learning_starts` on."""
    reason = (
        f"it would never learn, because learning_starts is {learning_starts}; "
        "use more steps or a smaller learning_starts"
    )
    return MinimumSteps(learning_starts + 1, reason)


@dataclass(frozen=True, kw_only=True)
class EvolutionSettings:
    """How members evolve in a search space; without one they never change."""

    population: int = setting(5, "number of members sampled from the space, if none are given", at_least(1))
    generation_interval: int = setting(10_000, "steps between generations, if a space is given", at_least(1))
    exploit: str = named("tournament", "rule that chooses the survivors of a generation", exploit_rules)
    mutations: tuple[str, ...] = setting(
        DEFAULT_MUTATIONS,
        "mutations to choose from, all equally likely; by default also those of layer kinds, gradient clipping and "
        "weight decay, where the space varies them",
        some_of(mutation_names),
        mutation_names,
    )
    reset_weights: bool = setting(False, "initialize the weights of mutated members instead of inheriting them", flag)


EVOLUTION_NAMES = tuple(item.name for item in dataclasses.fields(EvolutionSettings))


@dataclass(frozen=True, kw_only=True)
class SelectionSettings(EvolutionSettings):
    """How the target member and the behaviour member are chosen by the cumulated losses."""

    behaviour_initial_eps: float = setting(
        1.0, "initial probability that a random member acts instead of the target member", between(0.0, 1.0)
    )
    behaviour_final_eps: float = setting(0.01, "final probability that a random member acts", between(0.0, 1.0))
    behaviour_steps: int | None = setting(
        None, "steps over which behaviour_eps decays (default: until the end of the run)", optional(at_least(0))
    )
    selection: str = named("lowest", "rule for the target member", target_rules)
    selection_temperature: float = setting(
        1.0, "temperature of the softmax rule, relative to the mean loss", between(1e-6)
    )
    behaviour: str | None = named(
        None, "rule for the behaviour member (default: epsilon, or inverse_loss with a space)", behaviour_rules
    )

    def require_used_temperature(self) -> None:
        """Raise if a temperature was given to a rule that does not use it."""
        default = {item.name: item.default for item in dataclasses.fields(self)}["selection_temperature"]
        if self.selection_temperature != default and not takes_temperature(self.selection):
            raise UserError(
                f"selection_temperature is for selection=softmax, but selection is {self.selection!r} "
                f"and got selection_temperature={self.selection_temperature!r}"
            )
