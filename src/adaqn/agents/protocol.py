"""What the loop needs of an algorithm.

An agent holds only what is fixed for a run; all that learning changes is in its state, which goes in and comes out.
It says what is due (`plan`) and the loop does it, so that algorithms with very different rhythms share one loop.
Randomness comes in as a generator that the loop owns and saves; compiled functions get numbers drawn from it, because
on a CPU drawing a few inside takes a tenth of the whole step.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import gymnasium
import numpy as np

from adaqn.envs.environments import FinishedEpisode
from adaqn.errors import UserError, count, unknown_name
from adaqn.hyperparameters import Hyperparameters
from adaqn.networks.network import Network
from adaqn.replay.protocol import Batch
from adaqn.space import SearchSpace

_FOR_MEMBERS = 0x6D656D62  # keeps the draw of the first members apart from all else that a seed decides


class Clock(NamedTuple):
    """Where a run stands, in environment steps."""

    step: int = 0  # environment steps taken
    settled: int = 0  # up to which step all that was due has been done
    horizon: int = 0  # length of the run that schedules "until the end" refer to
    began: int = 0  # the step at which the replay buffer was empty


class Operation(enum.Enum):
    """Something that is due between two steps of the environment."""

    UPDATE = enum.auto()  # one gradient step of every member on a fresh batch
    ACTOR_UPDATE = enum.auto()  # the same, and then one of the actor on that batch
    TARGET_UPDATE = enum.auto()  # choose the target member and renew the target, or sum up how often it was done
    GENERATION = enum.auto()  # a target update, and members are replaced by children of others
    EPISODE_END = enum.auto()  # an episode in the evaluation of one member is over
    NEXT_MEMBER = enum.auto()  # the evaluation of one member is over, that of another begins
    NEW_TRIAL = enum.auto()  # a search gives up its agent and starts another

    @property
    def needs_batch(self) -> bool:
        """Whether it learns from a batch of the replay buffer."""
        return self in (Operation.UPDATE, Operation.ACTOR_UPDATE)


class TargetUpdate(NamedTuple):
    """The target was renewed: who became target, and the ensemble since the last time.

    Where the target is renewed with every update, this sums up all of them since the last time.
    """

    step: int
    target: int  # the target member, or the first of them
    cumulated_loss: tuple[float, ...]  # [K] inf for a diverged member
    acted: tuple[float, ...]  # [K] how often each chose the action, or its share in training the actor
    newly_diverged: tuple[int, ...]  # members found diverged since the last time
    selected: tuple[float, ...] | None = None  # [K] share of the updates with it in the target, where that is many


class Newcomer(NamedTuple):
    """A member of a generation and where it comes from."""

    hyperparameters: Hyperparameters
    parent: int | None  # the slot of the member that it descends from, or is
    mutation: str | None  # None: the same member as before


class Generation(NamedTuple):
    """Members were replaced by children of others."""

    step: int
    number: int
    members: tuple[Newcomer, ...]  # [K]


class MemberEvaluation(NamedTuple):
    """An episode that one member played alone."""

    step: int
    generation: int
    member: int
    total: float
    length: int


class TrialEnd(NamedTuple):
    """A trial of a search is over."""

    number: int
    hyperparameters: Hyperparameters
    fidelity: int  # steps that it was given
    first_step: int  # of the run, where the trial began
    last_step: int
    fitness: float | None  # its mean return, None if it failed
    origin: dict[str, Any]  # what the search says about it


class TrialStart(NamedTuple):
    """A search begins a trial: in new episodes, and with an empty replay buffer unless it is kept."""

    step: int
    number: int
    hyperparameters: Hyperparameters
    fidelity: int
    keeps_replay: bool


Event = TargetUpdate | Generation | MemberEvaluation | TrialEnd | TrialStart


class MemberReport(NamedTuple):
    """One member as a user wants to see it."""

    hyperparameters: Hyperparameters
    cumulated_loss: float  # at the last target update, by which the target was chosen
    selected: float  # share of the target updates in which it was chosen
    selections: int  # how many these were
    diverged: bool


class PolicyWeights(NamedTuple):
    """The learned policy as a network, for use without the agent."""

    # The action with the largest output, or the tanh of the first half of the outputs.
    kind: Literal["greedy", "tanh-gaussian"]
    network: Network
    parameters: np.ndarray  # [P]
    hyperparameters: Hyperparameters  # that it was trained with


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
    """A name on the command line: an agent, perhaps with some settings fixed, and members to start from."""

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
        n_envs = count("n_envs", given, low=1)
        if self.one_environment and n_envs > 1:
            raise UserError(f"this algorithm evaluates one member at a time: n_envs must be 1, but it is {n_envs}")
        return n_envs

    def population(
        self, given: Population, settings: Any, seed: int, observation_shape: Callable[[], tuple[int, ...]]
    ) -> Population:
        """What to train: the members given, or drawn from the space, or the default ones for these observations."""
        if given.space is None and self.space == "required":
            raise UserError("this algorithm searches in a space of hyperparameters: give one, such as space=vectors")
        if given.space is not None and self.space == "none":
            raise UserError("this algorithm cannot search in a space of hyperparameters, but got one")
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
                    f"this algorithm trains exactly {many}, but got {len(members)} (of {len(set(members))} kinds)"
                )
        if len(members) < self.least:
            raise UserError(f"this algorithm needs at least {self.least} members, but got {len(members)}")
        return members


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


def setting(default: Any, help: str, choices: Callable[[], Sequence[str]] | None = None) -> Any:
    """A field of a settings class, with the sentence that the command line shows and the names that it allows."""
    return field(default=default, metadata={"help": help, "choices": choices})


class Agent(Protocol):
    """An algorithm: pure transitions of a state that the loop carries and never looks into."""

    @property
    def batch_size(self) -> int: ...

    @property
    def n_steps(self) -> int: ...

    @property
    def parameter_bytes(self) -> int:
        """Memory that the state takes, for the estimate before a run."""
        ...

    @property
    def extra_tables(self) -> tuple[str, ...]:
        """What a run directory of it has besides the usual: `evaluations` of its members, `trials`."""
        ...

    @property
    def sums_up_selections(self) -> bool:
        """Whether its `TargetUpdate` events sum up many updates, with the share of each member."""
        ...

    def describe(self) -> list[str]:
        """Lines that tell before a run starts what it is going to do, if that is not plain."""
        ...

    def conclude(self, state: Any) -> list[str]:
        """Lines that tell what came of a run besides how its members did."""
        ...

    def init(self, seed: int) -> Any:
        """The state at step 0."""
        ...

    def plan(self, state: Any, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """What is due in the steps (settled, step], in order; `ended` tells whose episode just ended. [n_envs]"""
        ...

    def act(
        self, state: Any, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[Any, np.ndarray]:
        """The actions of the behaviour policy. [n_envs, ...]"""
        ...

    def update(
        self, state: Any, operation: Operation, batch: Batch[np.ndarray], clock: Clock, rng: np.random.Generator
    ) -> Any:
        """An operation that learns from a batch."""
        ...

    def update_and_act(
        self,
        state: Any,
        operation: Operation,
        batch: Batch[np.ndarray],
        observations: np.ndarray,
        clock: Clock,
        rng: np.random.Generator,
    ) -> tuple[Any, np.ndarray]:
        """`update`, then `act`, in one dispatch."""
        ...

    def perform(
        self, state: Any, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[Any, tuple[Event, ...]]:
        """Do an operation that needs no batch, and report it."""
        ...

    def episodes_ended(self, state: Any, episodes: Sequence[FinishedEpisode], clock: Clock) -> Any:
        """Take note of the training episodes that ended in the last step, of which there is at least one."""
        ...

    def policy(self, state: Any, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock) -> np.ndarray:
        """The actions of the learned policy: greedy without a generator, exploring with one. [n, ...]"""
        ...

    def policy_weights(self, state: Any) -> PolicyWeights:
        """What `policy` computes its actions with when it is greedy."""
        ...

    def target_member(self, state: Any) -> int:
        """The member that the target is computed from, or the first of them."""
        ...

    def metrics(self, state: Any, clock: Clock) -> dict[str, float]:
        """Scalars for the logs, under their tags (`train/loss`, `ada/...`)."""
        ...

    def report(self, state: Any) -> tuple[MemberReport, ...]:
        """The members as they stand."""
        ...

    def to_arrays(self, state: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """All of the state as named arrays and JSON."""
        ...

    def from_arrays(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Any:
        """The state that `to_arrays` was given."""
        ...
