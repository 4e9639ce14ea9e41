"""The interface between an algorithm and the training loop: the agent, what it is asked to do, and what it reports.

An agent holds only what is constant during a run; everything that learning changes is in its state, which is passed in
and returned. The agent says which operations are due (`plan`) and the loop executes them, so that algorithms with very
different update patterns share one loop. Randomness comes from a generator that the loop owns and saves; compiled
functions receive numbers drawn from it, because on a CPU drawing a few inside them takes a tenth of the whole step.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from adaqn.base.checks import count
from adaqn.base.errors import UserError
from adaqn.base.files import Json
from adaqn.members.evolution import Descendant
from adaqn.members.hyperparameters import Hyperparameters


class TargetUpdate(NamedTuple):
    """The target was updated: the chosen member, and statistics of the ensemble since the previous event.

    For algorithms that choose the target in every update, one event summarizes all updates since the previous one.
    """

    step: int
    target: int  # the target member; the first one if there are several
    cumulated_loss: tuple[float, ...]  # [K] inf for a diverged member
    acted: tuple[float, ...]  # [K] actions chosen by each member, or the fraction of actor updates that used it
    newly_diverged: tuple[int, ...]  # members that diverged since the previous event
    selected: tuple[float, ...] | None = None  # [K] fraction of updates with the member in the target
    discount: float | None = None  # of the target member


class Generation(NamedTuple):
    """Some members were replaced by children of others."""

    step: int
    number: int
    members: tuple[Descendant, ...]  # [K]


class MemberEvaluation(NamedTuple):
    """An episode played by a single member."""

    step: int
    generation: int
    member: int
    total: float
    length: int


class PolicyEvaluation(NamedTuple):
    """The learned policy was evaluated in separate episodes."""

    step: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation of the returns."""
        return float(np.std(self.returns))

    @property
    def mean_length(self) -> float:
        """Mean number of steps."""
        return float(np.mean(self.lengths))


class TrialEnd(NamedTuple):
    """A trial of a search ended."""

    number: int
    hyperparameters: Hyperparameters
    fidelity: int  # its budget in steps
    first_step: int  # step of the run at which the trial began
    last_step: int
    fitness: float | None  # mean return; None if the trial failed
    origin: dict[str, Any]  # how the search generated the trial


class TrialStart(NamedTuple):
    """A trial of a search starts: environments are reset, and the replay buffer is emptied unless `keeps_replay`."""

    step: int
    number: int
    hyperparameters: Hyperparameters
    fidelity: int
    keeps_replay: bool


class Failure(NamedTuple):
    """Learning cannot continue: the run ends, or the current trial of a search."""

    error: UserError  # raised at the end of the run


Event = TargetUpdate | Generation | MemberEvaluation | PolicyEvaluation | TrialEnd | TrialStart | Failure


if TYPE_CHECKING:  # tools that only read events do not wait for JAX
    from adaqn.envs.environments import FinishedEpisode
    from adaqn.networks.network import Network
    from adaqn.replay.memory import Need
    from adaqn.replay.protocol import Batch
    from adaqn.replay.rows import RowLayout

State = TypeVar("State")
Arrays = dict[str, np.ndarray]


class Clock(NamedTuple):
    """Progress of a run, in environment steps."""

    step: int = 0  # environment steps taken
    settled: int = 0  # all operations due up to this step have been executed
    horizon: int = 0  # length of the run, for schedules that last until its end
    replay_start: int = 0  # the step at which the replay buffer was empty


def clock_from(values: Mapping[str, Any]) -> Clock:
    """Restore a clock that was saved with `_asdict()`."""
    return Clock(**{name: count(f"the clock's {name}", values[name]) for name in Clock._fields})


class Operation(enum.Enum):
    """Something to do between two environment steps."""

    UPDATE = enum.auto()  # one gradient step of every member on a fresh batch
    ACTOR_UPDATE = enum.auto()  # the same, followed by a gradient step of the actor on that batch
    TARGET_UPDATE = enum.auto()  # choose the target member and update the target, or report how often each was chosen
    GENERATION = enum.auto()  # a target update, then some members are replaced by children of others
    EPISODE_END = enum.auto()  # an episode in the evaluation of one member ended
    NEXT_MEMBER = enum.auto()  # the evaluation moves on to another member
    NEW_TRIAL = enum.auto()  # a search discards its agent and starts another

    @property
    def needs_batch(self) -> bool:
        """Whether the operation learns from a batch sampled from the replay buffer."""
        return self in (Operation.UPDATE, Operation.ACTOR_UPDATE)


