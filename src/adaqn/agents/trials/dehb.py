"""DEHB within one run: hyperparameters evolve from trial to trial, and promising ones get a larger budget."""

from __future__ import annotations

from dataclasses import dataclass

from adaqn.agents.core.settings import setting
from adaqn.agents.trials.settings import TrialSettings
from adaqn.base.checks import TRIALS, at_least
from adaqn.base.errors import UserError
from adaqn.members.search import DEHB
from adaqn.members.search.dehb import Bracket, brackets, fidelities


@dataclass(frozen=True, kw_only=True)
class DEHBSettings(TrialSettings):
    """The bounds on the steps of a trial, and the settings that all trials share."""

    min_trial_steps: int = setting(10_000, "smallest budget of a trial in steps", at_least(1))
    max_trial_steps: int = setting(90_000, "largest budget of a trial in steps", at_least(1))
    eta: int = setting(3, "factor by which the steps grow and the trials get fewer from rung to rung", at_least(2))

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
                f"a bracket would start with {max(first_rungs)} trials, but at most {TRIALS} are allowed: raise "
                f"min_trial_steps, {self.min_trial_steps}, or lower max_trial_steps, {self.max_trial_steps}"
            )
        return fidelities(self._brackets)[0]

    @property
    def _brackets(self) -> tuple[Bracket, ...]:
        return brackets(self.min_trial_steps, self.max_trial_steps, self.eta)

    def searcher(self, dimensions: int) -> DEHB:
        """DEHB over brackets with these bounds."""
        return DEHB(dimensions, self.min_trial_steps, self.max_trial_steps, self.eta)
