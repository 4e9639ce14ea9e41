"""The registry of algorithms: the agent, the settings and the allowed members behind a name such as `adadqn`.

Those of adaqn are in the table of `adaqn.agents.algorithms`; a third-party package adds a name with
an entry point in the group `adaqn.algorithms` that refers to an `Algorithm` or to a module with such a table.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from adaqn.agents.population import Population, refuse_idle_evolution, require_room
from adaqn.base.checks import count, most
from adaqn.base.errors import UserError, unknown_name
from adaqn.base.plugins import PluginFolder
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import default_space

if TYPE_CHECKING:
    import gymnasium

    from adaqn.agents.protocol import Agent
    from adaqn.agents.settings import Settings

    MakeAgent = Callable[[Any, Population, gymnasium.Space, gymnasium.Space], Agent[Any]]

Table = Literal["evaluations", "trials"]


class Traits(NamedTuple):
    """Properties of an algorithm that affect its result files, console output and use of threads."""

    tables: tuple[Table, ...] = ()  # additional files in the run directory
    measures_policy: bool = False  # `Report.policy_return` is the score of its policy, not the training returns
    sums_up_selections: bool = False  # a `TargetUpdate` event summarizes many updates, with a fraction per member
    learns_hyperparameters: bool = False  # of its only member, which is therefore no candidate of a grid search
    rows_per_lane: int = 0  # least share of a batch for which it divides updates among lanes; 0: it never does
    members_in_lanes: bool = False  # members that can be replaced are divided among lanes, and not the batch


_FOR_MEMBERS = 0x6D656D62  # separates the draw of the initial members from the other random streams of a seed
_ADDED = PluginFolder("algorithm", "adaqn.agents.added", entry_points="adaqn.algorithms")


NO_TRAITS = Traits()


@dataclass(frozen=True)
class Algorithm:
    """A name on the command line: an agent, optionally with fixed settings, and its default members."""

    settings: type[Settings]
    make: MakeAgent
    members: Callable[[tuple[int, ...]], tuple[Hyperparameters, ...]]  # default members for an observation shape
    overrides: Mapping[str, Any] = field(default_factory=dict)
    copies: int | None = None  # if set, trains exactly this many equal members
    least: int = 1  # minimum number of members
    space: Literal["optional", "required", "none"] = "none"  # whether it searches a space of hyperparameters
    scheduled: bool = False  # supports a schedule of hyperparameters
    base: str | None = None  # for a search: the algorithm that its trials run
    base_settings: type[Settings] | None = None  # settings of a trial, if it can be the base of a search
    one_environment: bool = False  # evaluates its members one at a time
    traits: Traits = NO_TRAITS
    over: Callable[[str], Algorithm] | None = None  # for a search: the same search with the base of this name
    public: str | None = None  # name of its class in `adaqn`, if it has one
    label: str | None = None  # name in figures and tables
    about: str = ""  # documentation of its class

    def configure(self, given: Mapping[str, Any], other_arguments: Iterable[str] = ()) -> Any:
        """Build the settings from the given values; the values fixed by this algorithm cannot be changed.

        `other_arguments` are names that the caller accepts besides settings; they are suggested for an unknown name.
        """
        names = [item.name for item in dataclasses.fields(self.settings)]
        own = [item.name for item in dataclasses.fields(Hyperparameters)]
        for name in given:
            if name in own:
                raise UserError(f"{name} is a hyperparameter of each member: give it with members=grid({name}=[...])")
            if name not in names:
                raise unknown_name("setting", name, {*names, *other_arguments})
        for name, value in self.overrides.items():
            if given.get(name, value) != value:
                raise UserError(f"this algorithm always uses {name}={value!r}, but got {name}={given[name]!r}")
        return self.settings(**{**self.overrides, **given})

    def agent(
        self, settings: Any, population: Population, observations: gymnasium.Space, actions: gymnasium.Space
    ) -> Agent[Any]:
        """Make the agent, with normalized observations if the settings say so."""
        agent = self.make(settings, population, observations, actions)
        # A search normalizes the observations of each of its trials, whose policies outlast it.
        if self.base is not None or not settings.normalize_observations:
            return agent
        # Imported here because it imports JAX, which listing the algorithms does not need.
        from adaqn.agents.normalization import NormalizingAgent

        return NormalizingAgent(agent, observations)

    def environments(self, given: object) -> int:
        """The validated number of parallel environments."""
        n_envs = count("n_envs", given, low=1, high=most("n_envs"))
        if self.one_environment and n_envs > 1:
            raise UserError(f"this algorithm evaluates one member at a time: n_envs must be 1, but it is {n_envs}")
        return n_envs

    def population(
        self, given: Population, settings: Any, seed: int, observation_shape: Callable[[], tuple[int, ...]]
    ) -> Population:
        """Resolve the members: as given, sampled from the space, or the defaults for this observation shape."""
        if given.space is None and self.space == "required":
            given = given._replace(space=default_space(observation_shape()))
        if given.space is not None and self.space == "none":
            raise UserError("this algorithm cannot search a space of hyperparameters, but got one")
        if given.space is not None:
            require_room(given.space, given.members, observation_shape)
        if given.schedule and not self.scheduled:
            raise UserError("only dqn supports a schedule of hyperparameters, but this algorithm got one")
        if given.space is None:
            refuse_idle_evolution(settings, scheduled=bool(given.schedule))
        if self.base is not None:
            if given.members:
                raise UserError(
                    "this algorithm draws what it tries from the space, so it takes no members, "
                    f"but got {len(given.members)}"
                )
            return given
        if given.space is not None and not given.members:
            # Sampled here, so that the configuration of a run lists them.
            rng = np.random.default_rng([seed, _FOR_MEMBERS])
            members = self._checked(tuple(given.space.sample(rng) for _ in range(settings.population)))
        elif given.schedule:
            members = (given.schedule[0].hyperparameters,)
            if given.members and given.members != members:
                raise UserError("a schedule defines the member from the start, so no other members can be given")
        else:
            members = self._checked(given.members or self.members(observation_shape()))
        for k, member in enumerate(members):
            if given.space is not None and not given.space.contains(member):
                raise UserError(f"member {k} is not in the space of hyperparameters: {member.to_dict()}")
        return given._replace(members=members)

    def _checked(self, members: tuple[Hyperparameters, ...]) -> tuple[Hyperparameters, ...]:
        if self.copies is not None:
            if len(members) == 1:
                members = members * self.copies
            if len(members) != self.copies or len(set(members)) != 1:
                many = "one member" if self.copies == 1 else f"{self.copies} equal members"
                raise UserError(
                    f"this algorithm trains exactly {many}, but got {len(members)} (of {len(set(members))} kinds): "
                    f"pick one by its number, 0 to {len(members) - 1}, with --member on the command line, member: in "
                    "a file, or members=[members[0]] in Python"
                )
        if len(members) < self.least:
            raise UserError(f"this algorithm needs at least {self.least} members, but got {len(members)}")
        return members


def agent_class(path: str) -> MakeAgent:
    """Return a factory for the agent class at `module:Class`, which is imported on first use."""

    def make(
        settings: Any, population: Population, observations: gymnasium.Space, actions: gymnasium.Space
    ) -> Agent[Any]:
        module, _, name = path.partition(":")
        return getattr(importlib.import_module(module), name)(settings, population, observations, actions)

    return make


def algorithm(name: object, base: object = None) -> Algorithm:
    """Look up an algorithm by name; a search can be given a base other than its default.

    The values may come from a file, so they need not be strings.
    """
    if not isinstance(name, str) or name not in algorithm_names():
        raise unknown_name("algorithm", name, algorithm_names())
    chosen = _load(name)
    if base is None or base == chosen.base:
        return chosen
    if chosen.over is None:
        raise UserError(f"{name} runs no trials, so it has no base, but got base={base!r}")
    # Only this one is loaded: a broken plug-in must not block the others.
    if not isinstance(base, str) or base not in algorithm_names() or _load(base).base_settings is None:
        raise unknown_name("base", base, base_names())
    return chosen.over(base)


def algorithm_names() -> list[str]:
    """The sorted names of all algorithms; imports no third-party plug-in."""
    return sorted({*_built_in(), *_ADDED.names()})


def base_names() -> list[str]:
    """The names of all algorithms that can be the base of a search."""

    def can_be_tried(name: str) -> bool:
        try:
            return _load(name).base_settings is not None
        except UserError:  # a plug-in that cannot be loaded; reported when it is requested by name
            return False

    return [name for name in algorithm_names() if can_be_tried(name)]


@cache
def _load(name: str) -> Algorithm:
    if name in _built_in():
        return _built_in()[name]
    found = _ADDED.load(name)
    table = {name: found} if isinstance(found, Algorithm) else getattr(found, "ALGORITHMS", {})
    if not isinstance(table.get(name), Algorithm):
        raise UserError(f"the algorithm {name!r} must be an Algorithm or in the table ALGORITHMS, but got {found!r}")
    return table[name]


def _built_in() -> Mapping[str, Algorithm]:
    from adaqn.agents.algorithms import ALGORITHMS  # imports this module

    return ALGORITHMS