class MemberReport(NamedTuple):
    """One member, as shown to the user."""

    hyperparameters: Hyperparameters
    cumulated_loss: float  # the loss that the target was last chosen by
    selected: float  # fraction of the target updates in which it was chosen
    selections: int  # number of target updates in which it was chosen
    diverged: bool


class Report(NamedTuple):
    """Summary of an agent's state for the console and the logs."""

    members: tuple[MemberReport, ...]
    targets: tuple[int, ...]  # members that the target is computed from, without duplicates, best first
    generation: int  # of the member whose policy is used, as numbered in members.jsonl
    metrics: dict[str, float]  # scalars for the logs, by tag (`train/loss`, `ada/...`)
    lines: tuple[str, ...] = ()  # printed below the table of members
    policy_return: float | None = None  # return of the learned policy, if the algorithm measures it (`measures_policy`)

    @property
    def target(self) -> int:
        """The target member; the first one if there are several."""
        return self.targets[0]


class InputScaling(NamedTuple):
    """A normalization of observations with fixed numbers."""

    mean: np.ndarray  # [...] float32, of one observation
    scale: np.ndarray  # [...] float32, reciprocal of the standard deviation
    limit: float  # results are clipped to [-limit, limit]

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Normalize observations. [B, ...]"""
        return np.clip((observations - self.mean) * self.scale, -self.limit, self.limit)


class PolicyWeights(NamedTuple):
    """The learned policy as a network, for use without the agent."""

    # greedy: argmax of the outputs; tanh-gaussian: tanh of the first half of the outputs; tanh: tanh of the outputs.
    kind: Literal["greedy", "tanh-gaussian", "tanh"]
    network: Network
    parameters: np.ndarray  # [P]
    hyperparameters: Hyperparameters  # used to train it
    scaling: InputScaling | None = None  # of observations, before the network


class Agent(Protocol[State]):
    """Pure transitions of a state that the loop passes along without inspecting it."""

    @property
    def parameter_bytes(self) -> int:
        """Memory used by the state."""
        ...

    @property
    def memory_needs(self) -> tuple[Need, ...]:
        """Memory that learning needs besides the replay buffer, estimated before anything is allocated."""
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
        """The actions of the behaviour policy [n_envs, ...], or the failure that prevents them."""
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
        """Learn from a batch; given observations `act_on`, also choose the next actions in the same dispatch."""
        ...

    def perform(
        self, state: State, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[State, tuple[Event, ...]]:
        """Execute an operation that needs no batch, and return the resulting events."""
        ...

    def episodes_ended(self, state: State, episodes: Sequence[FinishedEpisode], clock: Clock) -> State:
        """Record the training episodes (at least one) that ended in the last step."""
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
        """Summarize the members, with scalars for the logs."""
        ...

    def to_arrays(self, state: State) -> tuple[Arrays, Json]:
        """Convert the whole state to named arrays and JSON."""
        ...

    def saved_bytes(self, meta: Json) -> int:
        """A lower bound on the bytes of the arrays that belong to this JSON: the size of their parameters."""
        ...

    def from_arrays(self, arrays: Arrays, meta: Json) -> State:
        """The inverse of `to_arrays`."""
        ...


@runtime_checkable
class DividesUpdates(Protocol):
    """An agent that can divide its updates among threads (`adaqn.networks.xla.lanes`); others make them in one."""

    @property
    def lanes(self) -> int:
        """The number of these threads; 1: updates are not divided."""
        ...


def lanes_of(agent: Agent[Any]) -> int:
    """The number of threads among which an agent divides its updates."""
    return agent.lanes if isinstance(agent, DividesUpdates) else 1


@runtime_checkable
class LearnsFromRows(Protocol[State]):
    """An agent that can also learn from rows of the replay buffer, and make several updates in one call."""

    @property
    def row_layout(self) -> RowLayout | None:
        """The layout of the rows that `update` accepts instead of a batch; None if it accepts only batches."""
        ...

    @property
    def updates_at_once(self) -> int:
        """The largest number of equal updates in one call."""
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
        """As `Agent.update`, repeated for consecutive batches, whose rows [updates * B, W] are given together."""
        ...
