"""What a name such as `adadqn` stands for: an agent, its settings, and which members it can train."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from adaqn.errors import UserError, count, unknown_name
from adaqn.hyperparameters import Convolution, Hyperparameters
from adaqn.limits import most
from adaqn.space import SearchSpace, default_space

if TYPE_CHECKING:
    import gymnasium

    from adaqn.agents.protocol import Agent

_FOR_MEMBERS = 0x6D656D62  # keeps the draw of the first members apart from all else that a seed decides


class Scheduled(NamedTuple):
    """The hyperparameters that a run has from some step on."""

    step: int
    hyperparameters: Hyperparameters


class Population(NamedTuple):
    """What is trained: members, and what they may become."""

    members: tuple[Hyperparameters, ...] = ()
    space: SearchSpace | None = None  # where given, members move through it, or are drawn from it
    schedule: tuple[Scheduled, ...] = ()  # where given, the one member follows it; steps ascend


def as_population(given: Population | tuple[Hyperparameters, ...]) -> Population:
    """The population, or one of members that stay what they are."""
    return given if isinstance(given, Population) else Population(members=given)


@dataclass(frozen=True)
class Algorithm:
    """A name on the command line: an agent, perhaps with some settings fixed, and members to start from.

    Tables of algorithms are in modules that import neither JAX nor Gymnasium, so that the names and the settings of
    all of them can be listed at once; `agent_class` names the agent without importing it.
    """

    settings: type  # a frozen dataclass, one field per setting, each made with `setting`
    make: Callable[[Any, Population, gymnasium.Space, gymnasium.Space], Agent]
    members: Callable[[tuple[int, ...]], tuple[Hyperparameters, ...]]  # when none are given, by the observations' shape
    overrides: Mapping[str, Any] = field(default_factory=dict)
    copies: int | None = None  # trains exactly so many equal members
    least: int = 1  # members that it needs
    space: Literal["optional", "required", "none"] = "none"  # whether it can search in a space of hyperparameters
    scheduled: bool = False  # can follow a schedule of hyperparameters
    trials: bool = False  # tries members of the space one after the other, and draws them itself
    one_environment: bool = False  # evaluates its members one by one

    def configure(self, given: Mapping[str, Any]) -> Any:
        """The settings with the given values; those that make this algorithm what it is cannot be others."""
        names = [f.name for f in dataclasses.fields(self.settings)]
        own = [f.name for f in dataclasses.fields(Hyperparameters)]
        for name in given:
            if name in own:
                raise UserError(f"{name} is a hyperparameter of each member: give it with members=grid({name}=[...])")
            if name not in names:
                raise unknown_name("setting", name, names)
        for name, value in self.overrides.items():
            if given.get(name, value) != value:
                raise UserError(f"this algorithm is the one with {name}={value!r}, but got {name}={given[name]!r}")
        return self.settings(**{**self.overrides, **given})

    def environments(self, given: object) -> int:
        """How many environments are stepped side by side."""
        n_envs = count("n_envs", given, low=1, high=most("n_envs"))
        if self.one_environment and n_envs > 1:
            raise UserError(f"this algorithm evaluates one member at a time: n_envs must be 1, but it is {n_envs}")
        return n_envs

    def population(
        self, given: Population, settings: Any, seed: int, observation_shape: Callable[[], tuple[int, ...]]
    ) -> Population:
        """What to train: the members given, or drawn from the space, or the default ones for these observations."""
        if given.space is None and self.space == "required":
            given = given._replace(space=default_space(observation_shape()))
        if given.space is not None and self.space == "none":
            raise UserError("this algorithm cannot search in a space of hyperparameters, but got one")
        if given.space is not None:
            _require_room(given.space, given.members, observation_shape)
        if given.schedule and not self.scheduled:
            raise UserError("only dqn follows a schedule of hyperparameters, but this algorithm got one")
        if given.space is None:
            _refuse_idle_evolution(settings, scheduled=bool(given.schedule))
        if self.trials:
            if given.members:
                raise UserError(
                    "this algorithm draws what it tries from the space, so it takes no members, "
                    f"but got {len(given.members)}"
                )
            return given
        if given.space is not None and not given.members:
            # Drawn here, so that the configuration of a run names them.
            rng = np.random.default_rng([seed, _FOR_MEMBERS])
            members = self._checked(tuple(given.space.sample(rng) for _ in range(settings.population)))
        elif given.schedule:
            members = (given.schedule[0].hyperparameters,)
            if given.members and given.members != members:
                raise UserError("a schedule says what the member is from the start, so it takes no other members")
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


def agent_class(path: str) -> Callable[[Any, Population, gymnasium.Space, gymnasium.Space], Agent]:
    """Make agents of the class at `module:Class`, which is imported when the first one is made."""

    def make(settings: Any, population: Population, observations: gymnasium.Space, actions: gymnasium.Space) -> Agent:
        module, _, name = path.partition(":")
        return getattr(importlib.import_module(module), name)(settings, population, observations, actions)

    return make


def _require_room(
    space: SearchSpace, members: tuple[Hyperparameters, ...], observation_shape: Callable[[], tuple[int, ...]]
) -> None:
    """Raise if there is nowhere to go in the space, or if a run could come to a network that is not possible."""
    if space.dimensions == 0:
        raise UserError("the space of hyperparameters has one value only for everything, so there is nothing to search")
    valid = "valid" in (space.fixed.padding, *(member.padding for member in members))
    if (bounds := space.convolutions) is None or not valid or len(shape := observation_shape()) != 3:
        return
    layer = Convolution(bounds.channels[0], bounds.kernel[1], bounds.stride[1])
    smallest = space.fixed.replace(convolutions=(layer,) * bounds.layers[1], padding="valid")
    from adaqn.networks.network import Network

    try:
        Network(smallest.architecture, shape, 1)
    except UserError as error:
        raise UserError(
            f"the space has convolutions that are not possible for these observations, such as {bounds.layers[1]} of "
            f"the largest kernel and stride: {error}; narrow the space, or take padding 'same'"
        ) from error


def _refuse_idle_evolution(settings: Any, scheduled: bool) -> None:
    """Raise if something was said about generations, of which there are none without a space."""
    fields = {f.name: f.default for f in dataclasses.fields(settings)}
    for name in ("population", "generation_interval", "exploit", "reset_weights"):
        if name == "reset_weights" and scheduled:
            continue
        if name in fields and getattr(settings, name) != fields[name]:
            raise UserError(
                f"{name} is about generations, which there are only in a space: give one, such as space=vectors"
            )


class LeastSteps(NamedTuple):
    """How long a run must be to come to anything. Every class of settings has a property `least_steps`."""

    steps: int
    reason: str  # why fewer are not enough, and what to do about it


def until_learning(learning_starts: int) -> LeastSteps:
    """The least that all need: a step after which something is learned."""
    reason = (
        f"it would never learn, because learning_starts is {learning_starts}; "
        "take more steps or a smaller learning_starts"
    )
    return LeastSteps(learning_starts + 1, reason)


def setting(default: Any, help: str, choices: Callable[[], Sequence[str]] | None = None) -> Any:
    """A field of a settings class, with the sentence that the command line shows and the names that it allows."""
    return field(default=default, metadata={"help": help, "choices": choices})
