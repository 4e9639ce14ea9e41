"""What a search for hyperparameters needs to know, whichever way it searches."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from adaqn.agents.catalogue import LeastSteps, setting
from adaqn.agents.dqn_settings import DQNSettings, PlainDQNSettings
from adaqn.errors import UserError, count
from adaqn.search import Searcher


@dataclass(frozen=True, kw_only=True)
class TrialSettings(PlainDQNSettings):
    """What all trials share. In a trial, periods and durations count from its first step."""

    epoch_steps: int = setting(10_000, "steps at the end of a trial whose episodes decide how good it was")
    keep_replay: bool = setting(True, "let a trial begin with what the ones before it stored in the replay buffer")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epoch_steps", count("epoch_steps", self.epoch_steps, low=1))
        if not isinstance(self.keep_replay, bool):
            raise UserError(f"keep_replay must be true or false, but got {self.keep_replay!r}")

    def searcher(self, dimensions: int) -> Searcher[Any]:
        """The search in a unit cube of so many dimensions."""
        raise NotImplementedError

    @property
    def of_one_trial(self) -> DQNSettings:
        """The settings of the DQN that a trial trains."""
        return DQNSettings(**{f.name: getattr(self, f.name) for f in dataclasses.fields(PlainDQNSettings)})

    @property
    def shortest_trial(self) -> int:
        """The fewest steps that a trial of this search takes, and the first one does."""
        raise NotImplementedError

    @property
    def least_steps(self) -> LeastSteps:
        """The first trial must end."""
        reason = f"its first trial takes {self.shortest_trial} steps; take more steps or shorter trials"
        return LeastSteps(self.shortest_trial, reason)

    def _require_learning(self) -> None:
        """Raise if the shortest trial is over before the first update."""
        if self.shortest_trial <= self.learning_starts:
            raise UserError(
                f"a trial of {self.shortest_trial} steps would never learn, because learning_starts is "
                f"{self.learning_starts}; give trials more steps or take a smaller learning_starts"
            )
