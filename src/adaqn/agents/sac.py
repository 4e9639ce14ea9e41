"""AdaSAC (Algorithm 2), RandSAC and SAC: K critics with Polyak targets, one actor, a pair of members as target."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents.actor_critic import (
    Functions,
    OptimizedParameters,
    Program,
    UpdateCounts,
    count_actor_update,
    without_diverged,
)
from adaqn.agents.actor_critic_agent import ActorCriticAgent
from adaqn.agents.base import AgentState
from adaqn.agents.protocol import Clock, PolicyWeights, Report
from adaqn.agents.record import MemberRecord, is_in, tree_where
from adaqn.agents.settings import AUTO, SACSettings
from adaqn.agents.targets import critic_inputs, critic_target, pair_values, polyak
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.selection import Selection
from adaqn.members.selection.draws import initial_selection
from adaqn.networks import squashed_gaussian
from adaqn.networks.ensemble import EnsembleParameters, EnsembleState
from adaqn.networks.losses import l2
from adaqn.replay.protocol import Batch

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

    def rows(self, part: slice) -> Draws:
        """The numbers for a part of the batch."""
        return self._replace(next_noise=self.next_noise[part], noise=self.noise[part])


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


class ActorGradient(NamedTuple):
    """What an update of the actor needs to know of a batch, or of a part of it."""

    gradient: Array  # [P] of the mean loss
    entropy: Array  # [] mean
    unsound: Array  # [2] members of the pair with values that overflow


def next_value(program: SACProgram, state: SACState, next_observation: Array, draws: Draws) -> tuple[Array, Array]:
    """The soft value of the next states [B] (line 6), and which members have unusable values. [K]"""
    actor = program.actor
    outputs = actor.apply(actor.unravel(state.actor.parameters), next_observation)
    following = squashed_gaussian.sample(outputs, jnp.asarray(draws.next_noise))
    inputs = critic_inputs(next_observation, following.action)
    value, unusable = critic_target(program.ensemble, state.target, state.selected, inputs, program.rule.mixture)
    return value - entropy_coefficient(state) * following.log_probability, unusable


def follow(program: SACProgram, target: EnsembleParameters, online: EnsembleParameters) -> EnsembleParameters:
    """The Polyak averages of the critics after an update of them (line 11)."""
    return polyak(target, online, program.settings.tau)


def actor_gradient(
    program: SACProgram, state: SACState, observation: Array, draws: Draws, pair: Array
) -> ActorGradient:
    """The gradient of the actor's loss against these members (line 14)."""
    ensemble, actor, _ = program
    critics = without_diverged(ensemble, ensemble.parameters(state.ensemble), state.record.diverged)
    noise = jnp.asarray(draws.noise)
    coefficient = entropy_coefficient(state)

    def loss(arrays: list[Array]) -> tuple[Array, tuple[Array, Array]]:
        sample = squashed_gaussian.sample(actor.apply(arrays, observation), noise)
        values = pair_values(ensemble, critics, pair, critic_inputs(observation, sample.action))
        surplus = coefficient * sample.log_probability - values.min(axis=0)
        return surplus.mean(), (values, sample.log_probability)

    gradients, (values, log_probability) = jax.grad(loss, has_aux=True)(actor.unravel(state.actor.parameters))
    unsound = ~jnp.isfinite(l2(values)).all(axis=1)
    return ActorGradient(actor.ravel(gradients), -log_probability.mean(), unsound)


def step_actor(
    program: SACProgram, state: SACState, critics: EnsembleParameters, pair: Array, found: ActorGradient
) -> SACState:
    """One gradient step of the actor, and of α (line 14)."""
    del critics
    actor, settings = program.actor, program.settings
    actions = actor.outputs // 2  # the others are standard deviations
    moved = state._replace(
        actor=program.optimizer(actor).step(state.actor, found.gradient),
        log_alpha=_next_coefficient(program, state, found.entropy - settings.target_entropy_of(actions)),
        entropy=found.entropy,
    )
    # A critic that has just diverged must not ruin the actor. Its values may still be finite, but optimizers square
    # the gradient and never recover from an infinite average.
    diverged = is_in(jnp.where(found.unsound, pair, -1), program.ensemble.size)
    unmoved = state._replace(record=state.record.mark_diverged(diverged))
    sound = ~found.unsound.any() & jnp.isfinite(l2(found.gradient)).all() & jnp.isfinite(moved.actor.parameters).all()
    return count_actor_update(tree_where(sound, moved, unmoved), pair, sound)


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


FUNCTIONS = Functions(start, next_value, follow, actor_gradient, step_actor, act, mode)


State = AgentState[SACState]


class SACAgent(ActorCriticAgent[SACState]):
    """AdaSAC (Algorithm 2) as an agent of the training loop."""

    functions = FUNCTIONS
    outputs_per_action = 2
    actor_copies = 3  # parameters and two moments

    def draws(self, members: int, batch: Batch[np.ndarray], rng: np.random.Generator) -> Draws:
        """Draw the random numbers of one update."""
        next_noise, noise = rng.standard_normal((2, len(batch.action), self._actions), np.float32)
        uniforms = rng.random(2 * members + 1, np.float32)
        return Draws(next_noise, noise, uniforms[:members], uniforms[members:])

    def policy_weights(self, state: State) -> PolicyWeights:
        """The actor, whose parameters are always finite."""
        parameters = np.array(state.learning.actor.parameters)
        return PolicyWeights("tanh-gaussian", self._actor, parameters, self.settings.actor)

    def report(self, state: State, clock: Clock) -> Report:
        """Summarize the members, with scalars for the logs."""
        report = super().report(state, clock)
        log_alpha, entropy = jax.device_get((state.learning.log_alpha.parameters, state.learning.entropy))
        own = {"train/ent_coef": math.exp(float(log_alpha)), "train/entropy": float(entropy)}
        return report._replace(metrics=report.metrics | own)
