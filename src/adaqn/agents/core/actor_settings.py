"""Settings of the actor-critic algorithms for continuous actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adaqn.agents.core.settings import SelectionSettings, Settings, named, setting
from adaqn.base.checks import at_least, between, count
from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import (
    ACTIVATIONS,
    BLOCKS,
    NORMALIZATIONS,
    OPTIMIZERS,
    Hyperparameters,
    layers_from_text,
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
