"""What a search carries from step to step: the current trial, how it did so far, and the best one before it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from adaqn.agents.events import TrialEnd
from adaqn.hyperparameters import Hyperparameters
from adaqn.search import Trial


class Returns(NamedTuple):
    """The returns of a trial so far: one by one as long as they may be of its last epoch, else summed up."""

    recent: tuple[tuple[int, float], ...] = ()  # step of the trial at which the episode ended, and its return
    episodes: int = 0  # all of them
    total: float = 0.0

    def add(self, step: int, totals: Sequence[float], epoch_steps: int) -> Returns:
        """The returns after episodes that ended in this step of the trial."""
        recent = (*self.recent, *((step, total) for total in totals))
        return Returns(
            tuple(end for end in recent if end[0] > step - epoch_steps),
            self.episodes + len(totals),
            self.total + sum(totals),
        )

    def mean(self, step: int, epoch_steps: int) -> float | None:
        """The mean of the last epoch before this step; if no episode ended in it, of all; None if none ever did."""
        last = [total for ended, total in self.recent if ended > step - epoch_steps]
        if last:
            return statistics.fmean(last)
        return self.total / self.episodes if self.episodes else None


class FinishedTrial(NamedTuple):
    """A trial that is over, and what was learned in it."""

    outcome: TrialEnd
    run: Any  # the state of its agent when it ended

    def beats(self, other: FinishedTrial | None) -> bool:
        """Whether it is better than the other: by its steps first, because fewer of them are worth less."""
        return other is None or self._merit > other._merit

    @property
    def _merit(self) -> tuple[int, float]:
        fitness = self.outcome.fitness
        return self.outcome.fidelity, -math.inf if fitness is None else fitness


class TrialState(NamedTuple):
    """Where the search stands, and the current trial."""

    search: Any  # the searcher's state; its pending trial is the current one
    trial: Trial
    first_step: int  # of the run, when the trial began
    last_acted: int  # step of the run at which the last action was chosen
    returns: Returns
    failed: bool  # nothing can be learned in it any more, and it ends with the next step
    hyperparameters: Hyperparameters  # that it tries
    run: Any  # the state of its agent
    best: FinishedTrial | None  # of those with the most steps; its policy is that of the search
