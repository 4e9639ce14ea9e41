"""What the loop needs of an algorithm.

An agent holds only what is fixed for a run; all that learning changes is in its state, which goes in and comes out.
It says what is due (`plan`) and the loop does it, so that algorithms with very different rhythms share one loop.
Randomness comes in as a generator that the loop owns and saves; compiled functions get numbers drawn from it, because
on a CPU drawing a few inside takes a tenth of the whole step.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from adaqn.agents.events import Event
from adaqn.envs.environments import FinishedEpisode
from adaqn.errors import count
from adaqn.hyperparameters import Hyperparameters
from adaqn.networks.network import Network
from adaqn.replay.memory import Need
from adaqn.replay.protocol import Batch


class Clock(NamedTuple):
    """Where a run stands, in environment steps."""

    step: int = 0  # environment steps taken
    settled: int = 0  # up to which step all that was due has been done
    horizon: int = 0  # length of the run that schedules "until the end" refer to
    began: int = 0  # the step at which the replay buffer was empty


def clock_from(values: Mapping[str, Any]) -> Clock:
    """The clock that was saved as `_asdict()`."""
    return Clock(**{name: count(f"the clock's {name}", values[name]) for name in Clock._fields})


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
    def memory_needs(self) -> tuple[Need, ...]:
        """What learning needs memory for besides the replay buffer, known before anything is allocated."""
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

    def policy_return(self, state: Any, recent: Sequence[float]) -> float | None:
        """The return that the policy may be expected to get, None as long as nothing is known about it.

        `recent` are the returns of the last training episodes after learning started. They tell it, unless the
        algorithm measured the policy itself.
        """
        ...

    def generation(self, state: Any) -> int:
        """Of the members there are, the number by which `members.jsonl` has the one whose policy it is."""
        ...

    def target_member(self, state: Any) -> int:
        """The member that the target is computed from, or the first of them."""
        ...

    def target_members(self, state: Any) -> tuple[int, ...]:
        """All members that the target is computed from."""
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

    def least_bytes(self, meta: dict[str, Any]) -> int:
        """The size of the parameters that `to_arrays` with this JSON has arrays for, besides all else."""
        ...

    def from_arrays(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Any:
        """The state that `to_arrays` was given."""
        ...
