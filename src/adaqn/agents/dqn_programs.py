"""The compiled functions of Algorithm 1: one program for all members, or one for each.

One program is faster to run, and is what finite sets of members use. In a space of hyperparameters members change
with every generation; there each has a program of its own, so that only what is new is compiled.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents import dqn_learning
from adaqn.agents.dqn_learning import DQNState
from adaqn.compilation import transition
from adaqn.ensemble import Ensemble, EnsembleParameters, EnsembleState
from adaqn.replay.protocol import Batch
from adaqn.selection import Selection


class Programs(NamedTuple):
    """What an agent calls; the same for both kinds."""

    act: Any  # (state, observations [n, ...], uniforms [n, 3 + K], epsilons [2]) -> (state, actions [n])
    update: Any  # (state, batch) -> state
    update_and_act: Any  # (state, batch, observations, uniforms, epsilons) -> (state, actions)
    update_target: Any  # (state, uniforms [K]) -> (state, losses [K], acted [K], newly diverged [K])
    greedy: Any  # (state, observations) -> actions


@lru_cache(maxsize=32)  # a search tries one architecture after the other
def fused_programs(ensemble: Ensemble, selection: str, behaviour: str) -> Programs:
    """One program for all members; the same object for equal architectures."""

    def update_and_act(
        state: DQNState, batch: Batch[Array], observations: Array, uniforms: Array, epsilons: Array
    ) -> tuple[DQNState, Array]:
        state = dqn_learning.update(ensemble, state, batch)
        return dqn_learning.act(ensemble, behaviour, state, observations, uniforms, epsilons)

    return Programs(
        act=transition(partial(dqn_learning.act, ensemble, behaviour)),
        update=transition(partial(dqn_learning.update, ensemble)),
        update_and_act=transition(update_and_act),
        update_target=transition(partial(dqn_learning.update_target, ensemble, selection)),
        greedy=jax.jit(partial(dqn_learning.greedy, ensemble)),
    )


class MemberPrograms(NamedTuple):
    """The compiled functions of one member, given as an ensemble of one."""

    value: Any  # (parameters, observations) -> Q [n, A]
    target_value: Any  # (target parameters, next observations) -> (value [B], sound [])
    learn: Any  # (state, batch, next value [B], discount [1], gamma []) -> (state, losses [1])


@lru_cache(maxsize=128)  # a long run in a space has more architectures than are worth keeping
def member_programs(alone: Ensemble) -> MemberPrograms:
    """The programs of one member; the same object for equal architectures, whoever has them."""
    first = Selection(jnp.zeros(1, jnp.int32), jnp.ones(1))

    def value(parameters: EnsembleParameters, observations: Array) -> Array:
        return alone.value(parameters, first.members[0], observations)

    def target_value(target: EnsembleParameters, next_observation: Array) -> tuple[Array, Array]:
        return dqn_learning.target_value(alone, target, first, next_observation)

    def learn(
        member: EnsembleState, batch: Batch[Array], next_value: Array, discount: Array, gamma: Array
    ) -> tuple[EnsembleState, Array]:
        return dqn_learning.learn(alone, member, batch, next_value, discount, gamma)

    return MemberPrograms(jax.jit(value), jax.jit(target_value), transition(learn))


class CountingPrograms(NamedTuple):
    """The compiled functions that count and choose, which do not depend on architectures."""

    count_losses: Any
    give_up_target: Any
    behaviour_members: Any
    choose_actions: Any
    select_target: Any


@cache
def counting_programs(selection: str, behaviour: str) -> CountingPrograms:
    """The same object for equal rules."""
    return CountingPrograms(
        count_losses=jax.jit(dqn_learning.count_losses),
        give_up_target=jax.jit(dqn_learning.give_up_target),
        behaviour_members=jax.jit(partial(dqn_learning.behaviour_members, behaviour)),
        choose_actions=jax.jit(dqn_learning.choose_actions),
        select_target=jax.jit(partial(dqn_learning.select_target, selection)),
    )


class StagedPrograms:
    """One program for each member, called one after the other, with the interface of `Programs`.

    The ensemble must not be grouped: members with equal architectures share a program, not a call.
    """

    def __init__(self, ensemble: Ensemble, selection: str, behaviour: str) -> None:
        assert not ensemble.grouped, "a member that joins a group would change the group's program"
        self.members = tuple(member_programs(ensemble.alone(k)) for k in range(ensemble.size))
        self.counting = counting_programs(selection, behaviour)

    def update(self, state: DQNState, batch: Batch[np.ndarray]) -> DQNState:
        """One gradient step of every member on the shared target."""
        target = int(state.selected.members[0])
        next_value, sound = self.members[target].target_value((state.target[target],), batch.next_observation)
        if not sound:
            return _with_counts(state, self.counting.give_up_target(_counts(state)))
        return self.learn(state, batch, [next_value] * len(self.members))

    def learn(self, state: DQNState, batch: Batch[np.ndarray], next_values: list[Array]) -> DQNState:
        """One gradient step of every member towards its own values of what comes next. K of [B]"""
        trained, losses = [], []
        discount, gamma = np.asarray(state.discount), state.gamma
        for k, programs in enumerate(self.members):
            member, loss = programs.learn((state.ensemble[k],), batch, next_values[k], discount[k : k + 1], gamma)
            trained.append(member[0])
            losses.append(np.asarray(loss)[0])
        counts = self.counting.count_losses(_counts(state), np.stack(losses))
        return _with_counts(state._replace(ensemble=tuple(trained)), counts)

    def act(
        self, state: DQNState, observations: np.ndarray, uniforms: np.ndarray, epsilons: np.ndarray
    ) -> tuple[DQNState, Array]:
        """ε-greedy actions of the behaviour members."""
        counts = _counts(state)
        member = self.counting.behaviour_members(counts, uniforms[:, 2:], epsilons[1])
        acting = np.asarray(member)
        values = {k: np.asarray(self.value(state, k, observations)) for k in set(acting.tolist())}
        q = np.stack([values[k][row] for row, k in enumerate(acting.tolist())])
        counts, actions = self.counting.choose_actions(counts, member, q, uniforms[:, :2], epsilons[0])
        return _with_counts(state, counts), actions

    def value(self, state: DQNState, member: int, observations: np.ndarray) -> Array:
        """The values of a member's online network. [n, A]"""
        return self.members[member].value((state.ensemble[member].parameters,), observations)

    def update_and_act(
        self,
        state: DQNState,
        batch: Batch[np.ndarray],
        observations: np.ndarray,
        uniforms: np.ndarray,
        epsilons: np.ndarray,
    ) -> tuple[DQNState, Array]:
        """`update`, then `act`."""
        return self.act(self.update(state, batch), observations, uniforms, epsilons)

    def update_target(
        self, state: DQNState, uniforms: np.ndarray, candidates: np.ndarray | None = None
    ) -> tuple[DQNState, Array, Array, Array]:
        """Choose the target member among all or the candidates [K], and renew the snapshot."""
        # With NumPy, which compiles nothing for shapes it has not seen.
        parameters = [np.asarray(group.parameters) for group in state.ensemble]
        finite = np.array([np.isfinite(rows).all() for rows in parameters])
        if candidates is None:
            candidates = np.ones(len(parameters), bool)
        counts, *facts = self.counting.select_target(_counts(state), finite, candidates, uniforms)
        snapshot = tuple(jnp.array(rows, copy=True) for rows in parameters)
        return _with_counts(state._replace(target=snapshot), counts), *facts

    def renew_targets(self, state: DQNState) -> DQNState:
        """Renew the snapshot of every member, where each has its own target, and choose nobody.

        A member that diverged keeps its last one, which it can still act with.
        """
        diverged = np.asarray(state.diverged)
        snapshot = list(state.target)
        for k, group in enumerate(state.ensemble):
            parameters = np.asarray(group.parameters)
            if not diverged[k] and np.isfinite(parameters).all():
                snapshot[k] = jnp.array(parameters, copy=True)
        return state._replace(target=tuple(snapshot))

    def greedy(self, state: DQNState, observations: np.ndarray) -> np.ndarray:
        """The greedy actions of the target member's online network, or of its snapshot if it diverged since. [n]"""
        target = int(state.selected.members[0])
        q = np.asarray(self.value(state, target, observations))
        if not np.isfinite(q).all():
            q = np.asarray(self.members[target].value((state.target[target],), observations))
        return q.argmax(axis=-1)


def _counts(state: DQNState) -> DQNState:
    return state._replace(ensemble=(), target=())


def _with_counts(state: DQNState, counts: DQNState) -> DQNState:
    return counts._replace(ensemble=state.ensemble, target=state.target)
