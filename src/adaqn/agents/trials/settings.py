"""What a search for hyperparameters needs to know, whichever way it searches and whatever algorithm it tries."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adaqn.agents.core.settings import MinimumSteps, Settings, setting
from adaqn.agents.registry import Algorithm
from adaqn.checks import at_least, flag
from adaqn.errors import UserError
from adaqn.search import Searcher

# The settings of the algorithm that is tried come from its own class, defaults included, so this one must not bring
# the common ones along.
_Mixin = Settings if TYPE_CHECKING else ABC


@dataclass(frozen=True, kw_only=True)
class TrialSettings(_Mixin):
    """What all trials share, to be joined with the settings of the algorithm that is tried.

    In a trial, periods and durations count from its first step.
    """

    epoch_steps: int = setting(10_000, "steps at the end of a trial whose episodes decide how good it was", at_least(1))
    keep_replay: bool = setting(
        True, "let a trial begin with what the ones before it stored in the replay buffer", flag
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortest_trial <= self.learning_starts:
            raise UserError(
                f"a trial of {self.shortest_trial} steps would never learn, because learning_starts is "
                f"{self.learning_starts}; give trials more steps or take a smaller learning_starts"
            )

    @abstractmethod
    def searcher(self, dimensions: int) -> Searcher[Any]:
        """The search in a unit cube of so many dimensions."""

    @property
    @abstractmethod
    def shortest_trial(self) -> int:
        """The fewest steps that a trial of this search takes, and the first one does."""

    @property
    def minimum_steps(self) -> MinimumSteps:
        """The first trial must end."""
        reason = f"its first trial takes {self.shortest_trial} steps; take more steps or shorter trials"
        return MinimumSteps(self.shortest_trial, reason)


def settings_over(search: type[TrialSettings], base: Algorithm) -> type[TrialSettings]:
    """The settings of a search together with those of one trial of this algorithm."""
    assert base.base_settings is not None, "only an algorithm that can be tried is a base"
    name = f"{search.__name__}Over{base.base_settings.__name__}"
    return dataclass(frozen=True, kw_only=True)(type(name, (search, base.base_settings), {"__doc__": search.__doc__}))


def settings_of_one_trial(settings: TrialSettings, base: Algorithm) -> Settings:
    """What the algorithm of a trial is given of the settings of the search."""
    assert base.base_settings is not None, "only an algorithm that can be tried is a base"
    names = [item.name for item in dataclasses.fields(base.base_settings)]
    return base.configure({name: getattr(settings, name) for name in names})
