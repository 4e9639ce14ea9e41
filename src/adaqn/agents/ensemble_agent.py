"""What all algorithms with an ensemble of critics share, as the loop sees them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from adaqn.agents.protocol import Clock, MemberReport
from adaqn.agents.schedules import linear
from adaqn.agents.state_arrays import state_from_arrays, state_to_arrays
from adaqn.ensemble import Ensemble
from adaqn.errors import AllMembersDiverged
from adaqn.hyperparameters import Hyperparameters


class EnsembleRun(NamedTuple):
    """What the loop carries: the members, the programs for their architectures, and the arrays."""

    members: tuple[Hyperparameters, ...]
    programs: Any  # compiled functions, the same object for equal architectures
    learning: Any  # the algorithm's state, a tuple of arrays


class EnsembleAgent:
    """The part of an agent that does not depend on how it acts and what its critics learn from.

    A subclass has `_start`, and its state has at least the arrays `selected`, `compared_loss`, `last_loss`,
    `selections` and `diverged`.
    """

    sums_up_selections = False

    def __init__(
        self, settings: Any, members: tuple[Hyperparameters, ...], input_shape: tuple[int, ...], outputs: int
    ) -> None:
        self.settings = settings
        self._members = members
        self._input_shape = input_shape
        self._outputs = outputs

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
        """Online and target parameters, and two moments of the gradient as most optimizers keep them."""
        return 4 * 4 * self.ensemble_of(self._members).parameter_count

    def ensemble_of(self, members: tuple[Hyperparameters, ...]) -> Ensemble:
        """The ensemble of these members for the spaces of this run."""
        return Ensemble.of(members, self._input_shape, self._outputs)

    def init(self, seed: int) -> EnsembleRun:
        """The state at step 0."""
        return self._start(self._members, seed)

    def _start(self, members: tuple[Hyperparameters, ...], seed: int) -> EnsembleRun:
        raise NotImplementedError

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

    def target_member(self, state: EnsembleRun) -> int:
        """The member that the target is computed from, or the first of them."""
        return int(state.learning.selected.members[0])

    def metrics(self, state: EnsembleRun, clock: Clock) -> dict[str, float]:
        """Scalars for the logs."""
        learning = state.learning
        losses, diverged = jax.device_get((learning.last_loss, learning.diverged))
        target = self.target_member(state)
        tags = {
            "train/loss": float(losses[target]),
            "train/learning_rate": state.members[target].learning_rate,
            "ada/behaviour_rate": self.behaviour_epsilon(clock),
            "ada/target_member": float(target),
            "ada/diverged": float(diverged.sum()),
        }
        return tags | {f"ada/loss_{k}": float(loss) for k, loss in enumerate(losses)}

    def report(self, state: EnsembleRun) -> tuple[MemberReport, ...]:
        """The members as they stand."""
        learning = state.learning
        losses, selections, diverged = jax.device_get((learning.compared_loss, learning.selections, learning.diverged))
        # As many members are chosen each time as the target is made of.
        chosen = max(1, int(selections.sum()) // len(learning.selected.members))
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
        return state_to_arrays(state.learning), {"members": [member.to_dict() for member in state.members]}

    def from_arrays(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> EnsembleRun:
        """The state that `to_arrays` was given."""
        members = tuple(Hyperparameters.from_dict(member) for member in meta["members"])
        empty = self._start(members, seed=0)
        return empty._replace(learning=state_from_arrays(empty.learning, arrays))
