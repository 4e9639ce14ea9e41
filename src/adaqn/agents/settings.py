"""Settings of the algorithms as dataclasses: every field has a default, a help text and a validator.

This module does not import JAX, so that the command line can list them quickly. Settings of searches are in `trials`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from adaqn.base.checks import Check, at_least, auto_or, between, count, flag, number, one_of, optional, some_of
from adaqn.base.errors import UserError
from adaqn.members.evolution.registry import DEFAULT_MUTATIONS, exploit_rules, mutation_names
from adaqn.members.hyperparameters import (
    ACTIVATIONS,
    BLOCKS,
    NORMALIZATIONS,
    OPTIMIZERS,
    Hyperparameters,
    layers_from_text,
)
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


@dataclass(frozen=True, kw_only=True)
class PlainDQNSettings(ImageSettings):
    """Settings of DQN with one member."""

    gradient_steps: int = setting(1, "updates per training step", at_least(1))
    target_update_interval: int = setting(
        200, "steps between target updates, at which the target member is chosen", at_least(1)
    )
    exploration_initial_eps: float = setting(1.0, "initial probability of a random action", between(0.0, 1.0))
    exploration_final_eps: float = setting(0.01, "final probability of a random action", between(0.0, 1.0))
    exploration_steps: int = setting(5_000, "steps over which the probability of a random action decays", at_least(0))
    double_q: bool = setting(
        False, "double Q-learning: the target member's online network chooses the next action", flag
    )


def layers_text(name: str, given: str | int | Sequence[int]) -> str:
    """Layer widths as text, so that a configuration is the same from Python, YAML and the command line."""
    try:
        if isinstance(given, str):
            layers_from_text(given)
            return given
        if isinstance(given, Mapping):
            raise TypeError
        widths = (given,) if isinstance(given, int) else given
        return "x".join(str(count("the width of a hidden layer", width, low=1)) for width in widths) or "linear"
    except TypeError:
        raise UserError(f"{name} must be layer widths such as 256x256, but got {given!r}") from None
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


@dataclass(frozen=True, kw_only=True)
class ActorSettings(Settings):
    """Settings of all actor-critic algorithms."""

    learning_starts: int = setting(1_000, "steps before the first update, with uniformly random actions", at_least(0))
    buffer_size: int = setting(1_000_000, "capacity of the replay buffer in transitions", at_least(1))
    batch_size: int = setting(256, "transitions per update", at_least(1))
    gradient_steps: int = setting(
        1, "critic updates per training step (UTD); the last one is followed by the actor's", at_least(1)
    )
    policy_delay: int = setting(1, "training steps between updates of the actor", at_least(1))
    tau: float = setting(0.005, "rate of the Polyak averages of target critics and cumulated losses", between(0.0, 1.0))
    actor_hidden: str = setting("256x256", "hidden layers of the actor", layers_text)
    actor_activation: str = named("relu", "activation of the actor", lambda: ACTIVATIONS)
    actor_normalization: str = named("none", "normalization of the actor's hidden layers", lambda: NORMALIZATIONS)
    actor_block: str = named("plain", "kind of the actor's hidden layers", lambda: BLOCKS)
    actor_optimizer: str = named("adam", "optimizer of the actor", lambda: OPTIMIZERS)
    actor_learning_rate: float = setting(1e-3, "learning rate of the actor", between(0.0))
    selection_interval: int = setting(1_000, "steps summarized by one row of selection.csv", at_least(1))

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "actor_learning_rate", self.actor.learning_rate)

    @property
    def actor(self) -> Hyperparameters:
        """The actor's network and optimizer, validated like a member's."""
        return Hyperparameters(
            hidden=layers_from_text(self.actor_hidden),
            activation=self.actor_activation,
            normalization=self.actor_normalization,
            block=self.actor_block,
            optimizer=self.actor_optimizer,
            learning_rate=self.actor_learning_rate,
        )


@dataclass(frozen=True, kw_only=True)
class PairSettings(ActorSettings, SelectionSettings):
    """Settings that all members share, and how pairs of them are chosen."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_used_temperature()


@dataclass(frozen=True, kw_only=True)
class DQNSettings(PlainDQNSettings, SelectionSettings):
    """Settings that all members share, and how members are chosen."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_used_temperature()


AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class PlainSACSettings(ActorSettings):
    """Settings of SAC with two equal critics."""

    ent_coef: str | float = setting(
        AUTO, "entropy coefficient: a number, or auto to learn it, starting at 1", auto_or(between(0.0))
    )
    target_entropy: str | float = setting(
        AUTO, "target entropy for ent_coef=auto: a number, or auto for minus the action dimension", auto_or(number)
    )

    def target_entropy_of(self, actions: int) -> float:
        """The target entropy for this number of action dimensions."""
        return -float(actions) if self.target_entropy == AUTO else float(self.target_entropy)


@dataclass(frozen=True, kw_only=True)
class SACSettings(PlainSACSettings, PairSettings):
    """Settings that all members share, and how pairs of them are chosen."""


@dataclass(frozen=True, kw_only=True)
class PlainTD3Settings(ActorSettings):
    """Settings of TD3 with two equal critics."""

    gradient_steps: int = setting(1, "critic updates per training step (UTD)", at_least(1))
    policy_delay: int = setting(2, "critic updates per update of the actor and of all target networks", at_least(1))
    action_noise: float = setting(
        0.1, "standard deviation of the exploration noise, for actions in [-1, 1]", between(0.0)
    )
    target_policy_noise: float = setting(0.2, "standard deviation of the noise on the target actions", between(0.0))
    target_noise_clip: float = setting(0.5, "clipping range of the noise on the target actions", between(0.0))


@dataclass(frozen=True, kw_only=True)
class TD3Settings(PlainTD3Settings, PairSettings):
    """Settings that all members share, and how pairs of them are chosen."""


@dataclass(frozen=True, kw_only=True)
class MetaGradientSettings(PlainDQNSettings):
    """Settings of meta-gradient DQN. `gamma` is γ̄; the learned discount starts at the member's `discount`."""

    meta_learning_rate: float = setting(0.001, "learning rate of the discount's logit, with Adam", between(0.0))

    @property
    def sample_size(self) -> int:
        """Two batches: the inner update learns from the first one, and is judged on the second one."""
        return 2 * self.batch_size


@dataclass(frozen=True, kw_only=True)
class SEARLSettings(ImageSettings, EvolutionSettings):
    """Settings that all members share. A generation takes at least `generation_interval` steps.

    `target_update_interval` counts environment steps, as for DQN: in the burst of updates that follows, targets are
    updated after every `target_update_interval / train_freq` updates, and also after each generation.
    """

    gamma: float = setting(0.99, "default discount factor of the members", between(0.0, 1.0))
    learning_starts: int = setting(
        0, "steps before the first update; earlier generations only compare members", at_least(0)
    )
    train_freq: int = setting(1, "samples per update at the end of a generation", at_least(1))
    target_update_interval: int = setting(
        200,
        "environment steps between updates of each member's target, counted during the burst of updates",
        at_least(1),
    )

    @property
    def minimum_steps(self) -> MinimumSteps:
        """A run must finish its first generation, because members learn only at its end."""
        if self.learning_starts >= self.generation_interval:
            return until_learning(self.learning_starts)
        reason = (
            "it would never learn, because members learn at the end of a generation, which takes at least "
            f"{self.generation_interval} steps (generation_interval); "
            "use more steps or shorter generations"
        )
        return MinimumSteps(self.generation_interval, reason)
