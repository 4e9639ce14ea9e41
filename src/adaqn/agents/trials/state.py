"""The state of a search: the current trial, its returns so far, and the best finished trial."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from adaqn.agents.events import TrialEnd
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.search import Trial


class Returns(NamedTuple):
    """The returns of a trial: individually for the last epoch, and the sum of all."""

    recent: tuple[tuple[int, float], ...] = ()  # (step of the trial at which an episode ended, its return)
    episodes: int = 0  # number of all episodes of the trial
    total: float = 0.0  # sum of their returns

    def add(self, step: int, totals: Sequence[float], epoch_steps: int) -> Returns:
        """Add episodes that ended at this step of the trial."""
        recent = (*self.recent, *((step, total) for total in totals))
        return Returns(
            tuple(end for end in recent if end[0] > step - epoch_steps),
            self.episodes + len(totals),
            self.total + sum(totals),
        )

    def mean(self, step: int, epoch_steps: int) -> float | None:
        """The mean return of the last epoch before this step, else of all episodes, else None."""
        last = [total for ended, total in self.recent if ended > step - epoch_steps]
        if last:
            return statistics.fmean(last)
        return self.total / self.episodes if self.episodes else None


class FinishedTrial(NamedTuple):
    """A finished trial with its final state."""

    outcome: TrialEnd
    run: Any  # the final state of its agent

    def beats(self, other: FinishedTrial | None) -> bool:
        """Whether this trial is better: compared by budget first, then by fitness."""
        return other is None or self._merit > other._merit

    @property
    def _merit(self) -> tuple[int, float]:
        fitness = self.outcome.fitness
        return self.outcome.fidelity, -math.inf if fitness is None else fitness


class TrialState(NamedTuple):
    """The state of the search and of its current trial."""

    search: Any  # the searcher's state; its pending trial is the current one
    trial: Trial
    first_step: int  # step of the run at which the trial began
    last_acted: int  # step of the run at which the last action was chosen
    returns: Returns
    failed: bool  # learning cannot continue; the trial ends with the next step
    hyperparameters: Hyperparameters  # of the trial
    run: Any  # the state of its agent
    best: FinishedTrial | None  # the best trial with the largest budget; provides the policy of the search
