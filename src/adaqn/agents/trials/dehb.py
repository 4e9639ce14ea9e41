"""DEHB within one run: hyperparameters evolve from trial to trial, and the promising ones are given more steps."""

from __future__ import annotations

from dataclasses import dataclass

from adaqn.agents.core.settings import setting
from adaqn.agents.trials.settings import TrialSettings
from adaqn.checks import at_least
from adaqn.errors import UserError
from adaqn.limits import TRIALS
from adaqn.search import DEHB
from adaqn.search.hyperband import Bracket, brackets, fidelities


@dataclass(frozen=True, kw_only=True)
class DEHBSettings(TrialSettings):
    """The bounds of the steps of a trial, and what all of them share."""

    min_trial_steps: int = setting(10_000, "fewest steps that a trial may take", at_least(1))
    max_trial_steps: int = setting(90_000, "most steps that a trial may take", at_least(1))
    eta: int = setting(3, "by what factor the steps grow, and the trials get fewer, from rung to rung", at_least(2))

    @property
    def shortest_trial(self) -> int:
        """The steps of the lowest rung."""
        if self.max_trial_steps < self.min_trial_steps:
            raise UserError(
                f"max_trial_steps must be at least min_trial_steps, which is {self.min_trial_steps}, "
                f"but got {self.max_trial_steps}"
            )
        first_rungs = [bracket[0].configurations for bracket in self._brackets]
        if max(first_rungs) > TRIALS:
            raise UserError(
                f"a bracket would begin with {max(first_rungs)} trials, but there can be at most {TRIALS}: raise "
                f"min_trial_steps, {self.min_trial_steps}, or lower max_trial_steps, {self.max_trial_steps}"
            )
        return fidelities(self._brackets)[0]

    @property
    def _brackets(self) -> tuple[Bracket, ...]:
        return brackets(self.min_trial_steps, self.max_trial_steps, self.eta)

    def searcher(self, dimensions: int) -> DEHB:
        """Differential evolution over brackets with these bounds."""
        return DEHB(dimensions, self.min_trial_steps, self.max_trial_steps, self.eta)
