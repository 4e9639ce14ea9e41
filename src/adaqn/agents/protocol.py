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
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np

from adaqn.errors import UserError, unknown_name
from adaqn.hyperparameters import Hyperparameters, members_from
from adaqn.replay.protocol import Batch


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


Event = TargetUpdate  # a union, as soon as there are generations and trials


class MemberReport(NamedTuple):
    """One member as a user wants to see it."""

    hyperparameters: Hyperparameters
    cumulated_loss: float  # at the last target update, by which the target was chosen
    selected: float  # share of the target updates in which it was chosen
    selections: int  # how many these were
    diverged: bool


@dataclass(frozen=True)
class Algorithm:
    """A name on the command line: an agent, perhaps with some settings fixed, and members to start from."""

    settings: type  # a frozen dataclass, one field per setting, each made with `setting`
    make: Callable[[Any, tuple[Hyperparameters, ...], gymnasium.Space, gymnasium.Space], Agent]
    members: tuple[Hyperparameters, ...]  # when none are given
    overrides: Mapping[str, Any] = field(default_factory=dict)
    copies: int | None = None  # trains exactly so many equal members
    least: int = 1  # members that it needs

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

    def ensemble(self, given: Sequence[Any] | None) -> tuple[Hyperparameters, ...]:
        """The members to train: those given, or the default ones."""
        members = self.members if given is None else members_from(given)
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
    def sums_up_selections(self) -> bool:
        """Whether its `TargetUpdate` events sum up many updates, with the share of each member."""
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

    def perform(self, state: Any, operation: Operation, clock: Clock, rng: np.random.Generator) -> tuple[Any, Event]:
        """Do a periodic operation that needs no batch, and report it."""
        ...

    def policy(self, state: Any, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock) -> np.ndarray:
        """The actions of the learned policy: greedy without a generator, exploring with one. [n, ...]"""
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
