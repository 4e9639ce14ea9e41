"""Settings of SEARL."""

from __future__ import annotations

from dataclasses import dataclass

from adaqn.agents.core.settings import EvolutionSettings, ImageSettings, MinimumSteps, setting, until_learning
from adaqn.base.checks import at_least, between


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
