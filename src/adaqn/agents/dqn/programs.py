"""The compiled functions of Algorithm 1: one program for all members, or one for each.

One program is faster to run, and is what finite sets of members use. In a space of hyperparameters members change
with every generation; there each has a program of its own, so that only what is new is compiled.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents.core.lean import LeanTransition, repeated
from adaqn.agents.core.q_learning import MemberPrograms, ValueState, learn_one_by_one, member_programs, snapshot
from adaqn.agents.dqn import learning
from adaqn.agents.dqn.learning import DQNRules, TargetChoice
from adaqn.compilation import transition
from adaqn.ensemble import Ensemble
from adaqn.replay.protocol import Batch
from adaqn.replay.rows import RowLayout

Experience = Batch[np.ndarray] | np.ndarray  # a batch, or its rows [B, W] where observations are vectors


class DQNPrograms(Protocol):
    """What the agent calls. A state that goes in must not be used again: its memory is taken over."""

    def act(
        self, state: ValueState, observations: np.ndarray, uniforms: np.ndarray, epsilons: np.ndarray
    ) -> tuple[ValueState, Array]:
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
    ) -> tuple[ValueState, Array]: ...

    def updates(self, state: ValueState, rows: np.ndarray, count: np.ndarray) -> tuple[ValueState, None]:
        """So many updates, one after the other, on the first of the batches [M, B, W]."""
        ...

    def updates_and_act(
        self,
        state: ValueState,
        rows: np.ndarray,
        count: np.ndarray,
        observations: np.ndarray,
        uniforms: np.ndarray,
        epsilons: np.ndarray,
    ) -> tuple[ValueState, Array]: ...

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
    updates: Any
    updates_and_act: Any
    update_target: Any
    greedy: Any


@lru_cache(maxsize=32)  # a search tries one architecture after the other
def fused_programs(ensemble: Ensemble, rules: DQNRules, layout: RowLayout | None = None) -> DQNPrograms:
    """One program for all members; the same object for equal architectures. `layout` is that of rows, if there are."""

    def learned(state: ValueState, experience: Any) -> ValueState:
        batch = experience if layout is None else layout.batch(experience)
        return learning.update(ensemble, rules, state, batch)

    def act(state: ValueState, observations: Array, uniforms: Array, epsilons: Array) -> tuple[ValueState, Array]:
        return learning.act(ensemble, rules, state, observations, uniforms, epsilons)

    def update(state: ValueState, experience: Any) -> tuple[ValueState, None]:
        return learned(state, experience), None

    def update_and_act(state: ValueState, experience: Any, *acting: Array) -> tuple[ValueState, Array]:
        return act(learned(state, experience), *acting)

    def updates(state: ValueState, rows: Array, count: Array) -> tuple[ValueState, None]:
        return repeated(learned, state, rows, count), None

    def updates_and_act(state: ValueState, rows: Array, count: Array, *acting: Array) -> tuple[ValueState, Array]:
        return act(repeated(learned, state, rows, count), *acting)

    return FusedPrograms(
        act=LeanTransition(act),
        update=LeanTransition(update),
        update_and_act=LeanTransition(update_and_act),
        updates=LeanTransition(updates),
        updates_and_act=LeanTransition(updates_and_act),
        update_target=transition(partial(learning.update_target, ensemble, rules)),
        greedy=jax.jit(partial(learning.greedy, ensemble)),
    )


class CountingPrograms(NamedTuple):
    """The compiled functions that count and choose, which do not depend on architectures."""

    add_losses: Any
    mark_diverged: Any
    behaviour_members: Any
    choose_actions: Any
    select_target: Any
    mix: Any


@cache
def counting_programs(rules: DQNRules) -> CountingPrograms:
    """The same object for equal rules."""
    return CountingPrograms(
        add_losses=jax.jit(lambda record, losses: record.add(losses)),
        mark_diverged=jax.jit(lambda record, which: record.mark_diverged(which)),
        behaviour_members=jax.jit(partial(learning.behaviour_members, rules)),
        choose_actions=jax.jit(learning.choose_actions),
        select_target=jax.jit(partial(learning.select_target, rules)),
        mix=jax.jit(learning.mix, static_argnums=3),
    )


class StagedPrograms:
    """One program for each member, called one after the other.

    The ensemble must not be grouped: members with equal architectures share a program, not a call.
    """

    def __init__(self, ensemble: Ensemble, rules: DQNRules, layout: RowLayout | None = None) -> None:
        assert not ensemble.grouped, "a member that joins a group would change the group's program"
        self.rules = rules
        self.layout = layout  # of rows, where batches come as rows
        self.members: tuple[MemberPrograms, ...] = tuple(
            member_programs(ensemble.alone(k)) for k in range(ensemble.size)
        )
        self.counting = counting_programs(rules)

    def update(self, state: ValueState, batch: Experience) -> tuple[ValueState, None]:
        """One gradient step of every member on the shared target."""
        if isinstance(batch, np.ndarray):
            assert self.layout is not None, "rows come where their layout is known"
            batch = self.layout.batch(batch)
        targets = range(len(self.members)) if self.rules.mixture else [int(state.selected.members[0])]
        values, usable = zip(*(self._next_value(state, k, batch.next_observation) for k in targets), strict=True)
        value, unusable = self.counting.mix(jnp.stack(values), jnp.stack(usable), state.selected, len(self.members))
        if np.asarray(unusable).any():
            return state._replace(record=self.counting.mark_diverged(state.record, unusable)), None
        trained, losses = learn_one_by_one(self.members, state, batch, [value] * len(self.members))
        return state._replace(ensemble=trained, record=self.counting.add_losses(state.record, losses)), None

    def _next_value(self, state: ValueState, member: int, next_observation: np.ndarray) -> tuple[Array, Array]:
        online = (state.ensemble[member].parameters,) if self.rules.double else None
        return self.members[member].next_value((state.target[member],), online, next_observation)

    def act(
        self, state: ValueState, observations: np.ndarray, uniforms: np.ndarray, epsilons: np.ndarray
    ) -> tuple[ValueState, Array]:
        """ε-greedy actions of the behaviour members."""
        member = self.counting.behaviour_members(state.record, state.selected, uniforms[:, 2:], epsilons[1])
        acting = np.asarray(member)
        values = {k: np.asarray(self._values(state, k, observations)) for k in set(acting.tolist())}
        q = np.stack([values[k][row] for row, k in enumerate(acting.tolist())])
        record, actions = self.counting.choose_actions(state.record, member, q, uniforms[:, :2], epsilons[0])
        return state._replace(record=record), actions

    def _values(self, state: ValueState, member: int, observations: np.ndarray) -> Array:
        return self.members[member].values((state.ensemble[member].parameters,), observations)

    def update_and_act(
        self,
        state: ValueState,
        batch: Experience,
        observations: np.ndarray,
        uniforms: np.ndarray,
        epsilons: np.ndarray,
    ) -> tuple[ValueState, Array]:
        """`update`, then `act`."""
        state, _ = self.update(state, batch)
        return self.act(state, observations, uniforms, epsilons)

    def updates(self, state: ValueState, rows: np.ndarray, count: np.ndarray) -> tuple[ValueState, None]:
        """Never called: there is no program that could make several updates."""
        raise NotImplementedError

    def updates_and_act(
        self,
        state: ValueState,
        rows: np.ndarray,
        count: np.ndarray,
        observations: np.ndarray,
        uniforms: np.ndarray,
        epsilons: np.ndarray,
    ) -> tuple[ValueState, Array]:
        """Never called either."""
        raise NotImplementedError

    def update_target(
        self, state: ValueState, uniforms: np.ndarray, candidates: np.ndarray
    ) -> tuple[ValueState, TargetChoice]:
        """Choose the target member among the candidates, and renew the snapshot."""
        parameters = tuple(group.parameters for group in state.ensemble)
        finite = np.array([np.isfinite(np.asarray(rows)).all() for rows in parameters])
        record, selected, facts = self.counting.select_target(state.record, finite, candidates, uniforms)
        return state._replace(target=snapshot(parameters), selected=selected, record=record), facts

    def greedy(self, state: ValueState, observations: np.ndarray) -> np.ndarray:
        """The greedy actions of the target member's online network, or of its snapshot if it has diverged since. [n]"""
        target = int(state.selected.members[0])
        q = np.asarray(self._values(state, target, observations))
        if not np.isfinite(q).all():
            q = np.asarray(self.members[target].values((state.target[target],), observations))
        return q.argmax(axis=-1)
