"""What all members of SEARL share."""

from __future__ import annotations

from dataclasses import dataclass

from adaqn.agents.core.settings import EvolutionSettings, MinimumSteps, Settings, setting, until_learning
from adaqn.checks import at_least, between


@dataclass(frozen=True, kw_only=True)
class SEARLSettings(Settings, EvolutionSettings):
    """What all members share. A generation takes at least `generation_interval` steps: its episodes finish.

    `target_update_interval` counts environment steps, as for DQN, and so do the updates that make up for them: targets
    are renewed after every `target_update_interval / train_freq` updates, and after each generation.
    """

    gamma: float = setting(0.99, "discount that members learn with by default", between(0.0, 1.0))
    learning_starts: int = setting(
        0, "steps taken before the first update; earlier generations only compare members", at_least(0)
    )
    train_freq: int = setting(1, "samples for each update at the end of a generation", at_least(1))
    target_update_interval: int = setting(
        200,
        "steps between renewals of each member's target, counted over the samples that a burst of updates is for",
        at_least(1),
    )

    @property
    def minimum_steps(self) -> MinimumSteps:
        """The first generation must end: members learn then, and not before."""
        if self.learning_starts >= self.generation_interval:
            return until_learning(self.learning_starts)
        reason = (
            "it would never learn, because members do when a generation ends, which takes at least "
            f"{self.generation_interval} steps (generation_interval); "
            "take more steps or shorter generations"
        )
        return MinimumSteps(self.generation_interval, reason)
