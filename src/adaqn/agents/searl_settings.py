"""What all members of SEARL share, and its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adaqn.agents.catalogue import Algorithm, LeastSteps, agent_class, setting, until_learning
from adaqn.agents.evolution_settings import EvolutionSettings
from adaqn.errors import count, number
from adaqn.limits import most


@dataclass(frozen=True, kw_only=True)
class SEARLSettings(EvolutionSettings):
    """What all members share. A generation takes at least `generation_interval` steps: its episodes finish.

    `target_update_interval` counts environment steps, as for DQN. One update is made for `train_freq` of them, so
    targets are renewed after every `target_update_interval / train_freq` updates, and after each generation.
    """

    gamma: float = setting(0.99, "discount that members learn with by default")
    learning_starts: int = setting(0, "steps taken before the first update; earlier generations only compare members")
    buffer_size: int = setting(100_000, "transitions that the replay buffer holds")
    batch_size: int = setting(64, "transitions in one update")
    train_freq: int = setting(1, "samples for each update at the end of a generation")
    target_update_interval: int = setting(
        200, "environment steps between target updates, where one update stands for train_freq steps"
    )
    n_steps: int = setting(1, "steps over which a return is summed before it is bootstrapped")

    def __post_init__(self) -> None:
        super().__post_init__()
        checked: dict[str, Any] = {"gamma": number("gamma", self.gamma, 0.0, 1.0)}
        checked["learning_starts"] = count("learning_starts", self.learning_starts)
        for name in ("buffer_size", "batch_size", "train_freq", "target_update_interval", "n_steps"):
            checked[name] = count(name, getattr(self, name), low=1, high=most(name))
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def least_steps(self) -> LeastSteps:
        """The first generation must end: members learn then, and not before."""
        if self.learning_starts >= self.generation_interval:
            return until_learning(self.learning_starts)
        reason = (
            "it would never learn, because members do when a generation ends, which takes at least "
            f"{self.generation_interval} steps (generation_interval); "
            "take more steps or shorter generations"
        )
        return LeastSteps(self.generation_interval, reason)


ALGORITHMS = {
    "searl": Algorithm(
        SEARLSettings,
        agent_class("adaqn.agents.searl:SEARLAgent"),
        lambda _: (),
        space="required",
        one_environment=True,
    )
}
