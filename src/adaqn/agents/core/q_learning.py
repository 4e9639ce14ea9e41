"""Learning of Q functions with discrete actions, as pure functions: what DQN and SEARL have in common."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents.core.record import MemberRecord
from adaqn.agents.core.targets import bellman_target
from adaqn.compilation import transition
from adaqn.ensemble import Ensemble, EnsembleParameters, EnsembleState
from adaqn.networks.losses import l2
from adaqn.replay.protocol import Batch
from adaqn.selection import Selection


class ValueState(NamedTuple):
    """All that learning changes. K members, S of them make up the target."""

    ensemble: EnsembleState  # online parameters and optimizer states
    target: EnsembleParameters  # snapshot of the online parameters at the last target update
    selected: Selection  # the target member ψ, an index into the snapshot, or several with weights
    record: MemberRecord
    discount: Array  # [K] γ_k
    gamma: Array  # [] γ̄


def next_value(q_target: Array, q_online: Array | None) -> Array:
    """max_a' Q_target(s', a'); with online values, Q_target of their best action (double Q). [..., A] -> [...]"""
    if q_online is None:
        return q_target.max(axis=-1)
    return jnp.take_along_axis(q_target, q_online.argmax(axis=-1)[..., None], axis=-1)[..., 0]


def learn(
    ensemble: Ensemble,
    members: EnsembleState,
    batch: Batch[Array],
    value: Array,
    discount: Array,
    gamma: Array,
    moves: Array | None = None,
) -> tuple[EnsembleState, Array]:
    """One gradient step of every member towards the value [B] of the next state; its L2 errors before it. [K]

    Members may learn with losses and discounts [K] of their own; they are compared by the L2 error with γ̄. Nobody moves
    where `moves` [] is False.
    """
    # A masked sum instead of an index: its gradient is a product, where that of an index is a scatter, which takes
    # longer than all else that is done with the few values.
    taken = batch.action[:, None] == jnp.arange(ensemble.outputs)[None, :]

    def of_action(q: Array) -> Array:
        return jnp.where(taken, q, 0.0).sum(axis=1)

    targets = jax.vmap(lambda own: bellman_target(value, batch, own))(discount)
    trained, predictions = ensemble.update(members, batch.observation, targets, of_action, moves)
    return trained, l2(predictions - bellman_target(value, batch, gamma)[None, :]).mean(axis=1)


class MemberPrograms(NamedTuple):
    """The compiled functions of one member alone, for ensembles whose members come and go."""

    values: ValuesProgram
    next_value: NextValueProgram
    learn: LearnProgram


class ValuesProgram(Protocol):
    """The Q values of one member. [n, ...] -> [n, A]"""

    def __call__(self, parameters: EnsembleParameters, observations: np.ndarray) -> Array: ...


class NextValueProgram(Protocol):
    """The value of the next state [B], and whether it can be learned from []; `online` is None without double Q."""

    def __call__(
        self, target: EnsembleParameters, online: EnsembleParameters | None, next_observation: np.ndarray
    ) -> tuple[Array, Array]: ...


class LearnProgram(Protocol):
    """`learn` of one member: discount [1], losses [1]."""

    def __call__(
        self, member: EnsembleState, batch: Batch[np.ndarray], value: Array, discount: np.ndarray, gamma: Array
    ) -> tuple[EnsembleState, Array]: ...


@lru_cache(maxsize=128)  # a long run in a space has more architectures than are worth keeping
def member_programs(alone: Ensemble) -> MemberPrograms:
    """The programs of an ensemble of one; the same object for equal architectures, whoever has them."""
    first = jnp.zeros((), jnp.int32)

    def values(parameters: EnsembleParameters, observations: Array) -> Array:
        return alone.value(parameters, first, observations)

    def value_of_next(
        target: EnsembleParameters, online: EnsembleParameters | None, next_observation: Array
    ) -> tuple[Array, Array]:
        q = values(target, next_observation)
        value = next_value(q, None if online is None else values(online, next_observation))
        return value, jnp.isfinite(l2(q)).all()

    def learn_alone(
        member: EnsembleState, batch: Batch[Array], value: Array, discount: Array, gamma: Array
    ) -> tuple[EnsembleState, Array]:
        return learn(alone, member, batch, value, discount, gamma)

    return MemberPrograms(jax.jit(values), jax.jit(value_of_next), transition(learn_alone))


def learn_one_by_one(
    programs: tuple[MemberPrograms, ...], state: ValueState, batch: Batch[np.ndarray], values: list[Array]
) -> tuple[EnsembleState, np.ndarray]:
    """One gradient step of every member towards its own value [B] of the next state; its L2 errors before it. [K]"""
    trained, losses = [], []
    discount = np.asarray(state.discount)
    for k, program in enumerate(programs):
        own = discount[k : k + 1]
        member, loss = program.learn((state.ensemble[k],), batch, values[k], own, state.gamma)
        trained.append(member[0])
        losses.append(np.asarray(loss)[0])
    return tuple(trained), np.stack(losses)


def snapshot(parameters: EnsembleParameters) -> EnsembleParameters:
    """A copy with memory of its own; made by NumPy, which compiles nothing for shapes it has not seen."""
    return tuple(jnp.array(np.asarray(rows), copy=True) for rows in parameters)
