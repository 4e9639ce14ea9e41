"""Settings of a hyperparameter search, for every search method and base algorithm."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adaqn.agents.core.settings import MinimumSteps, Settings, setting
from adaqn.agents.registry import Algorithm
from adaqn.base.checks import at_least, flag
from adaqn.base.errors import UserError
from adaqn.members.search import Searcher

# The settings of the base algorithm come from its own class, with its defaults, so this class must not inherit
# `Settings` at run time.
_Mixin = Settings if TYPE_CHECKING else ABC


@dataclass(frozen=True, kw_only=True)
class TrialSettings(_Mixin):
    """Settings that all trials share, combined with the settings of the base algorithm by `settings_over`.

    Within a trial, periods and durations count from its first step.
    """

    epoch_steps: int = setting(10_000, "steps at the end of a trial over which its returns are averaged", at_least(1))
    keep_replay: bool = setting(True, "keep the replay buffer between trials", flag)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortest_trial <= self.learning_starts:
            raise UserError(
                f"a trial of {self.shortest_trial} steps would never learn, because learning_starts is "
                f"{self.learning_starts}; give trials more steps or use a smaller learning_starts"
            )

    @abstractmethod
    def searcher(self, dimensions: int) -> Searcher[Any]:
        """The searcher in a unit cube with this many dimensions."""

    @property
    @abstractmethod
    def shortest_trial(self) -> int:
        """The smallest budget of a trial in steps, which is also that of the first trial."""

    @property
    def minimum_steps(self) -> MinimumSteps:
        """A run must finish its first trial."""
        reason = f"its first trial takes {self.shortest_trial} steps; use more steps or shorter trials"
        return MinimumSteps(self.shortest_trial, reason)


def settings_over(search: type[TrialSettings], base: Algorithm) -> type[TrialSettings]:
    """The settings of a search combined with those of a trial of its base algorithm."""
    assert base.base_settings is not None, "only an algorithm with base_settings can be a base"
    name = f"{search.__name__}Over{base.base_settings.__name__}"
    return dataclass(frozen=True, kw_only=True)(type(name, (search, base.base_settings), {"__doc__": search.__doc__}))


def settings_of_one_trial(settings: TrialSettings, base: Algorithm) -> Settings:
    """The part of the search's settings that belongs to the base algorithm."""
    assert base.base_settings is not None, "only an algorithm with base_settings can be a base"
    names = [item.name for item in dataclasses.fields(base.base_settings)]
    return base.configure({name: getattr(settings, name) for name in names})
