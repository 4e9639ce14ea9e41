"""Algorithm 1 as pure transitions.

What needs the networks is apart from what only counts and chooses, so that all of it can be compiled as one program,
or as one for each member and a small one for the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from adaqn.agents.bellman import bellman_target
from adaqn.ensemble import Ensemble, EnsembleParameters, EnsembleState
from adaqn.networks.losses import l2
from adaqn.replay.protocol import Batch
from adaqn.selection import Selection, behaviour_rule, target_rule


class DQNState(NamedTuple):
    """All that learning changes. K members, S of them make up the target.

    Functions that only count and choose leave `ensemble` and `target` alone, which may then be empty.
    """

    ensemble: EnsembleState  # online parameters and optimizer states
    target: EnsembleParameters  # snapshot of the online parameters at the last target update
    selected: Selection  # the target member ψ, an index into the snapshot
    cumulated_loss: Array  # [K] L2 error since the last target update
    compared_loss: Array  # [K] cumulated loss at the last target update
    last_loss: Array  # [K] L2 error on the last batch
    diverged: Array  # [K] found to have values that are not finite; for good
    reported: Array  # [K] diverged, and told
    acted: Array  # [K] actions chosen since the last target update
    selections: Array  # [K] target updates in which the member was chosen
    target_updates: Array  # [] how many there were
    discount: Array  # [K] γ_k
    gamma: Array  # [] γ̄


def target_value(
    ensemble: Ensemble, target: EnsembleParameters, selected: Selection, next_observation: Array
) -> tuple[Array, Array]:
    """max_a' Q(s', a') of the target members, mixed by their weights [B], and whether it can be learned from [].

    Parameters can be finite and yet too large to compute with, which shows only here. The error of all others to
    such a target would overflow too.
    """
    values = [
        weight * ensemble.value(target, member, next_observation)
        for member, weight in zip(selected.members, selected.weights, strict=True)
    ]
    q_next = jnp.stack(values).sum(axis=0)
    return q_next.max(axis=-1), jnp.isfinite(l2(q_next)).all()


def learn(
    ensemble: Ensemble, members: EnsembleState, batch: Batch[Array], next_value: Array, discount: Array, gamma: Array
) -> tuple[EnsembleState, Array]:
    """One gradient step of every member towards the value [B] of what comes next; its L2 errors before it. [K]

    Members may learn with losses and discounts [K] of their own; they are compared by the L2 error with γ̄.
    """
    # A masked sum instead of an index: its gradient is a product, where that of an index is a scatter, which takes
    # longer than all else that is done with the few values.
    taken = batch.action[:, None] == jnp.arange(ensemble.outputs)[None, :]

    def of_action(q: Array) -> Array:
        return jnp.where(taken, q, 0.0).sum(axis=1)

    targets = jax.vmap(lambda own: bellman_target(next_value, batch, own))(discount)
    trained, predictions = ensemble.update(members, batch.observation, targets, of_action)
    return trained, l2(predictions - bellman_target(next_value, batch, gamma)[None, :]).mean(axis=1)


def count_losses(state: DQNState, losses: Array) -> DQNState:
    """L_k <- L_k + loss (line 10 of Algorithm 1)."""
    return state._replace(
        cumulated_loss=state.cumulated_loss + losses,
        last_loss=losses,
        diverged=state.diverged | ~jnp.isfinite(losses),
    )


def give_up_target(state: DQNState) -> DQNState:
    """The target cannot be learned from: nobody does until the next target update, when another is chosen."""
    return state._replace(diverged=state.diverged.at[state.selected.members].set(True))


def update(ensemble: Ensemble, state: DQNState, batch: Batch[Array]) -> DQNState:
    """One gradient step of every member on the shared target (lines 7 to 11 of Algorithm 1)."""
    next_value, sound = target_value(ensemble, state.target, state.selected, batch.next_observation)
    trained, losses = learn(ensemble, state.ensemble, batch, next_value, state.discount, state.gamma)
    learned = count_losses(state, losses)._replace(ensemble=trained)
    return jax.tree.map(lambda new, old: jnp.where(sound, new, old), learned, give_up_target(state))


def behaviour_members(behaviour: str, state: DQNState, uniforms: Array, epsilon: Array) -> Array:
    """Who acts in each of n environments, drawn with ε_b and uniform numbers [n, 1 + K]. [n]"""
    rule = behaviour_rule(behaviour)
    return jax.vmap(lambda u: rule(u, epsilon, state.cumulated_loss, ~state.diverged, state.selected)[0])(uniforms)


def choose_actions(state: DQNState, member: Array, q: Array, uniforms: Array, epsilon: Array) -> tuple[DQNState, Array]:
    """ε-greedy actions for the values [n, A] of the members [n] that act; uniform numbers are [n, 2]. [n]

    All actions are -1 if a member that acts turned out to have diverged: it is marked, and the caller draws again.
    """
    everyone = jnp.arange(state.diverged.shape[0])[None, :]
    unsound = ~jnp.isfinite(q).all(axis=-1)
    diverged = state.diverged | ((member[:, None] == everyone) & unsound[:, None]).any(axis=0)
    anything = (uniforms[:, 1] * q.shape[-1]).astype(jnp.int32)
    action = jnp.where(uniforms[:, 0] < epsilon, anything, q.argmax(axis=-1).astype(jnp.int32))
    sound = ~diverged[member].any()
    chosen = (member[:, None] == everyone) & sound
    acted = state.acted + chosen.sum(axis=0, dtype=jnp.int32)
    return state._replace(diverged=diverged, acted=acted), jnp.where(sound, action, -1)


def act(
    ensemble: Ensemble, behaviour: str, state: DQNState, observations: Array, uniforms: Array, epsilons: Array
) -> tuple[DQNState, Array]:
    """ε-greedy actions of the behaviour members (lines 3 and 4 of Algorithm 1); epsilons are (ε, ε_b). [n]

    `uniforms` [n, 3 + K] decide: whether to explore, with which action, and the behaviour member.
    """
    n = observations.shape[0]
    parameters = ensemble.parameters(state.ensemble)
    # One environment needs the values of one member only; of several, each may be given another member.
    if n > 1:
        q_of_all = ensemble.values(parameters, observations)
        state = state._replace(diverged=state.diverged | ~jnp.isfinite(q_of_all).all(axis=(1, 2)))
        member = behaviour_members(behaviour, state, uniforms[:, 2:], epsilons[1])
        q = q_of_all[member, jnp.arange(n)]
    else:
        member = behaviour_members(behaviour, state, uniforms[:, 2:], epsilons[1])
        q = ensemble.value(parameters, member[0], observations)
    return choose_actions(state, member, q, uniforms[:, :2], epsilons[0])


def select_target(
    selection: str, state: DQNState, finite: Array, candidates: Array, uniforms: Array
) -> tuple[DQNState, Array, Array, Array]:
    """ψ <- argmin L_k among the candidates, or another rule's choice, and L_k <- 0 (line 13 of Algorithm 1).

    `finite`, `candidates` and `uniforms` are [K]. Also gives the losses, how often each acted, and who was found
    diverged since the last time.
    """
    diverged = state.diverged | ~finite
    losses = jnp.where(diverged, jnp.inf, state.cumulated_loss)
    size = state.selected.members.shape[0]
    selected = target_rule(selection)(uniforms, losses, ~diverged & candidates, size)
    chosen = state._replace(
        selected=selected,
        cumulated_loss=jnp.zeros_like(losses),
        compared_loss=losses,
        diverged=diverged,
        reported=diverged,
        acted=jnp.zeros_like(state.acted),
        selections=state.selections.at[selected.members].add(1),
        target_updates=state.target_updates + 1,
    )
    return chosen, losses, state.acted, diverged & ~state.reported


def update_target(
    ensemble: Ensemble, selection: str, state: DQNState, uniforms: Array
) -> tuple[DQNState, Array, Array, Array]:
    """Choose the target member among all, and target <- θ^ψ (lines 13 and 14)."""
    parameters = ensemble.parameters(state.ensemble)
    everyone = jnp.ones(ensemble.size, bool)
    finite = ensemble.finite(parameters)
    chosen, losses, acted, newly_diverged = select_target(selection, state, finite, everyone, uniforms)
    return chosen._replace(target=jax.tree.map(jnp.copy, parameters)), losses, acted, newly_diverged


def greedy(ensemble: Ensemble, state: DQNState, observations: Array) -> Array:
    """The greedy actions of the target member's online network, or of its snapshot if it diverged since. [n]"""
    member = state.selected.members[0]
    online = ensemble.value(ensemble.parameters(state.ensemble), member, observations)
    sound = jnp.isfinite(online).all()
    q = jax.lax.cond(sound, lambda: online, lambda: ensemble.value(state.target, member, observations))
    return q.argmax(axis=-1)
