"""Random search within one run: a DQN with hyperparameters drawn from a space, then another, each for as long."""

from __future__ import annotations

from dataclasses import dataclass

from adaqn.agents.catalogue import Algorithm, agent_class, setting
from adaqn.agents.trial_settings import TrialSettings
from adaqn.errors import count
from adaqn.search import RandomSearch


@dataclass(frozen=True, kw_only=True)
class RandomSearchSettings(TrialSettings):
    """How long a trial takes, and what all of them share."""

    trial_steps: int = setting(50_000, "steps of a trial")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "trial_steps", count("trial_steps", self.trial_steps, low=1))
        self._require_learning()

    @property
    def shortest_trial(self) -> int:
        """All take as long."""
        return self.trial_steps

    def searcher(self, dimensions: int) -> RandomSearch:
        """Uniform vectors, all for `trial_steps` steps."""
        return RandomSearch(dimensions, self.trial_steps)


_AGENT = agent_class("adaqn.agents.trials:TrialAgent")

ALGORITHMS = {"random-search": Algorithm(RandomSearchSettings, _AGENT, lambda _: (), space="required", trials=True)}
