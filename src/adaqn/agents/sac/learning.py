"""Algorithm 2 as pure functions: K critics with a Polyak target each, one actor, a pair of members as target."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents.core.actor_critic import OptimizedParameters, UpdateCounts, without_diverged
from adaqn.agents.core.actor_critic_learning import (
    Program,
    behaviour_pair,
    choose_pair,
    count_actor_update,
    critic_step,
)
from adaqn.agents.core.record import MemberRecord, among, either
from adaqn.agents.core.targets import critic_inputs, critic_target, pair_values, polyak
from adaqn.agents.sac.settings import AUTO, SACSettings
from adaqn.ensemble import EnsembleParameters, EnsembleState
from adaqn.hyperparameters import Hyperparameters
from adaqn.networks import squashed_gaussian
from adaqn.networks.losses import l2
from adaqn.replay.protocol import Batch
from adaqn.selection import Selection
from adaqn.selection.draws import initial_selection

SACProgram = Program[SACSettings]  # the actor outputs means and log standard deviations


class SACState(NamedTuple):
    """Everything that learning changes. K members, of which two make up the target."""

    ensemble: EnsembleState  # online parameters and optimizer states of the critics
    target: EnsembleParameters  # their Polyak averages
    actor: OptimizedParameters  # [P]
    log_alpha: OptimizedParameters  # [] logarithm of the entropy coefficient
    selected: Selection  # ψ1, ψ2
    record: MemberRecord
    counts: UpdateCounts
    entropy: Array  # [] estimated entropy of the policy on the last batch
    discount: Array  # [K] γ_k
    gamma: Array  # [] γ̄


class Draws(NamedTuple):
    """The random numbers of one update: standard normal for actions, uniform for the selection rules."""

    next_noise: Array | np.ndarray  # [B, A] for the next actions in the target
    noise: Array | np.ndarray  # [B, A] for the actions in the actor's loss
    selection: Array | np.ndarray  # [K]
    behaviour: Array | np.ndarray  # [1 + K]


def start(program: SACProgram, members: tuple[Hyperparameters, ...], discounts: np.ndarray, seed: int) -> SACState:
    """Initialize all networks, with targets equal to the critics and the first two members as target pair (line 1)."""
    ensemble, settings = program.ensemble, program.settings
    rng = np.random.default_rng(seed)
    critics = ensemble.init(members, rng)
    actor = jnp.asarray(program.actor.init(rng))
    coefficient = 1.0 if settings.ent_coef == AUTO else float(settings.ent_coef)
    log_alpha = jnp.asarray(math.log(coefficient) if coefficient else -math.inf, jnp.float32)
    return SACState(
        ensemble=critics,
        target=jax.tree.map(jnp.copy, ensemble.parameters(critics)),
        actor=program.optimizer(program.actor).init(actor),
        log_alpha=program.optimizer(None).init(log_alpha),
        selected=initial_selection(program.rule.target_size(2, ensemble.size)),
        record=MemberRecord.empty(ensemble.size),
        counts=UpdateCounts.none(),
        entropy=jnp.zeros(()),
        discount=jnp.asarray(discounts),
        gamma=jnp.asarray(settings.gamma, jnp.float32),
    )


def update_critics(program: SACProgram, state: SACState, batch: Batch[Array], draws: Draws) -> SACState:
    """One gradient step of every critic towards the shared target, then the choice of the pair (lines 5 to 12)."""
    ensemble, actor, settings = program
    outputs = actor.apply(actor.unravel(state.actor.parameters), batch.next_observation)
    following = squashed_gaussian.sample(outputs, jnp.asarray(draws.next_noise))
    inputs = critic_inputs(batch.next_observation, following.action)
    value, unusable = critic_target(ensemble, state.target, state.selected, inputs, program.rule.mixture)
    soft_value = value - entropy_coefficient(state) * following.log_probability
    # No member learns from a target that overflows; the next update uses another pair.
    sound = jnp.isfinite(l2(soft_value)).all()

    trained, losses = critic_step(program, state, batch, soft_value, sound)
    record, target = state.record, polyak(state.target, ensemble.parameters(trained), settings.tau)
    learned = state._replace(
        ensemble=trained,
        target=either(sound, target, state.target),
        record=either(sound, record.follow(losses, settings.tau), record.mark_diverged(unusable)),
    )
    return choose_pair(program, learned, draws.selection, sound)


def update_actor(
    program: SACProgram, state: SACState, observation: Array, draws: Draws, epsilon: Array | np.ndarray
) -> SACState:
    """One gradient step of the actor against a behaviour pair drawn with ε_b, and of α (lines 13, 14)."""
    ensemble, actor, settings = program
    record = state.record
    pair = behaviour_pair(program, state, draws.behaviour, epsilon)
    critics = without_diverged(ensemble, ensemble.parameters(state.ensemble), record.diverged)
    noise = jnp.asarray(draws.noise)
    coefficient = entropy_coefficient(state)

    def loss(arrays: list[Array]) -> tuple[Array, tuple[Array, Array]]:
        sample = squashed_gaussian.sample(actor.apply(arrays, observation), noise)
        values = pair_values(ensemble, critics, pair, critic_inputs(observation, sample.action))
        surplus = coefficient * sample.log_probability - values.min(axis=0)
        return surplus.mean(), (values, sample.log_probability)

    gradients, (values, log_probability) = jax.grad(loss, has_aux=True)(actor.unravel(state.actor.parameters))
    gradient = actor.ravel(gradients)
    entropy = -log_probability.mean()
    moved = state._replace(
        actor=program.optimizer(actor).step(state.actor, gradient),
        log_alpha=_next_coefficient(program, state, entropy - settings.target_entropy_of(noise.shape[1])),
        entropy=entropy,
    )
    # A critic that has just diverged must not ruin the actor. Its values may still be finite, but optimizers square
    # the gradient and never recover from an infinite average.
    unsound = ~jnp.isfinite(l2(values)).all(axis=1)  # [2]
    unmoved = state._replace(record=record.mark_diverged(among(jnp.where(unsound, pair, -1), ensemble.size)))
    sound = ~unsound.any() & jnp.isfinite(l2(gradient)).all() & jnp.isfinite(moved.actor.parameters).all()
    return count_actor_update(either(sound, moved, unmoved), pair, sound)


def entropy_coefficient(state: SACState) -> Array:
    """α. []"""
    return jnp.exp(state.log_alpha.parameters)


def act(program: SACProgram, state: SACState, observation: Array, noise: Array) -> Array:
    """Actions sampled from the policy with standard normal noise, in (-1, 1). [n, A]"""
    outputs = program.actor.apply(program.actor.unravel(state.actor.parameters), observation)
    return squashed_gaussian.sample(outputs, noise).action


def mode(program: SACProgram, state: SACState, observation: Array) -> Array:
    """The most likely actions: the tanh of the mean. [n, A]"""
    outputs = program.actor.apply(program.actor.unravel(state.actor.parameters), observation)
    return squashed_gaussian.mode(outputs)


def _next_coefficient(program: SACProgram, state: SACState, surplus: Array) -> OptimizedParameters:
    """log α after a gradient descent step on log α · (entropy - target); unchanged if a fixed α was given."""
    if program.settings.ent_coef != AUTO:
        return state.log_alpha
    return program.optimizer(None).step(state.log_alpha, surplus)
