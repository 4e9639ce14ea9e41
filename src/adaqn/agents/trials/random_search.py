"""Random search within one run: an agent with hyperparameters drawn from a space, then another, each for as long."""

from __future__ import annotations

from dataclasses import dataclass

from adaqn.agents.core.settings import setting
from adaqn.agents.trials.settings import TrialSettings
from adaqn.checks import at_least
from adaqn.search import RandomSearch


@dataclass(frozen=True, kw_only=True)
class RandomSearchSettings(TrialSettings):
    """How long a trial takes, and what all of them share."""

    trial_steps: int = setting(50_000, "steps of a trial", at_least(1))

    @property
    def shortest_trial(self) -> int:
        """All take as long."""
        return self.trial_steps

    def searcher(self, dimensions: int) -> RandomSearch:
        """Uniform vectors, all for `trial_steps` steps."""
        return RandomSearch(dimensions, self.trial_steps)
