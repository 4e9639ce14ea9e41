"""Settings of an algorithm as dataclasses: every field has a default, a sentence for the user, and a check.

Nothing here or in the settings of a family imports JAX, so that the command line can list them at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from adaqn.checks import Check, at_least, between, flag, one_of, optional, some_of
from adaqn.errors import UserError
from adaqn.evolution.registry import DEFAULT_MUTATIONS, exploit_rules, mutation_names
from adaqn.selection import behaviour_rules, takes_temperature, target_rules


class MinimumSteps(NamedTuple):
    """The length that a run must have for anything to be learned."""

    steps: int
    reason: str  # why fewer are not enough, and what to do about it


def setting(default: Any, help: str, check: Check, choices: Callable[[], Sequence[str]] | None = None) -> Any:
    """A field of a settings class: the sentence that the command line shows, and what is allowed."""
    return field(default=default, metadata={"help": help, "check": check, "choices": choices})


def named(default: Any, help: str, names: Callable[[], Sequence[str]]) -> Any:
    """A field whose value is one of several names, or None where that is its default."""
    check = one_of(names)
    return setting(default, help, optional(check) if default is None else check, names)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every algorithm has. Periods and durations count environment steps."""

    gamma: float = setting(
        0.99, "discount by which members are compared, and which they learn with by default", between(0.0, 1.0)
    )
    learning_starts: int = setting(1_000, "steps taken before the first update", at_least(0))
    buffer_size: int = setting(100_000, "transitions that the replay buffer holds", at_least(1))
    batch_size: int = setting(64, "transitions in one update", at_least(1))
    train_freq: int = setting(1, "steps between updates", at_least(1))
    n_steps: int = setting(1, "steps over which a return is summed before it is bootstrapped", at_least(1))

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            object.__setattr__(self, item.name, item.metadata["check"](item.name, getattr(self, item.name)))

    @property
    def minimum_steps(self) -> MinimumSteps:
        """The first update must come."""
        return until_learning(self.learning_starts)


def until_learning(learning_starts: int) -> MinimumSteps:
    """A run must reach the first step after which something is learned."""
    reason = (
        f"it would never learn, because learning_starts is {learning_starts}; "
        "take more steps or a smaller learning_starts"
    )
    return MinimumSteps(learning_starts + 1, reason)


@dataclass(frozen=True, kw_only=True)
class EvolutionSettings:
    """How members move through a space of hyperparameters; without a space they stay what they are."""

    population: int = setting(5, "members drawn from the space, where a space is given and no members are", at_least(1))
    generation_interval: int = setting(10_000, "steps between generations, where a space is given", at_least(1))
    exploit: str = named("tournament", "rule for who survives a generation", exploit_rules)
    mutations: tuple[str, ...] = setting(
        DEFAULT_MUTATIONS, "mutations that may happen, all equally likely", some_of(mutation_names), mutation_names
    )
    reset_weights: bool = setting(False, "let mutated members start with fresh weights instead of their parent's", flag)


EVOLUTION_NAMES = tuple(item.name for item in dataclasses.fields(EvolutionSettings))


@dataclass(frozen=True, kw_only=True)
class SelectionSettings(EvolutionSettings):
    """How the target and the behaviour member are chosen from the cumulated losses."""

    behaviour_initial_eps: float = setting(
        1.0, "probability that any member acts, not the target member, at the start", between(0.0, 1.0)
    )
    behaviour_final_eps: float = setting(0.01, "probability that any member acts, in the end", between(0.0, 1.0))
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
        """Raise if a temperature was given to a rule that has none."""
        default = {item.name: item.default for item in dataclasses.fields(self)}["selection_temperature"]
        if self.selection_temperature != default and not takes_temperature(self.selection):
            raise UserError(
                f"selection_temperature is for selection=softmax, but selection is {self.selection!r} "
                f"and got selection_temperature={self.selection_temperature!r}"
            )
