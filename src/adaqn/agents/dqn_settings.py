"""What all members of AdaDQN share, and what a DQN needs of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adaqn.agents.catalogue import LeastSteps, setting, until_learning
from adaqn.agents.evolution_settings import EvolutionSettings
from adaqn.errors import count, number
from adaqn.limits import most
from adaqn.selection import behaviour_rule, behaviour_rules, target_rule, target_rules


@dataclass(frozen=True, kw_only=True)
class PlainDQNSettings:
    """What a DQN with one member needs. Periods and durations count environment steps."""

    gamma: float = setting(0.99, "discount by which members are compared, and which they learn with by default")
    learning_starts: int = setting(1_000, "steps taken before the first update")
    buffer_size: int = setting(100_000, "transitions that the replay buffer holds")
    batch_size: int = setting(64, "transitions in one update")
    train_freq: int = setting(1, "steps between updates")
    gradient_steps: int = setting(1, "updates made each time")
    target_update_interval: int = setting(200, "steps between target updates, when the target member is chosen")
    n_steps: int = setting(1, "steps over which a return is summed before it is bootstrapped")
    exploration_initial_eps: float = setting(1.0, "probability of a random action at the start")
    exploration_final_eps: float = setting(0.01, "probability of a random action in the end")
    exploration_steps: int = setting(5_000, "steps over which it decays")

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {"gamma": number("gamma", self.gamma, 0.0, 1.0)}
        for name in ("learning_starts", "exploration_steps"):
            checked[name] = count(name, getattr(self, name))
        for name in [
            "buffer_size",
            "batch_size",
            "train_freq",
            "gradient_steps",
            "target_update_interval",
            "n_steps",
        ]:
            checked[name] = count(name, getattr(self, name), low=1, high=most(name))
        for name in ("exploration_initial_eps", "exploration_final_eps"):
            checked[name] = number(name, getattr(self, name), 0.0, 1.0)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def least_steps(self) -> LeastSteps:
        """The first update must come."""
        return until_learning(self.learning_starts)


@dataclass(frozen=True, kw_only=True)
class DQNSettings(PlainDQNSettings, EvolutionSettings):
    """What all members share, and how they are chosen."""

    behaviour_initial_eps: float = setting(1.0, "probability that any member acts, not the target member, at the start")
    behaviour_final_eps: float = setting(0.01, "the same in the end")
    behaviour_steps: int | None = setting(None, "steps over which it decays (default: until the end of the run)")
    selection: str = setting("lowest", "rule for the target member", target_rules)
    behaviour: str | None = setting(
        None, "rule for the behaviour member (default: epsilon, or inverse_loss with a space)", behaviour_rules
    )

    def __post_init__(self) -> None:
        EvolutionSettings.__post_init__(self)
        PlainDQNSettings.__post_init__(self)
        for name in ("behaviour_initial_eps", "behaviour_final_eps"):
            object.__setattr__(self, name, number(name, getattr(self, name), 0.0, 1.0))
        if self.behaviour_steps is not None:
            object.__setattr__(self, "behaviour_steps", count("behaviour_steps", self.behaviour_steps))
        target_rule(self.selection)
        if self.behaviour is not None:
            behaviour_rule(self.behaviour)
