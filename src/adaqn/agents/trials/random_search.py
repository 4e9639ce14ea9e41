"""Random search within one run: agents with sampled hyperparameters, one after the other, with equal budgets."""

from __future__ import annotations

from dataclasses import dataclass

from adaqn.agents.core.settings import setting
from adaqn.agents.trials.settings import TrialSettings
from adaqn.base.checks import at_least
from adaqn.members.search import RandomSearch


@dataclass(frozen=True, kw_only=True)
class RandomSearchSettings(TrialSettings):
    """The length of a trial, and the settings that all trials share."""

    trial_steps: int = setting(50_000, "steps of a trial", at_least(1))

    @property
    def shortest_trial(self) -> int:
        """The length of every trial."""
        return self.trial_steps

    def searcher(self, dimensions: int) -> RandomSearch:
        """Uniform random search with `trial_steps` steps per trial."""
        return RandomSearch(dimensions, self.trial_steps)
