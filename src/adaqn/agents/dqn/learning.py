"""Algorithm 1 as pure functions, each with its lines of the pseudocode.

Functions that evaluate networks are separate from those that only count and choose, so that everything can be compiled
as one program, or as one per member and a small one for the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from adaqn.agents.core.q_learning import ValueState, learn, next_value
from adaqn.agents.core.record import MemberRecord, among, either
from adaqn.agents.core.targets import weighted_mean
from adaqn.members.selection import Selection, behaviour_rule, target_rule
from adaqn.networks.ensemble import Ensemble, EnsembleParameters
from adaqn.networks.losses import l2
from adaqn.replay.protocol import Batch


class DQNRules(NamedTuple):
    """The static arguments of the compiled functions besides the networks. Hashable."""

    selection: str
    behaviour: str
    temperature: float = 1.0
    double: bool = False

    @property
    def mixture(self) -> bool:
        """Whether the target is a weighted mean of all members."""
        return target_rule(self.selection).mixture


def target_value(
    ensemble: Ensemble, rules: DQNRules, state: ValueState, next_observation: Array
) -> tuple[Array, Array]:
    """max_a' Q(s', a') of the target member, or the weighted mean of all [B]; and which have unusable values. [K]

    Parameters can be finite but so large that values overflow, which can only be detected here. The loss of every
    member would overflow with such a target.
    """

    def q_values(parameters: EnsembleParameters) -> Array:
        if rules.mixture:
            return ensemble.values(parameters, next_observation)
        return ensemble.value(parameters, state.selected.members[0], next_observation)[None]

    q = q_values(state.target)
    value = next_value(q, q_values(ensemble.parameters(state.ensemble)) if rules.double else None)
    return mix(value, jnp.isfinite(l2(q)).all(axis=(1, 2)), state.selected, ensemble.size)


def mix(values: Array, usable: Array, selected: Selection, size: int) -> tuple[Array, Array]:
    """Combine the values [S, B] of the target members; usable: [S]. Returns the same as `target_value`.

    For a mixture, `values` has a row for each of the K members in order; otherwise one for the target member.
    """
    if values.shape[0] == 1:
        return values[0], among(jnp.where(usable, -1, selected.members[:1]), size)
    weighs = jnp.zeros(size, bool).at[selected.members].set(selected.weights > 0.0)
    return weighted_mean(values, selected), ~usable & weighs


def update(ensemble: Ensemble, rules: DQNRules, state: ValueState, batch: Batch[Array]) -> ValueState:
    """One gradient step of every member towards the shared target (lines 7 to 12).

    If the target is unusable, no member learns until the next target update chooses another.
    """
    value, unusable = target_value(ensemble, rules, state, batch.next_observation)
    sound = ~unusable.any()
    trained, losses = learn(ensemble, state.ensemble, batch, value, state.discount, state.gamma, sound)
    record = either(sound, state.record.add(losses), state.record.mark_diverged(unusable))
    return state._replace(ensemble=trained, record=record)


def behaviour_members(
    rules: DQNRules, losses: Array, alive: Array, selected: Selection, uniforms: Array, epsilon: Array
) -> Array:
    """The member that acts in each of n environments, drawn with ε_b and uniform numbers [n, 1 + K] (line 3). [n]"""
    rule, target = behaviour_rule(rules.behaviour), selected.leading(1)
    return jax.vmap(lambda u: rule(u, epsilon, losses, alive, target)[0])(uniforms)


def choose_actions(
    record: MemberRecord, member: Array, q: Array, uniforms: Array, epsilon: Array
) -> tuple[MemberRecord, Array]:
    """ε-greedy actions from the behaviour members' [n] values q [n, A], with uniform numbers [n, 2] (line 4). [n]

    All actions are -1 if one of these members has diverged: it is marked as such, and the caller draws again.
    """
    everyone = jnp.arange(record.diverged.shape[0])[None, :]
    unsound = ~jnp.isfinite(q).all(axis=-1)
    diverged = record.diverged | ((member[:, None] == everyone) & unsound[:, None]).any(axis=0)
    anything = (uniforms[:, 1] * q.shape[-1]).astype(jnp.int32)
    action = jnp.where(uniforms[:, 0] < epsilon, anything, q.argmax(axis=-1).astype(jnp.int32))
    sound = ~diverged[member].any()
    chosen = (member[:, None] == everyone) & sound
    acted = record.acted + chosen.sum(axis=0, dtype=jnp.int32)
    return record._replace(diverged=diverged, acted=acted), jnp.where(sound, action, -1)


def act(
    ensemble: Ensemble, rules: DQNRules, state: ValueState, observations: Array, uniforms: Array, epsilons: Array
) -> tuple[ValueState, Array]:
    """ε-greedy actions of the behaviour members (lines 3 and 4); epsilons are (ε, ε_b). [n]

    `uniforms` [n, 3 + K] decide: whether to explore, with which action, and the behaviour member.
    """
    n, record = observations.shape[0], state.record
    parameters = ensemble.parameters(state.ensemble)
    # One environment needs the values of one member only; several may each have a different member.
    if n > 1:
        q_of_all = ensemble.values(parameters, observations)
        record = record.mark_diverged(~jnp.isfinite(q_of_all).all(axis=(1, 2)))
        member = behaviour_members(rules, record.loss, record.alive, state.selected, uniforms[:, 2:], epsilons[1])
        q = q_of_all[member, jnp.arange(n)]
    else:
        member = behaviour_members(rules, record.loss, record.alive, state.selected, uniforms[:, 2:], epsilons[1])
        q = ensemble.value(parameters, member[0], observations)
    record, actions = choose_actions(record, member, q, uniforms[:, :2], epsilons[0])
    return state._replace(record=record), actions


class TargetChoice(NamedTuple):
    """Statistics of the K members, reported at a target update. [K] each"""

    losses: Array
    acted: Array
    newly_diverged: Array


def select_target(
    rules: DQNRules, record: MemberRecord, finite: Array, candidates: Array, uniforms: Array
) -> tuple[MemberRecord, Selection, TargetChoice]:
    """ψ <- argmin L_k among the candidates, or another rule's choice, and L_k <- 0 (line 14). [K] each"""
    before = record.mark_diverged(~finite)
    rule = target_rule(rules.selection, rules.temperature)
    chosen, selected = before.select(rule, uniforms, candidates, 1)
    facts = TargetChoice(chosen.compared_loss, record.acted, before.diverged & ~record.reported)
    return chosen.renewed()._replace(loss=jnp.zeros_like(record.loss)), selected, facts


def update_target(
    ensemble: Ensemble, rules: DQNRules, state: ValueState, uniforms: Array, candidates: Array
) -> tuple[ValueState, TargetChoice]:
    """Choose the target member among the candidates [K], and target <- θ^ψ (lines 14 and 15)."""
    parameters = ensemble.parameters(state.ensemble)
    finite = ensemble.finite(parameters)
    record, selected, facts = select_target(rules, state.record, finite, candidates, uniforms)
    snapshot = jax.tree.map(jnp.copy, parameters)
    return state._replace(target=snapshot, selected=selected, record=record), facts


def greedy(ensemble: Ensemble, state: ValueState, observations: Array) -> Array:
    """The greedy actions of the target member's online network, or of its snapshot if it has diverged since. [n]"""
    member = state.selected.members[0]
    online = ensemble.value(ensemble.parameters(state.ensemble), member, observations)
    sound = jnp.isfinite(online).all()
    q = jax.lax.cond(sound, lambda: online, lambda: ensemble.value(state.target, member, observations))
    return q.argmax(axis=-1)
