"""An update of Algorithm 1 that is divided among threads, as several compiled programs.

1. Every lane computes the target values of its share of the batch, and the gradients of all members on it.
2. Every lane applies the mean gradients of its share of the members.

The first lane then counts the losses and chooses the next actions. All of it is the same arithmetic as in the fused
program, but sums over the batch are rounded in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents.execution.shares import mean_of_shares, shares, without_optimizers
from adaqn.agents.execution.value import fused_programs
from adaqn.agents.record import MemberRecord, tree_where
from adaqn.agents.value import DQNRules, Experience, QFunctions, TargetChoice, ValueState
from adaqn.networks.ensemble import Ensemble, EnsembleState, GroupState
from adaqn.networks.xla.compilation import jit_step, small_program
from adaqn.networks.xla.lanes import shared_lanes, spread
from adaqn.replay.rows import RowLayout


class _Share(NamedTuple):
    """The result of one share of the batch, with means over it."""

    gradients: tuple[Any, ...]  # of every group
    losses: Array  # [K]
    unusable: Array  # [K]


class DividedPrograms:
    """The functions of `DQNPrograms` for fixed members and several lanes."""

    def __init__(
        self,
        family: QFunctions,
        ensemble: Ensemble,
        rules: DQNRules,
        layout: RowLayout | None,
        batch_size: int,
        count: int,
    ) -> None:
        self._family = family
        self._ensemble, self._rules, self._layout = ensemble, rules, layout
        self._lanes = shared_lanes(count)
        self._shares = shares(batch_size, count)
        self._used = False
        loads = [len(group) * network.size for group, network in zip(ensemble.groups, ensemble.networks, strict=True)]
        self._groups = [groups for groups in spread(loads, count) if groups]  # of each lane
        self._share = small_program(self._share_of_batch)
        self._step = [jit_step(partial(self._step_groups, tuple(groups))) for groups in self._groups]
        self._settle = jit_step(self._settle_record)
        self._settle_and_act = jit_step(self._settle_record_and_act)
        self._whole = fused_programs(family, ensemble, rules, layout)  # for all that is not divided

    def act(
        self, state: ValueState, observations: np.ndarray, uniforms: np.ndarray, epsilons: np.ndarray
    ) -> tuple[ValueState, Array | np.ndarray]:
        """The actions [n], for uniforms [n, 3 + K] and epsilons (ε, ε_b)."""
        return self._whole.act(state, observations, uniforms, epsilons)

    def update(self, state: ValueState, batch: Experience) -> tuple[ValueState, None]:
        """One gradient step of every member towards the shared target."""
        trained, found = self._learned(state, batch)
        record = self._settle(state.record, [(one.losses, one.unusable) for one in found])
        return state._replace(ensemble=trained, record=record), None

    def update_and_act(
        self,
        state: ValueState,
        batch: Experience,
        observations: np.ndarray,
        uniforms: np.ndarray,
        epsilons: np.ndarray,
    ) -> tuple[ValueState, Array | np.ndarray]:
        """`update`, then `act`."""
        trained, found = self._learned(state, batch)
        counted = [(one.losses, one.unusable) for one in found]
        view = state._replace(ensemble=without_optimizers(trained), target=(), record=())
        record, actions = self._settle_and_act(state.record, counted, view, observations, uniforms, epsilons)
        return state._replace(ensemble=trained, record=record), actions

    def update_target(
        self, state: ValueState, uniforms: np.ndarray, candidates: np.ndarray
    ) -> tuple[ValueState, TargetChoice]:
        """Choose the target member among the candidates. [K] each"""
        return self._whole.update_target(state, uniforms, candidates)

    def greedy(self, state: ValueState, observations: np.ndarray) -> Array | np.ndarray:
        """The greedy actions of the target member."""
        return self._whole.greedy(state, observations)

    def _learned(self, state: ValueState, batch: Experience) -> tuple[EnsembleState, list[_Share]]:
        """The members after the gradient step, and what was found for each share of the batch."""
        view = state._replace(ensemble=without_optimizers(state.ensemble), record=())
        calls = [partial(self._share, view, jax.tree.map(lambda rows, s=s: rows[s], batch)) for s in self._shares]
        # The first time one after the other, so that the program is compiled once.
        found = self._lanes.run(calls) if self._used else [call() for call in calls]
        self._used = True
        unusable = [one.unusable for one in found]
        stepped = self._lanes.run(
            [
                partial(
                    step,
                    [state.ensemble[g] for g in groups],
                    [[one.gradients[g] for one in found] for g in groups],
                    unusable,
                )
                for groups, step in zip(self._groups, self._step, strict=True)
            ]
        )
        trained: dict[int, GroupState] = {}
        for groups, after in zip(self._groups, stepped, strict=True):
            trained |= zip(groups, after, strict=True)
        return tuple(trained[g] for g in range(len(trained))), found

    def _share_of_batch(self, state: Any, experience: Any) -> _Share:
        batch = experience if self._layout is None else self._layout.batch(experience)
        value, unusable = self._family.target_value(self._ensemble, self._rules, state, batch.next_observation)
        found, losses = self._family.gradients(
            self._ensemble, state.ensemble, batch, value, state.discount, state.gamma
        )
        return _Share(found, losses, unusable)

    def _step_groups(
        self,
        groups: tuple[int, ...],
        old: list[GroupState],
        found: list[list[Any]],  # of each group, for each share of the batch
        unusable: Sequence[Array],
    ) -> list[GroupState]:
        sound = ~jnp.stack(unusable).any()
        means = [mean_of_shares(of_shares) for of_shares in found]
        return [self._ensemble.step(g, group, mean, sound) for g, group, mean in zip(groups, old, means, strict=True)]

    def _settle_record(self, record: MemberRecord, counted: Sequence[tuple[Array, Array]]) -> MemberRecord:
        losses, unusable = mean_of_shares(counted)
        return tree_where(~unusable.any(), record.add(losses), record.mark_diverged(unusable))

    def _settle_record_and_act(
        self,
        record: MemberRecord,
        counted: Sequence[tuple[Array, Array]],
        state: Any,
        observations: Array,
        uniforms: Array,
        epsilons: Array,
    ) -> tuple[MemberRecord, Array]:
        settled = state._replace(record=self._settle_record(record, counted))
        after, actions = self._family.act(self._ensemble, self._rules, settled, observations, uniforms, epsilons)
        return after.record, actions


@lru_cache(maxsize=32)
def divided_programs(
    family: QFunctions, ensemble: Ensemble, rules: DQNRules, layout: RowLayout | None, batch_size: int, count: int
) -> DividedPrograms:
    """The programs for this number of lanes; equal architectures share one result."""
    return DividedPrograms(family, ensemble, rules, layout, batch_size, count)
