"""What the loop needs of an algorithm.

An agent holds only what is fixed for a run; all that learning changes is in its state, which goes in and comes out.
The agent says what is due (`plan`) and the loop does it, so that algorithms with very different rhythms share one
loop. Randomness comes in as a generator that the loop owns and saves; compiled functions get numbers drawn from it,
because on a CPU drawing a few inside takes a tenth of the whole step.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from adaqn.agents.events import Event, Failure
from adaqn.checks import count
from adaqn.envs.environments import FinishedEpisode
from adaqn.files import Json
from adaqn.hyperparameters import Hyperparameters
from adaqn.networks.network import Network
from adaqn.replay.memory import Need
from adaqn.replay.protocol import Batch
from adaqn.replay.rows import RowLayout

State = TypeVar("State")
Arrays = dict[str, np.ndarray]


class Clock(NamedTuple):
    """Where a run stands, in environment steps."""

    step: int = 0  # environment steps taken
    settled: int = 0  # up to which step all that was due has been done
    horizon: int = 0  # length of the run that schedules "until the end" refer to
    replay_start: int = 0  # the step at which the replay buffer was empty


def clock_from(values: Mapping[str, Any]) -> Clock:
    """The clock that was saved as `_asdict()`."""
    return Clock(**{name: count(f"the clock's {name}", values[name]) for name in Clock._fields})


class Operation(enum.Enum):
    """Something that is due between two steps of the environment."""

    UPDATE = enum.auto()  # one gradient step of every member on a fresh batch
    ACTOR_UPDATE = enum.auto()  # the same, followed by one of the actor on that batch
    TARGET_UPDATE = enum.auto()  # choose the target member and renew the target, or report how often it was chosen
    GENERATION = enum.auto()  # a target update, after which some members are replaced by children of others
    EPISODE_END = enum.auto()  # an episode in the evaluation of one member is over
    NEXT_MEMBER = enum.auto()  # the evaluation of one member is over, that of another begins
    NEW_TRIAL = enum.auto()  # a search drops its agent and starts another

    @property
    def needs_batch(self) -> bool:
        """Whether it learns from a batch of the replay buffer."""
        return self in (Operation.UPDATE, Operation.ACTOR_UPDATE)


class MemberReport(NamedTuple):
    """One member as a user wants to see it."""

    hyperparameters: Hyperparameters
    cumulated_loss: float  # the loss by which the target was last chosen
    selected: float  # share of the target updates in which it was chosen
    selections: int  # number of these
    diverged: bool


class Report(NamedTuple):
    """What an agent tells about its state, for the screen and the logs."""

    members: tuple[MemberReport, ...]
    targets: tuple[int, ...]  # members that the target is computed from, each once, the best first
    generation: int  # of the member whose policy is used, as numbered in members.jsonl
    metrics: dict[str, float]  # scalars for the logs by their tags (`train/loss`, `ada/...`)
    lines: tuple[str, ...] = ()  # what the table of the members does not tell
    policy_return: float | None = None  # of the learned policy, if the algorithm measured it (`measures_policy`)

    @property
    def target(self) -> int:
        """The member that the target is computed from, or the first of them."""
        return self.targets[0]


class PolicyWeights(NamedTuple):
    """The learned policy as a network, for use without the agent."""

    # The action with the largest output; the tanh of the first half of the outputs; the tanh of the outputs.
    kind: Literal["greedy", "tanh-gaussian", "tanh"]
    network: Network
    parameters: np.ndarray  # [P]
    hyperparameters: Hyperparameters  # that it was trained with


class Agent(Protocol[State]):
    """Pure transitions of a state that the loop carries and never looks into."""

    @property
    def parameter_bytes(self) -> int:
        """Memory that the state takes."""
        ...

    @property
    def memory_needs(self) -> tuple[Need, ...]:
        """What learning needs memory for besides the replay buffer, known before anything is allocated."""
        ...

    def init(self, seed: int) -> State:
        """The state at step 0."""
        ...

    def plan(self, state: State, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """The operations due in the steps (settled, step], in order; `ended` marks finished episodes. [n_envs]"""
        ...

    def act(
        self, state: State, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[State, np.ndarray | Failure]:
        """The actions of the behaviour policy [n_envs, ...], or why there can be none."""
        ...

    def update(
        self,
        state: State,
        operation: Operation,
        batch: Batch[np.ndarray],
        clock: Clock,
        rng: np.random.Generator,
        act_on: np.ndarray | None = None,
    ) -> tuple[State, np.ndarray | Failure | None]:
        """Learn from a batch; with observations `act_on`, also choose the next actions, in the same dispatch."""
        ...

    def perform(
        self, state: State, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[State, tuple[Event, ...]]:
        """Carry out an operation that needs no batch, and report it."""
        ...

    def episodes_ended(self, state: State, episodes: Sequence[FinishedEpisode], clock: Clock) -> State:
        """Take note of the training episodes that ended in the last step, of which there is at least one."""
        ...

    def policy(
        self, state: State, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """The actions of the learned policy: greedy without a generator, exploring with one. [n, ...]"""
        ...

    def policy_weights(self, state: State) -> PolicyWeights:
        """The network that `policy` computes its greedy actions with."""
        ...

    def report(self, state: State, clock: Clock) -> Report:
        """The members as they stand, and scalars for the logs."""
        ...

    def to_arrays(self, state: State) -> tuple[Arrays, Json]:
        """All of the state as named arrays and JSON."""
        ...

    def saved_bytes(self, meta: Json) -> int:
        """The size of the parameters that `to_arrays` with this JSON has arrays for, besides all else."""
        ...

    def from_arrays(self, arrays: Arrays, meta: Json) -> State:
        """The inverse of `to_arrays`."""
        ...


@runtime_checkable
class LearnsFromRows(Protocol[State]):
    """What an agent may offer beside: to learn from rows of a replay buffer, and several times in one call."""

    @property
    def row_layout(self) -> RowLayout | None:
        """The layout of the rows that `update` takes in the place of a batch; None if it takes none."""
        ...

    @property
    def updates_at_once(self) -> int:
        """As many updates of the same kind as one call makes at most."""
        ...

    def update(
        self,
        state: State,
        operation: Operation,
        batch: Batch[np.ndarray] | np.ndarray,
        clock: Clock,
        rng: np.random.Generator,
        act_on: np.ndarray | None = None,
        updates: int = 1,
    ) -> tuple[State, np.ndarray | Failure | None]:
        """As `Agent.update`, so many times with one batch after the other; rows [updates * B, W] are of them all."""
        ...
