"""What all algorithms with an ensemble of critics share, as the loop sees them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from adaqn.agents.core.generations import Evolution, Inheritance, inheritance
from adaqn.agents.core.memory_needs import batch_need, networks_need
from adaqn.agents.core.record import MemberRecord
from adaqn.agents.core.schedules import linear
from adaqn.agents.core.settings import SelectionSettings, Settings
from adaqn.agents.core.state_arrays import state_from_arrays, state_to_arrays
from adaqn.agents.events import Failure, Generation, TargetUpdate
from adaqn.agents.protocol import Arrays, Clock, Json, MemberReport, Report
from adaqn.checks import count
from adaqn.ensemble import Ensemble, EnsembleState
from adaqn.envs.environments import FinishedEpisode
from adaqn.errors import AllMembersDiverged, CheckpointError
from adaqn.evolution import Descendant
from adaqn.hyperparameters import Hyperparameters, members_from
from adaqn.replay.memory import Need
from adaqn.selection import Selection


class LearningState(Protocol):
    """What the arrays of every family have in common. K members."""

    @property
    def ensemble(self) -> EnsembleState: ...

    @property
    def selected(self) -> Selection: ...

    @property
    def record(self) -> MemberRecord: ...

    def _replace(self, **changed: Any) -> Self: ...


Learning = TypeVar("Learning", bound=LearningState)
Programs = TypeVar("Programs")


class AgentState(NamedTuple, Generic[Learning]):
    """What the loop carries: the members, and the arrays that learning changes."""

    members: tuple[Hyperparameters, ...]
    learning: Learning
    generation: int = 0


class EnsembleAgent(ABC, Generic[Learning, Programs]):
    """The part of an agent that does not depend on how it acts and what its critics learn from."""

    def __init__(
        self,
        settings: Settings,
        members: tuple[Hyperparameters, ...],
        input_shape: tuple[int, ...],
        outputs: int,
        evolution: Evolution | None,
        scale: float = 1.0,
    ) -> None:
        self._common = settings
        self.evolution = evolution
        self._members = members
        self._input_shape = input_shape
        self._outputs = outputs
        self._scale = scale
        self._compiled: tuple[tuple[Hyperparameters, ...], Programs] | None = None

    @abstractmethod
    def start(self, members: tuple[Hyperparameters, ...], seed: int) -> Learning:
        """The arrays of these members with fresh weights."""

    @abstractmethod
    def compile(self, members: tuple[Hyperparameters, ...]) -> Programs:
        """The compiled functions for these members; equal architectures share them."""

    @abstractmethod
    def inherited(self, learning: Learning, heirs: Inheritance, rng: np.random.Generator) -> Learning:
        """The arrays with the networks of the next members; their record follows by itself."""

    def programs(self, state: AgentState[Learning]) -> Programs:
        """The compiled functions for the members of a state, looked up once for each generation."""
        if self._compiled is None or self._compiled[0] is not state.members:
            self._compiled = state.members, self.compile(state.members)
        return self._compiled[1]

    def ensemble_of(self, members: tuple[Hyperparameters, ...]) -> Ensemble:
        """The ensemble of these members for the spaces of this run."""
        # A group has one program for all; where members come and go, each has its own.
        return Ensemble.of(members, self._input_shape, self._outputs, grouped=self.evolution is None, scale=self._scale)

    @property
    def parameter_bytes(self) -> int:
        """The parameters of all members, with targets and optimizers."""
        return networks_need(self.ensemble_of(self._members)).size

    @property
    def memory_needs(self) -> tuple[Need, ...]:
        """All members, and one update of them."""
        ensemble = self.ensemble_of(self._members)
        return networks_need(ensemble), batch_need(ensemble.networks, self._common.batch_size, self._common.n_steps)

    def init(self, seed: int) -> AgentState[Learning]:
        """The state at step 0."""
        return AgentState(self._members, self.start(self._members, seed))

    def episodes_ended(
        self, state: AgentState[Learning], episodes: Sequence[FinishedEpisode], clock: Clock
    ) -> AgentState[Learning]:
        """Members are compared by their losses, so the returns change nothing."""
        del episodes, clock
        return state

    def diverged(self, state: AgentState[Learning]) -> np.ndarray:
        """Members with non-finite values or parameters. [K]"""
        ensemble = self.ensemble_of(state.members)
        finite = [np.isfinite(member.parameters).all() for member in ensemble.split(state.learning.ensemble)]
        return np.asarray(state.learning.record.diverged) | ~np.array(finite)

    def failure(self, state: AgentState[Learning]) -> Failure:
        """No member is left whose values are finite."""
        names = "; ".join(f"{k}: {member.to_dict()}" for k, member in enumerate(state.members))
        return Failure(AllMembersDiverged(f"all members diverged (their values are no longer finite): {names}"))

    def children(
        self, state: AgentState[Learning], fitness: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[Descendant, ...]:
        """The next member of every slot, by the fitness [K] of the current ones; lower is better, inf for diverged."""
        assert self.evolution is not None, "only planned where members are replaced"
        return self.evolution.children(rng, state.members, fitness, clock.step)

    def replace_members(
        self,
        state: AgentState[Learning],
        children: tuple[Descendant, ...],
        reset_weights: bool,
        clock: Clock,
        rng: np.random.Generator,
    ) -> tuple[AgentState[Learning], Generation]:
        """Put children into the slots of those that go; a survivor keeps its slot and its record."""
        members = tuple(child.hyperparameters for child in children)
        old, new = self.ensemble_of(state.members), self.ensemble_of(members)
        heirs = inheritance(rng, old, new, children, reset_weights)
        learning = self.inherited(state.learning, heirs, rng)
        parent = np.array([child.parent for child in children])
        is_new = np.array([child.is_new for child in children])
        learning = learning._replace(
            discount=jnp.asarray(self.discounts(members)), record=learning.record.inherit(parent, is_new)
        )
        number = state.generation + 1
        return AgentState(members, learning, number), Generation(clock.step, number, children)

    def discounts(self, members: tuple[Hyperparameters, ...]) -> np.ndarray:
        """γ_k of each member, by default γ̄. [K]"""
        gamma = self._common.gamma
        return np.asarray([gamma if m.discount is None else m.discount for m in members], np.float32)

    def target_member(self, state: AgentState[Learning]) -> int:
        """The member that the target is computed from, or the first of them."""
        return int(state.learning.selected.members[0])

    def target_update(
        self,
        state: AgentState[Learning],
        clock: Clock,
        losses: Any,  # [K]
        acted: Any,  # [K]
        newly_diverged: Any,  # [K] bool
        selected: Any = None,  # [K]
    ) -> TargetUpdate | Failure:
        """The event of a target that was renewed, or the failure of all members."""
        if np.asarray(state.learning.record.diverged).all():
            return self.failure(state)
        return TargetUpdate(
            step=clock.step,
            target=self.target_member(state),
            cumulated_loss=tuple(np.asarray(losses).tolist()),
            acted=tuple(np.asarray(acted).tolist()),
            newly_diverged=tuple(np.flatnonzero(newly_diverged).tolist()),
            selected=None if selected is None else tuple(np.asarray(selected).tolist()),
        )

    def report(self, state: AgentState[Learning], clock: Clock) -> Report:
        """The members as they stand, and scalars for the logs."""
        del clock
        record: MemberRecord = jax.device_get(state.learning.record)
        targets = tuple(dict.fromkeys(np.asarray(state.learning.selected.members).tolist()))
        target = targets[0]
        chosen = max(1, int(record.choices))
        members = tuple(
            MemberReport(
                member,
                math.inf if record.diverged[k] else float(record.compared_loss[k]),
                float(record.selections[k]) / chosen,
                int(record.selections[k]),
                bool(record.diverged[k]),
            )
            for k, member in enumerate(state.members)
        )
        metrics = {
            "train/loss": float(record.last_loss[target]),
            "train/learning_rate": state.members[target].learning_rate,
            "ada/target_member": float(target),
            "ada/diverged": float(record.diverged.sum()),
        }
        metrics |= {f"ada/loss_{k}": float(loss) for k, loss in enumerate(record.last_loss)}
        return Report(members, targets, state.generation, metrics)

    def to_arrays(self, state: AgentState[Learning]) -> tuple[Arrays, Json]:
        """All of the state as named arrays and JSON."""
        members = [member.to_dict() for member in state.members]
        return state_to_arrays(state.learning), {"members": members, "generation": state.generation}

    def from_arrays(self, arrays: Arrays, meta: Json) -> AgentState[Learning]:
        """The inverse of `to_arrays`."""
        members = members_from(meta["members"])
        held, least = sum(array.nbytes for array in arrays.values()), self._least_bytes(members)
        if held < least:  # asked before room is made for so many parameters
            raise CheckpointError(
                f"the saved state has no arrays for its members: they are {held:,} bytes, and the parameters {least:,}"
            )
        learning = state_from_arrays(self.start(members, seed=0), arrays)
        return AgentState(members, learning, count("the saved generation", meta["generation"]))

    def saved_bytes(self, meta: Json) -> int:
        """The size of the parameters of the members that were saved."""
        return self._least_bytes(members_from(meta["members"]))

    def _least_bytes(self, members: tuple[Hyperparameters, ...]) -> int:
        """The size of the online parameters of these members, which a saved state has at least."""
        return 4 * self.ensemble_of(members).parameter_count


def behaviour_epsilon(settings: SelectionSettings, clock: Clock) -> float:
    """ε_b at this step."""
    duration = clock.horizon if settings.behaviour_steps is None else settings.behaviour_steps
    return linear(settings.behaviour_initial_eps, settings.behaviour_final_eps, duration, clock.step)
