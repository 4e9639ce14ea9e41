"""What all algorithms with an ensemble of critics share, as the loop sees them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from adaqn.agents.events import Generation, Newcomer, TargetUpdate
from adaqn.agents.evolving import Evolution, Inheritance, inheritance
from adaqn.agents.memory_needs import batch_need, networks_need
from adaqn.agents.protocol import Clock, MemberReport
from adaqn.agents.schedules import linear
from adaqn.agents.state_arrays import state_from_arrays, state_to_arrays
from adaqn.ensemble import Ensemble
from adaqn.envs.environments import FinishedEpisode
from adaqn.errors import AllMembersDiverged, CheckpointError, count
from adaqn.evolution import Child
from adaqn.hyperparameters import Hyperparameters, members_from
from adaqn.replay.memory import Need


class EnsembleRun(NamedTuple):
    """What the loop carries: the members, the programs for their architectures, and the arrays."""

    members: tuple[Hyperparameters, ...]
    programs: Any  # compiled functions, the same object for equal architectures
    learning: Any  # the algorithm's state, a tuple of arrays
    generation: int = 0
    evaluation: Any = None  # where members are evaluated one by one: how far that is, not in arrays


# What is known of each member, and what a child begins with: its parent's, or nothing.
_PER_MEMBER = {
    "cumulated_loss": "parent's",
    "compared_loss": "parent's",
    "last_loss": "parent's",
    "diverged": "nothing",
    "reported": "nothing",
    "selections": "nothing",
    "selected_since": "nothing",
    "acted_since": "nothing",
}


class EnsembleAgent:
    """The part of an agent that does not depend on how it acts and what its critics learn from.

    A subclass has `_start`, `_programs` and `_inherited`, and its state has at least the arrays of `_PER_MEMBER`,
    `selected`, `target_updates` and `discount`.
    """

    sums_up_selections = False
    extra_tables: tuple[str, ...] = ()

    def __init__(
        self,
        settings: Any,
        members: tuple[Hyperparameters, ...],
        input_shape: tuple[int, ...],
        outputs: int,
        evolution: Evolution | None = None,
        scale: float = 1.0,
    ) -> None:
        self.settings = settings
        self.evolution = evolution
        self._members = members
        self._input_shape = input_shape
        self._outputs = outputs
        self._scale = scale

    @property
    def batch_size(self) -> int:
        """Transitions in one update."""
        return self.settings.batch_size

    @property
    def n_steps(self) -> int:
        """Steps of one transition."""
        return self.settings.n_steps

    @property
    def parameter_bytes(self) -> int:
        """The parameters of all members, with targets and optimizers."""
        return networks_need(self.ensemble_of(self._members)).size

    @property
    def memory_needs(self) -> tuple[Need, ...]:
        """All members, and one update of them."""
        ensemble = self.ensemble_of(self._members)
        return networks_need(ensemble), batch_need(ensemble.networks, self.batch_size, self.n_steps)

    def ensemble_of(self, members: tuple[Hyperparameters, ...]) -> Ensemble:
        """The ensemble of these members for the spaces of this run."""
        # A group has one program for all; where members come and go, each has its own.
        return Ensemble.of(members, self._input_shape, self._outputs, grouped=self.evolution is None, scale=self._scale)

    def describe(self) -> list[str]:
        """Nothing that the table of the members does not tell."""
        return []

    def conclude(self, state: EnsembleRun) -> list[str]:
        """Nothing either."""
        del state
        return []

    def init(self, seed: int) -> EnsembleRun:
        """The state at step 0."""
        return self._start(self._members, seed)

    def _start(self, members: tuple[Hyperparameters, ...], seed: int) -> EnsembleRun:
        """The state of these members with fresh weights."""
        raise NotImplementedError

    def _programs(self, members: tuple[Hyperparameters, ...]) -> Any:
        """The compiled functions for these members."""
        raise NotImplementedError

    def _inherited(self, state: EnsembleRun, heirs: Inheritance, rng: np.random.Generator) -> Any:
        """The algorithm's state with the networks of the next members."""
        raise NotImplementedError

    def children(self, state: EnsembleRun, clock: Clock, rng: np.random.Generator) -> tuple[Child, ...]:
        """The next member of every slot, by the fitness of those there are; those who diverged go first."""
        assert self.evolution is not None, "only planned where members are replaced"
        return self.evolution.children(rng, state.members, self.fitness(state), clock.step)

    def fitness(self, state: EnsembleRun) -> np.ndarray:
        """What members are compared by in a generation: their cumulated losses, inf for those who diverged. [K]"""
        return self.unless_diverged(state, np.asarray(state.learning.cumulated_loss))

    def unless_diverged(self, state: EnsembleRun, values: np.ndarray) -> np.ndarray:
        """The values [K] of those whose parameters are finite, of whom there must be one, and inf for the others."""
        ensemble = self.ensemble_of(state.members)
        finite = [np.isfinite(member.parameters).all() for member in ensemble.split(state.learning.ensemble)]
        learning = state.learning._replace(diverged=np.asarray(state.learning.diverged) | ~np.array(finite))
        self.require_living(state._replace(learning=learning))
        return np.where(learning.diverged, np.inf, values)

    def replace_members(
        self, state: EnsembleRun, children: tuple[Child, ...], clock: Clock, rng: np.random.Generator
    ) -> tuple[EnsembleRun, Generation]:
        """Put children in the places of those who go; a survivor keeps its slot and all that is known of it."""
        members = tuple(child.hyperparameters for child in children)
        old, new = self.ensemble_of(state.members), self.ensemble_of(members)
        heirs = inheritance(rng, old, new, children, self.settings.reset_weights)
        learning = self._inherited(state, heirs, rng)
        parent = np.array([child.parent for child in children])
        is_new = np.array([child.mutation is not None for child in children])
        changed: dict[str, Any] = {"discount": jnp.asarray(self.discounts(members))}
        for name in _PER_MEMBER.keys() & set(learning._fields):
            values = np.asarray(getattr(learning, name))
            begin = values[parent] if _PER_MEMBER[name] == "parent's" else np.zeros_like(values)
            changed[name] = jnp.asarray(np.where(is_new, begin, values))
        run = EnsembleRun(members, self._programs(members), learning._replace(**changed), state.generation + 1)
        newcomers = tuple(Newcomer(*child) for child in children)
        return run, Generation(clock.step, run.generation, newcomers)

    def episodes_ended(self, state: EnsembleRun, episodes: Sequence[FinishedEpisode], clock: Clock) -> EnsembleRun:
        """What members did in an episode does not matter here: they are judged by their losses."""
        del episodes, clock
        return state

    def discounts(self, members: tuple[Hyperparameters, ...]) -> np.ndarray:
        """γ_k of each member, by default γ̄. [K]"""
        gamma = self.settings.gamma
        return np.asarray([gamma if m.discount is None else m.discount for m in members], np.float32)

    def behaviour_epsilon(self, clock: Clock) -> float:
        """ε_b at this step."""
        s = self.settings
        duration = clock.horizon if s.behaviour_steps is None else s.behaviour_steps
        return linear(s.behaviour_initial_eps, s.behaviour_final_eps, duration, clock.step)

    def require_living(self, state: EnsembleRun) -> None:
        """Raise if no member is left whose values are finite."""
        if np.asarray(state.learning.diverged).all():
            names = "; ".join(f"{k}: {member.to_dict()}" for k, member in enumerate(state.members))
            raise AllMembersDiverged(f"all members diverged (their values are no longer finite): {names}")

    def target_update(
        self,
        state: EnsembleRun,
        clock: Clock,
        losses: Any,  # [K]
        acted: Any,  # [K]
        newly_diverged: Any,  # [K] bool
        selected: Any = None,  # [K]
    ) -> TargetUpdate:
        """The event of a target that was renewed; raises if nobody is left to be one."""
        self.require_living(state)
        return TargetUpdate(
            step=clock.step,
            target=self.target_member(state),
            cumulated_loss=tuple(np.asarray(losses).tolist()),
            acted=tuple(np.asarray(acted).tolist()),
            newly_diverged=tuple(np.flatnonzero(newly_diverged).tolist()),
            selected=None if selected is None else tuple(np.asarray(selected).tolist()),
        )

    def policy_return(self, state: EnsembleRun, recent: Sequence[float]) -> float | None:
        """The mean of the last training returns: the target member acts in training too."""
        del state
        return float(np.mean(recent)) if recent else None

    def generation(self, state: EnsembleRun) -> int:
        """The number of the generation."""
        return state.generation

    def target_member(self, state: EnsembleRun) -> int:
        """The member that the target is computed from, or the first of them."""
        return int(state.learning.selected.members[0])

    def target_members(self, state: EnsembleRun) -> tuple[int, ...]:
        """All members that the target is computed from, each once."""
        return tuple(dict.fromkeys(np.asarray(state.learning.selected.members).tolist()))

    def metrics(self, state: EnsembleRun, clock: Clock) -> dict[str, float]:
        """Scalars for the logs."""
        del clock
        learning = state.learning
        losses, diverged = jax.device_get((learning.last_loss, learning.diverged))
        target = self.target_member(state)
        tags = {
            "train/loss": float(losses[target]),
            "train/learning_rate": state.members[target].learning_rate,
            "ada/target_member": float(target),
            "ada/diverged": float(diverged.sum()),
        }
        return tags | {f"ada/loss_{k}": float(loss) for k, loss in enumerate(losses)}

    def report(self, state: EnsembleRun) -> tuple[MemberReport, ...]:
        """The members as they stand."""
        learning = state.learning
        losses, selections, diverged = jax.device_get((learning.compared_loss, learning.selections, learning.diverged))
        chosen = max(1, int(learning.target_updates))
        return tuple(
            MemberReport(
                member,
                math.inf if diverged[k] else float(losses[k]),
                float(selections[k]) / chosen,
                int(selections[k]),
                bool(diverged[k]),
            )
            for k, member in enumerate(state.members)
        )

    def to_arrays(self, state: EnsembleRun) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """All of the state as named arrays and JSON."""
        members = [member.to_dict() for member in state.members]
        return state_to_arrays(state.learning), {"members": members, "generation": state.generation}

    def from_arrays(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> EnsembleRun:
        """The state that `to_arrays` was given."""
        held = sum(array.nbytes for array in arrays.values())
        if held < (least := self.least_bytes(meta)):  # asked before room is made for so many parameters
            raise CheckpointError(f"the saved state has {held:,} bytes, but its members have {least:,} of parameters")
        empty = self._start(_saved_members(meta), seed=0)
        generation = count("the saved generation", meta["generation"])
        return empty._replace(learning=state_from_arrays(empty.learning, arrays), generation=generation)

    def least_bytes(self, meta: dict[str, Any]) -> int:
        """The online parameters of the members that were saved."""
        return 4 * self.ensemble_of(_saved_members(meta)).parameter_count


def _saved_members(meta: dict[str, Any]) -> tuple[Hyperparameters, ...]:
    return members_from(meta["members"])
