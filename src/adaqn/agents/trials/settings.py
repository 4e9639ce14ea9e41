"""Searches within one run: random search and DEHB, over trials of a base algorithm."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from adaqn.agents.population import Population
from adaqn.agents.registry import Algorithm, algorithm
from adaqn.agents.settings import MinimumSteps, Settings, setting
from adaqn.base.checks import TRIALS, at_least, flag
from adaqn.base.errors import UserError
from adaqn.members.search import DEHB, RandomSearch, Searcher
from adaqn.members.search.dehb import Bracket, brackets, fidelities

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


if TYPE_CHECKING:
    import gymnasium

    from adaqn.agents.protocol import Agent


@cache  # one settings class per pair
def search_with(method: type[TrialSettings], base_name: str = "dqn") -> Algorithm:
    """The search with this method over trials of a base algorithm."""
    base = algorithm(base_name)

    def make(
        settings: Any, population: Population, observations: gymnasium.Space, actions: gymnasium.Space
    ) -> Agent[Any]:
        from adaqn.agents.trials.agent import TrialAgent  # imports JAX, which listing the algorithms must not

        return TrialAgent(settings, population, observations, actions, base)

    return Algorithm(
        settings_over(method, base),
        make,
        lambda _: (),
        space="required",
        base=base_name,
        traits=base.traits._replace(tables=("trials",), measures_policy=True),
        over=lambda name: search_with(method, name),
    )
