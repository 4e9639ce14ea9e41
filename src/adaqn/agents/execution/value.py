"""Compiled functions of Algorithm 1: one fused program for all members, or one per member.

The fused program is faster and used for fixed members. In a search space members change with every generation, so each
has its own program, and only new architectures are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents.execution.packed import PackedStep, repeated
from adaqn.agents.value import (
    DQNRules,
    Experience,
    MemberPrograms,
    QFunctions,
    TargetChoice,
    ValueState,
    learn_one_by_one,
    member_programs,
    next_value_alone,
    packed_batch,
    snapshot,
)
from adaqn.members.selection import Selection
from adaqn.networks.ensemble import Ensemble, own_array
from adaqn.networks.xla.compilation import jit_step, small_program
from adaqn.networks.xla.threads import available_cores
from adaqn.replay.protocol import Batch
from adaqn.replay.rows import RowLayout


class DQNPrograms(Protocol):
    """The functions that the agent calls. They donate their input state, which must not be used again."""

    def act(
        self, state: ValueState, observations: np.ndarray, uniforms: np.ndarray, epsilons: np.ndarray
    ) -> tuple[ValueState, Array | np.ndarray]:
        """The actions [n], for uniforms [n, 3 + K] and epsilons (ε, ε_b)."""
        ...

    def update(self, state: ValueState, batch: Experience) -> tuple[ValueState, None]: ...

    def update_and_act(
        self,
        state: ValueState,
        batch: Experience,
        observations: np.ndarray,
        uniforms: np.ndarray,
        epsilons: np.ndarray,
    ) -> tuple[ValueState, Array | np.ndarray]: ...

    def update_target(
        self, state: ValueState, uniforms: np.ndarray, candidates: np.ndarray
    ) -> tuple[ValueState, TargetChoice]:
        """Choose the target member among the candidates. [K] each"""
        ...

    def greedy(self, state: ValueState, observations: np.ndarray) -> Array | np.ndarray: ...


class FusedPrograms(NamedTuple):
    """One program for all members."""

    act: Any
    update: Any
    update_and_act: Any
    updates: Any  # (state, batches [M, B, W], count []) -> (state, None): an update on each of the first batches
    updates_and_act: Any  # (state, batches, count, observations, uniforms, epsilons) -> (state, actions)
    update_target: Any
    greedy: Any


@lru_cache(maxsize=32)  # a search tries many architectures in turn
def fused_programs(
    family: QFunctions, ensemble: Ensemble, rules: DQNRules, layout: RowLayout | None = None
) -> FusedPrograms:
    """Compile one program for all members; equal architectures share one result. With a layout, batches are rows."""

    def learned(state: ValueState, experience: Any) -> ValueState:
        batch = experience if layout is None else layout.batch(experience)
        return family.update(family, ensemble, rules, state, batch)

    def act(state: ValueState, observations: Array, uniforms: Array, epsilons: Array) -> tuple[ValueState, Array]:
        return family.act(ensemble, rules, state, observations, uniforms, epsilons)

    def update(state: ValueState, experience: Any) -> tuple[ValueState, None]:
        return learned(state, experience), None

    def update_and_act(state: ValueState, experience: Any, *acting: Array) -> tuple[ValueState, Array]:
        return act(learned(state, experience), *acting)

    def updates(state: ValueState, rows: Array, count: Array) -> tuple[ValueState, None]:
        return repeated(learned, state, rows, count), None

    def updates_and_act(state: ValueState, rows: Array, count: Array, *acting: Array) -> tuple[ValueState, Array]:
        return act(repeated(learned, state, rows, count), *acting)

    return FusedPrograms(
        act=PackedStep(act),
        update=PackedStep(update),
        update_and_act=PackedStep(update_and_act),
        updates=PackedStep(updates),
        updates_and_act=PackedStep(updates_and_act),
        update_target=jit_step(partial(family.update_target, ensemble, rules)),
        greedy=small_program(partial(family.greedy, ensemble)),
    )


class CountingPrograms(NamedTuple):
    """Compiled functions that count and choose; they are independent of the architectures."""

    behaviour_members: Any  # (losses, alive [K each], uniforms [n, 1 + K] and ε_b as one vector, selected) -> [n]
    select_target: Any
    mix: Any


def _behaviour_members(family: QFunctions, rules: DQNRules, size: int, numbers: Array, selected: Selection) -> Array:
    """`behaviour_members`, given its numbers as one vector, because every array of a call takes time."""
    losses, alive, uniforms = jnp.split(numbers[:-1], [size, 2 * size])
    drawn = uniforms.reshape(-1, 1 + size)
    return family.behaviour_members(rules, losses, alive > 0.0, selected, drawn, numbers[-1])


@cache
def counting_programs(family: QFunctions, rules: DQNRules) -> CountingPrograms:
    """Compile the functions; equal rules share one result."""
    return CountingPrograms(
        behaviour_members=small_program(partial(_behaviour_members, family, rules), static_argnums=0),
        select_target=small_program(partial(family.select_target, rules)),
        mix=small_program(family.mix, static_argnums=3),
    )


class StagedPrograms:
    """One program per member, called one after the other; counting and choosing actions is done in NumPy.

    The ensemble must not be grouped: members with equal architectures share a program, but not a call.
    """

    def __init__(
        self,
        family: QFunctions,
        ensemble: Ensemble,
        rules: DQNRules,
        layout: RowLayout | None = None,
        batch_size: int = 1,
        lanes: int = 1,
    ) -> None:
        assert not ensemble.grouped, "a member that joins a group would change the group's program"
        self.rules = rules
        self.layout = layout  # of the rows, if batches are passed as rows
        self.members: tuple[MemberPrograms, ...] = tuple(
            member_programs(ensemble.alone(k), layout, family.learn) for k in range(ensemble.size)
        )
        self.counting = counting_programs(family, rules)
        self._mixture = rules.mixture  # looked up once: it takes longer than the smallest program
        self._batch_size = batch_size
        self._lanes = lanes  # among which the members are divided
        self._prepared = False

    def update(self, state: ValueState, batch: Experience) -> tuple[ValueState, None]:
        """One gradient step of every member towards the shared target."""
        next_observation = self._next_observation(batch)
        if not self._prepared:
            self._prepared = True
            self._compile_together(state, batch, next_observation)
        value, unusable = self._target_value(state, next_observation)
        record = state.record
        if unusable is not None and unusable.any():
            diverged = np.asarray(record.diverged) | unusable
            return state._replace(record=record._replace(diverged=diverged)), None
        trained, losses = learn_one_by_one(self.members, state, batch, lambda k: value, self._lanes)
        counted = record._replace(
            loss=np.asarray(record.loss) + losses,
            last_loss=losses,
            diverged=np.asarray(record.diverged) | ~np.isfinite(losses),
        )
        return state._replace(ensemble=trained, record=counted), None

    def _next_observation(self, batch: Experience) -> np.ndarray:
        if isinstance(batch, Batch):
            return batch.next_observation
        assert self.layout is not None, "rows are passed only if their layout is known"
        return self.layout.next_observation(batch)

    def _compile_together(self, state: ValueState, batch: Experience, next_observation: np.ndarray) -> None:
        """Compile the programs of new members in parallel before the first update of a generation.

        Each program is called on copies. The compiler releases the global interpreter lock, so threads use all cores.
        """
        gamma = np.asarray(state.gamma)
        given = packed_batch(batch, np.zeros(len(next_observation), np.float32), gamma)
        calls: dict[Any, Callable[[], Any]] = {}
        for k, programs in enumerate(self.members):
            member = state.ensemble[k]
            if programs.values._cache_size() == 0:
                calls[programs.values] = partial(programs.values, member.parameters, next_observation)
            if programs.learn._cache_size() == 0 and not _has_keys(member):
                calls[programs.learn] = partial(programs.learn, jax.tree.map(own_array, member), given, gamma[None])
        if len(calls) > 1:
            with ThreadPoolExecutor(min(len(calls), available_cores())) as pool:
                for call in [pool.submit(call) for call in calls.values()]:
                    call.result()

    def _target_value(self, state: ValueState, next_observation: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """As `target_value`; None if no value is unusable."""

        def value_of(k: int) -> tuple[np.ndarray, bool]:
            online = state.ensemble[k].parameters if self.rules.double else None
            return next_value_alone(self.members[k], state.target[k], online, next_observation)

        if self._mixture:
            values, usable = zip(*map(value_of, range(len(self.members))), strict=True)
            mixed = self.counting.mix(np.stack(values), np.array(usable), state.selected, len(self.members))
            return np.asarray(mixed[0]), np.asarray(mixed[1])
        target = int(np.asarray(state.selected.members)[0])
        value, sound = value_of(target)
        return value, None if sound else np.arange(len(self.members)) == target

    def act(
        self, state: ValueState, observations: np.ndarray, uniforms: np.ndarray, epsilons: np.ndarray
    ) -> tuple[ValueState, np.ndarray]:
        """ε-greedy actions of the behaviour members, as `choose_actions`."""
        record = state.record
        losses, dead = np.asarray(record.loss), np.asarray(record.diverged)
        numbers = np.concatenate([losses, ~dead, uniforms[:, 2:].ravel(), epsilons[1:]], dtype=np.float32)
        member = np.asarray(self.counting.behaviour_members(len(dead), numbers, state.selected))
        acting = member.tolist()
        values = {k: self._values(state.ensemble[k].parameters, k, observations) for k in set(acting)}
        q = np.stack([values[k][row] for row, k in enumerate(acting)])
        diverged = dead.copy()
        diverged[member[~np.isfinite(q).all(axis=-1)]] = True
        if diverged[member].any():
            return state._replace(record=record._replace(diverged=diverged)), np.full(len(acting), -1, np.int32)
        anything = (uniforms[:, 1] * np.float32(q.shape[-1])).astype(np.int32)
        action = np.where(uniforms[:, 0] < epsilons[0], anything, q.argmax(axis=-1).astype(np.int32))
        acted = np.asarray(record.acted) + np.bincount(member, minlength=len(dead)).astype(np.int32)
        return state._replace(record=record._replace(diverged=diverged, acted=acted)), action

    def _values(self, parameters: Array, member: int, observations: np.ndarray) -> np.ndarray:
        """The Q-values of a member. [n, A]

        Vectors are padded to the size of a batch, for which there is a program already: compiling another one takes
        longer than a smaller one saves until the next generation.
        """
        n = len(observations)
        if self.layout is not None and n < self._batch_size:
            rows = np.zeros((self._batch_size, *observations.shape[1:]), observations.dtype)
            rows[:n] = observations
            observations = rows
        return np.asarray(self.members[member].values(parameters, observations))[:n]

    def update_and_act(
        self,
        state: ValueState,
        batch: Experience,
        observations: np.ndarray,
        uniforms: np.ndarray,
        epsilons: np.ndarray,
    ) -> tuple[ValueState, np.ndarray]:
        """`update`, then `act`."""
        state, _ = self.update(state, batch)
        return self.act(state, observations, uniforms, epsilons)

    def update_target(
        self, state: ValueState, uniforms: np.ndarray, candidates: np.ndarray
    ) -> tuple[ValueState, TargetChoice]:
        """Choose the target member among the candidates, and update the snapshot."""
        parameters = tuple(group.parameters for group in state.ensemble)
        finite = np.array([np.isfinite(np.asarray(rows)).all() for rows in parameters])
        record = jax.tree.map(np.asarray, state.record)  # of NumPy or of JAX, by what was done last
        record, selected, facts = self.counting.select_target(record, finite, candidates, uniforms)
        return state._replace(target=snapshot(parameters), selected=selected, record=record), facts

    def greedy(self, state: ValueState, observations: np.ndarray) -> np.ndarray:
        """The greedy actions of the target member's online network, or of its snapshot if it has diverged since. [n]"""
        target = int(state.selected.members[0])
        q = self._values(state.ensemble[target].parameters, target, observations)
        if not np.isfinite(q).all():
            q = self._values(state.target[target], target, observations)
        return q.argmax(axis=-1)


def _has_keys(member: Any) -> bool:
    """Whether its optimizer draws; NumPy cannot copy a random key."""
    return any(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in jax.tree.leaves(member))
