"""Meta-gradient DQN as pure functions (Xu, van Hasselt and Silver, 2018, with the loss of DQN).

The discount is a meta-parameter, γ_η = σ(η). The inner update is an ordinary step of DQN with this discount, which
gives θ'(η). The outer loss is the squared TD error of θ' on another batch, with the cross-validated discount γ̄; its
gradient with respect to η passes through the inner update, optimizer included. η is one number, so this gradient is the
product of the outer gradient and the derivative dθ'/dη, which is computed in forward mode.

As in the original, the network is conditioned on the discount, and no gradient passes through the conditioning. Online
and target network are conditioned on γ_η in the inner update and in the outer loss, whose Bellman target alone has γ̄:
for γ_η they have been trained, while their values for γ̄ are an extrapolation. With the outer loss conditioned on γ̄,
the sign of the meta-gradient depended on the initial weights of the embedding, even in a problem with two states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from adaqn.agents.core.q_learning import next_value
from adaqn.agents.core.record import MemberRecord
from adaqn.agents.core.targets import bellman_target
from adaqn.agents.metagradient.network import ConditionedNetwork
from adaqn.members.selection import Selection, target_rule
from adaqn.networks.ensemble import EnsembleParameters, EnsembleState, GroupState, optimizer_step
from adaqn.networks.losses import LOSS_FUNCTIONS, l2
from adaqn.replay.protocol import Batch


class LearnedDiscount(NamedTuple):
    """The meta-parameter η and its optimizer."""

    logit: Array  # [] η
    optimizer: Any  # state of Adam
    learning_rate: Array  # []

    @property
    def value(self) -> Array:
        """γ_η = σ(η). []"""
        return jax.nn.sigmoid(self.logit)


class MetaState(NamedTuple):
    """Everything that learning changes. P parameters of the ordinary network, P' of the conditioned one."""

    ensemble: EnsembleState  # the policy: the network conditioned on γ_η as an ordinary one, an ensemble of one
    target: EnsembleParameters  # the policy at the last target update
    network: GroupState  # [P'] online parameters of the conditioned network, and its optimizer
    snapshot: Array  # [P'] its parameters at the last target update
    discount: LearnedDiscount
    selected: Selection  # always the only member
    record: MemberRecord
    outer_loss: Array  # [] of the last update
    gamma: Array  # [] γ̄


class InnerUpdate(NamedTuple):
    """The result of the inner update that does not depend on η, or is not differentiated."""

    network: GroupState  # [P'] after the update
    loss: Array  # [] L2 error before the update, with γ_η
    usable: Array  # [] whether the values of the target network are finite


def inner_update(
    network: ConditionedNetwork, double: bool, state: MetaState, batch: Batch[Array], logit: Array
) -> tuple[Array, InnerUpdate]:
    """θ'(η): one step of DQN with the discount σ(η), conditioned on the state's discount, a constant. [P']"""
    discount, condition, member = jax.nn.sigmoid(logit), state.discount.value, state.network
    arrays = network.unravel(member.parameters)
    q_next = network.values(network.unravel(state.snapshot), batch.next_observation, condition)
    online = network.values(arrays, batch.next_observation, condition) if double else None
    target = bellman_target(next_value(q_next, online), batch, discount)
    loss_function, of_action = LOSS_FUNCTIONS[network.architecture.loss], _of_action(batch, network.outputs)

    def mean_loss(arrays: list[Array]) -> tuple[Array, Array]:
        error = of_action(network.values(arrays, batch.observation, condition)) - target
        return loss_function(error).mean(), l2(error).mean()

    gradient, error = jax.grad(mean_loss, has_aux=True)(arrays)
    stepped = optimizer_step(network, member, gradient)
    return stepped.parameters, InnerUpdate(stepped, error, jnp.isfinite(l2(q_next)).all())


def outer_loss(
    network: ConditionedNetwork, double: bool, state: MetaState, batch: Batch[Array], parameters: Array
) -> Array:
    """The mean squared TD error of θ' [P'] with γ̄; the target is a constant. []"""
    arrays, gamma, condition = network.unravel(parameters), state.gamma, state.discount.value
    q_next = network.values(network.unravel(state.snapshot), batch.next_observation, condition)
    online = network.values(arrays, batch.next_observation, condition) if double else None
    target = jax.lax.stop_gradient(bellman_target(next_value(q_next, online), batch, gamma))
    predictions = _of_action(batch, network.outputs)(network.values(arrays, batch.observation, condition))
    return l2(predictions - target).mean()


def meta_gradient(
    network: ConditionedNetwork, double: bool, state: MetaState, inner: Batch[Array], outer: Batch[Array]
) -> tuple[Array, Array, InnerUpdate]:
    """The derivative of the outer loss with respect to η [], the outer loss [], and the inner update."""

    def step(logit: Array) -> tuple[Array, InnerUpdate]:
        return inner_update(network, double, state, inner, logit)

    logit = state.discount.logit
    parameters, change, learned = jax.jvp(step, (logit,), (jnp.ones_like(logit),), has_aux=True)
    # Parameters without any gradient, such as those of dead units, do not depend on η. But the derivative of the square
    # root in optimizers like Adam is infinite at 0, and infinity times 0 is not a number.
    change = jnp.where(jnp.isfinite(change), change, 0.0)
    loss, gradient = jax.value_and_grad(lambda flat: outer_loss(network, double, state, outer, flat))(parameters)
    return gradient @ change, loss, learned


