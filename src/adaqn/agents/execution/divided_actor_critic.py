"""An update of an actor-critic algorithm that is divided among threads, as several compiled programs.

1. Every lane computes the target values of its share of the batch.
2. Every lane trains its share of the critics on the whole batch.
3. Every lane computes the actor's gradient on its share of the batch, against the trained critics.

The first lane then applies the mean of the gradients and chooses the next actions. All of it is the same arithmetic as
in the single program of `actor_critic_programs`, but sums over the batch are rounded in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents.actor_critic import (
    Functions,
    Program,
    behaviour_pair,
    critic_step,
    is_sound,
    settle_critics,
)
from adaqn.agents.execution.shares import mean_of_shares, shares, without_optimizers
from adaqn.agents.record import tree_where
from adaqn.networks.ensemble import EnsembleParameters, EnsembleState, GroupState
from adaqn.networks.xla.compilation import jit_step, small_program
from adaqn.networks.xla.lanes import shared_lanes
from adaqn.replay.protocol import Batch


class _Learned(NamedTuple):
    """The critics of one lane after an update."""

    critics: EnsembleState
    target: EnsembleParameters
    losses: Array  # [K of the lane]


class _Gradient(NamedTuple):
    """The result of one lane for the actor; all but `found` is the same in every lane."""

    settled: tuple[Any, ...]  # record, selection and counts after the update of the critics
    pair: Array  # [2]
    found: Any


class DividedUpdate:
    """The programs of an update. They donate the state that is passed in, which must not be used again."""

    def __init__(self, family: Functions, program: Program[Any]) -> None:
        self._family, self._program = family, program
        self._ensemble = program.ensemble
        self._lanes = shared_lanes(self._ensemble.lanes)
        self._shares = shares(program.settings.sample_size, self._ensemble.lanes)
        self._used: set[Any] = set()  # programs that have been called, and so compiled
        self._next_value = small_program(partial(family.next_value, program))
        self._learn = [jit_step(partial(self._learn_in, lane)) for lane in range(self._ensemble.used_lanes)]
        self._actor_gradient = small_program(self._actor_gradient_of_part)
        self._step_actor = jit_step(self._with_actor_step)
        self._settle = jit_step(self._without_actor_step)

    def __call__(
        self, actor: bool, state: Any, batch: Batch[np.ndarray], draws: Any, epsilon: np.ndarray, *acting: np.ndarray
    ) -> Any:
        """The state after an update, of the actor too if `actor`; and actions if observations and noise are given."""
        frozen = state._replace(ensemble=())
        values = self._for_each_share(
            self._next_value, lambda rows: (frozen, batch.next_observation[rows], draws.rows(rows))
        )
        learned = self._lanes.run(
            [
                partial(learn, self._own(lane, state), values, batch, state.discount, state.gamma)
                for lane, learn in enumerate(self._learn)
            ]
        )
        critics, target = self._joined(learned)
        losses = [of_lane.losses for of_lane in learned]
        frozen = frozen._replace(target=target)
        if not actor:
            small = draws.rows(slice(0, 0))
            after = self._settle(frozen, values, losses, small, *acting)
        else:
            view = frozen._replace(ensemble=without_optimizers(critics), target=())
            gradients = self._for_each_share(
                self._actor_gradient,
                lambda rows: (view, values, losses, batch.observation[rows], draws.rows(rows), epsilon),
            )
            record, selected, counts = gradients[0].settled
            settled = frozen._replace(record=record, selected=selected, counts=counts)
            found = [of_part.found for of_part in gradients]
            after = self._step_actor(settled, self._ensemble.parameters(critics), gradients[0].pair, found, *acting)
        if not acting:
            return after._replace(ensemble=critics)
        return after[0]._replace(ensemble=critics), after[1]

    def _for_each_share(self, program: Any, arguments: Callable[[slice], tuple[Any, ...]]) -> list[Any]:
        """Call a program for every share of the batch, in lanes.

        The first time the calls are made one after the other, so that the program is compiled once.
        """
        calls = [partial(program, *arguments(rows)) for rows in self._shares]
        if program in self._used:
            return self._lanes.run(calls)
        self._used.add(program)
        return [call() for call in calls]

    def _own(self, lane: int, state: Any) -> tuple[EnsembleState, EnsembleParameters]:
        """The critics of a lane and their targets."""
        groups = self._ensemble.groups_of_lane(lane)
        return tuple(state.ensemble[g] for g in groups), tuple(state.target[g] for g in groups)

    def _joined(self, learned: Sequence[_Learned]) -> tuple[EnsembleState, EnsembleParameters]:
        """The critics of all lanes and their targets, in the order of the groups."""
        critics: dict[int, GroupState] = {}
        target: dict[int, Array] = {}
        for lane, of_lane in enumerate(learned):
            groups = self._ensemble.groups_of_lane(lane)
            critics |= zip(groups, of_lane.critics, strict=True)
            target |= zip(groups, of_lane.target, strict=True)
        return tuple(critics[g] for g in sorted(critics)), tuple(target[g] for g in sorted(target))

    def _learn_in(
        self,
        lane: int,
        own: tuple[EnsembleState, EnsembleParameters],
        values: Sequence[tuple[Array, Array]],
        batch: Batch[Array],
        discount: Array,
        gamma: Array,
    ) -> _Learned:
        critics, target = own
        members, ensemble = self._ensemble.lane(lane)
        value = jnp.concatenate([of_part for of_part, _ in values])
        sound = is_sound(value)
        trained, losses = critic_step(ensemble, critics, batch, value, discount[np.array(members)], gamma, sound)
        followed = self._family.follow(self._program, target, ensemble.parameters(trained))
        return _Learned(trained, tree_where(sound, followed, target), losses)

    def _settled(self, state: Any, values: Sequence[tuple[Array, Array]], losses: Sequence[Array], draws: Any) -> Any:
        sound = is_sound(jnp.concatenate([of_part for of_part, _ in values]))
        unusable = jnp.stack([of_part for _, of_part in values]).any(axis=0)
        order = np.argsort(np.concatenate([self._ensemble.lane(lane)[0] for lane in range(len(losses))]))
        in_order = jnp.concatenate(losses)[order]
        return settle_critics(self._program, state, in_order, unusable, sound, draws.selection)

    def _actor_gradient_of_part(
        self,
        state: Any,
        values: Sequence[tuple[Array, Array]],
        losses: Sequence[Array],
        observation: Array,
        draws: Any,
        epsilon: Array,
    ) -> _Gradient:
        settled = self._settled(state, values, losses, draws)
        pair = behaviour_pair(self._program, settled, draws.behaviour, epsilon)
        found = self._family.actor_gradient(self._program, settled, observation, draws, pair)
        return _Gradient((settled.record, settled.selected, settled.counts), pair, found)

    def _with_actor_step(
        self, state: Any, critics: EnsembleParameters, pair: Array, found: Sequence[Any], *acting: Array
    ) -> Any:
        mean = mean_of_shares(found)
        return self._then_act(self._family.step_actor(self._program, state, critics, pair, mean), acting)

    def _without_actor_step(
        self, state: Any, values: Sequence[tuple[Array, Array]], losses: Sequence[Array], draws: Any, *acting: Array
    ) -> Any:
        return self._then_act(self._settled(state, values, losses, draws), acting)

    def _then_act(self, state: Any, acting: tuple[Array, ...]) -> Any:
        return (state, self._family.act(self._program, state, *acting)) if acting else state
