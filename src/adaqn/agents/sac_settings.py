"""What all members of AdaSAC share, and the actor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adaqn.agents.catalogue import LeastSteps, setting, until_learning
from adaqn.agents.evolution_settings import EvolutionSettings
from adaqn.errors import UserError, count, number
from adaqn.hyperparameters import ACTIVATIONS, OPTIMIZERS, Hyperparameters, layers_from_text
from adaqn.limits import most
from adaqn.selection import behaviour_rule, behaviour_rules, target_rule, target_rules

AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class SACSettings(EvolutionSettings):
    """Periods and durations count environment steps."""

    gamma: float = setting(0.99, "discount by which members are compared, and which they learn with by default")
    learning_starts: int = setting(1_000, "steps taken before the first update, with uniformly random actions")
    buffer_size: int = setting(1_000_000, "transitions that the replay buffer holds")
    batch_size: int = setting(256, "transitions in one update")
    train_freq: int = setting(1, "steps between updates")
    gradient_steps: int = setting(
        1, "updates of the critics made each time (UTD), the last one followed by the actor's"
    )
    policy_delay: int = setting(1, "the actor is updated every so many times that the critics are")
    tau: float = setting(0.005, "rate at which target critics and cumulated losses follow")
    n_steps: int = setting(1, "steps over which a return is summed before it is bootstrapped")
    ent_coef: str | float = setting(AUTO, "entropy coefficient, a number, or auto to learn it from 1 on")
    target_entropy: str | float = setting(AUTO, "entropy that auto aims at, a number, or auto for minus the dimension")
    actor_hidden: str = setting("256x256", "hidden layers of the actor")
    actor_activation: str = setting("relu", "activation of the actor", lambda: ACTIVATIONS)
    actor_optimizer: str = setting("adam", "optimizer of the actor and the entropy coefficient", lambda: OPTIMIZERS)
    actor_learning_rate: float = setting(1e-3, "learning rate of the actor and the entropy coefficient")
    behaviour_initial_eps: float = setting(1.0, "probability that any pair of members trains the actor, at the start")
    behaviour_final_eps: float = setting(0.01, "the same in the end")
    behaviour_steps: int | None = setting(None, "steps over which it decays (default: until the end of the run)")
    selection: str = setting("lowest", "rule for the target pair", target_rules)
    behaviour: str | None = setting(
        None, "rule for the behaviour pair (default: epsilon, or inverse_loss with a space)", behaviour_rules
    )
    selection_interval: int = setting(1_000, "steps that a row of selection.csv sums up")

    def __post_init__(self) -> None:
        super().__post_init__()
        set_field = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (frozen)
        for name in ("gamma", "tau", "behaviour_initial_eps", "behaviour_final_eps"):
            set_field(name, number(name, getattr(self, name), 0.0, 1.0))
        set_field("learning_starts", count("learning_starts", self.learning_starts))
        for name in (
            "buffer_size",
            "batch_size",
            "train_freq",
            "gradient_steps",
            "policy_delay",
            "n_steps",
            "selection_interval",
        ):
            set_field(name, count(name, getattr(self, name), low=1, high=most(name)))
        if self.ent_coef != AUTO:
            set_field("ent_coef", number("ent_coef (auto, or a number)", self.ent_coef, low=0.0))
        if self.target_entropy != AUTO:
            set_field("target_entropy", number("target_entropy (auto, or a number)", self.target_entropy))
        if self.behaviour_steps is not None:
            set_field("behaviour_steps", count("behaviour_steps", self.behaviour_steps))
        set_field("actor_hidden", _layers_text(self.actor_hidden))
        set_field("actor_learning_rate", self.actor.learning_rate)
        target_rule(self.selection)
        if self.behaviour is not None:
            behaviour_rule(self.behaviour)

    @property
    def least_steps(self) -> LeastSteps:
        """The first update must come."""
        return until_learning(self.learning_starts)

    @property
    def actor(self) -> Hyperparameters:
        """The actor's network and optimizer, which are checked as a member's are."""
        return Hyperparameters(
            hidden=layers_from_text(self.actor_hidden),
            activation=self.actor_activation,
            optimizer=self.actor_optimizer,
            learning_rate=self.actor_learning_rate,
        )

    def target_entropy_of(self, actions: int) -> float:
        """The entropy that a learned coefficient aims at, for so many dimensions of the actions."""
        return -float(actions) if self.target_entropy == AUTO else float(self.target_entropy)


def _layers_text(hidden: str | Sequence[int]) -> str:
    """Layers as one value, so that a configuration reads the same from Python, YAML and the command line."""
    if isinstance(hidden, str):
        return hidden
    if isinstance(hidden, int) and not isinstance(hidden, bool):
        hidden = (hidden,)
    try:
        return "x".join(str(count("the width of a hidden layer", width, low=1)) for width in hidden) or "linear"
    except TypeError:
        raise UserError(f"actor_hidden must be layer widths such as 256x256, but got {hidden!r}") from None