def update(network: ConditionedNetwork, double: bool, state: MetaState, batch: Batch[Array]) -> MetaState:
    """The inner update on the first half of the batch, and a step of η with the outer loss on the second half.

    If the values of the target network are unusable, nothing is learned.
    """
    half = batch.action.shape[0] // 2
    inner, outer = Batch(*(part[:half] for part in batch)), Batch(*(part[half:] for part in batch))
    gradient, loss, learned = meta_gradient(network, double, state, inner, outer)
    discount = discount_step(state.discount, gradient)
    trained = state._replace(
        ensemble=_policy(network, state.ensemble, learned.network.parameters, discount.value),
        network=learned.network,
        discount=discount,
        record=state.record.add(learned.loss[None]),
        outer_loss=loss,
    )
    unlearned = state._replace(record=state.record.mark_diverged(~learned.usable[None]))
    return jax.tree.map(lambda new, old: jnp.where(learned.usable, new, old), trained, unlearned)


def discount_step(discount: LearnedDiscount, gradient: Array) -> LearnedDiscount:
    """One step of Adam on η; none if its gradient is not finite."""
    change, optimizer = optax.adam(discount.learning_rate).update(gradient, discount.optimizer)
    stepped = discount._replace(logit=discount.logit + jnp.asarray(change), optimizer=optimizer)
    return jax.tree.map(lambda new, old: jnp.where(jnp.isfinite(gradient), new, old), stepped, discount)


def act(
    network: ConditionedNetwork, state: MetaState, observations: Array, uniforms: Array, epsilon: Array
) -> tuple[MetaState, Array]:
    """ε-greedy actions, with uniform numbers [n, 2]; all are -1 if the network has diverged. [n]"""
    q = _values(network, state.ensemble[0].parameters, observations)
    sound = jnp.isfinite(q).all() & ~state.record.diverged[0]
    anything = (uniforms[:, 1] * q.shape[-1]).astype(jnp.int32)
    action = jnp.where(uniforms[:, 0] < epsilon, anything, q.argmax(axis=-1).astype(jnp.int32))
    record = state.record.mark_diverged(~sound[None])
    record = record._replace(acted=record.acted + jnp.where(sound, q.shape[0], 0))
    return state._replace(record=record), jnp.where(sound, action, -1)


class TargetFacts(NamedTuple):
    """Statistics reported at a target update. [1] each"""

    losses: Array
    acted: Array
    newly_diverged: Array


def update_target(state: MetaState) -> tuple[MetaState, TargetFacts]:
    """target <- θ, and reset the loss since the last target update."""
    parameters = state.network.parameters
    before = state.record.mark_diverged(~jnp.isfinite(parameters).all()[None])
    record, selected = before.select(target_rule("lowest"), jnp.zeros(1), jnp.ones(1, bool), 1)
    facts = TargetFacts(record.compared_loss, state.record.acted, before.diverged & ~state.record.reported)
    renewed = state._replace(
        target=tuple(jnp.copy(group.parameters) for group in state.ensemble),
        snapshot=jnp.copy(parameters),
        selected=selected,
        record=record.renewed()._replace(loss=jnp.zeros_like(record.loss)),
    )
    return renewed, facts


def greedy(network: ConditionedNetwork, state: MetaState, observations: Array) -> Array:
    """The greedy actions of the policy, or of its snapshot if it has diverged since. [n]"""
    q = _values(network, state.ensemble[0].parameters, observations)
    sound = jnp.isfinite(q).all()
    q = jax.lax.cond(sound, lambda: q, lambda: _values(network, state.target[0], observations))
    return q.argmax(axis=-1)


def _values(network: ConditionedNetwork, rows: Array, observations: Array) -> Array:
    """The values of an ordinary network with parameters [1, P]. [n, A]"""
    return network.plain.apply(network.plain.unravel(rows[0]), observations)


def policy_parameters(network: ConditionedNetwork, parameters: Array, discount: Array) -> Array:
    """The ordinary network that the conditioned one [P'] is for this discount. [1, P]"""
    return network.plain.ravel(network.fold(network.unravel(parameters), discount))[None]


def _policy(network: ConditionedNetwork, old: EnsembleState, parameters: Array, discount: Array) -> EnsembleState:
    return (old[0]._replace(parameters=policy_parameters(network, parameters, discount)),)


def _of_action(batch: Batch[Array], outputs: int) -> Callable[[Array], Array]:
    """The function that takes the values of the batch's actions. [B, A] -> [B]"""
    # A masked sum instead of indexing, whose gradient is a slow scatter.
    taken = batch.action[:, None] == jnp.arange(outputs)[None, :]
    return lambda q: jnp.where(taken, q, 0.0).sum(axis=1)
