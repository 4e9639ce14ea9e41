"""AdaTD3, RandTD3 and TD3: delayed deterministic actor, target policy smoothing, and critics as in Algorithm 2.

TD3 (Fujimoto et al., 2018) with K critics instead of two. The two with the smallest cumulated losses make up the
target, as in AdaSAC. TD3 trains its actor against its first critic only; AdaTD3 against the first of a behaviour
pair, which is the target pair, or a random one with probability ε_b. All target networks, the actor's included, are
updated together with the actor.
"""

from __future__ import annotations

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
)
from adaqn.agents.actor_critic_agent import ActorCriticAgent
from adaqn.agents.base import AgentState
from adaqn.agents.protocol import Operation, PolicyWeights
from adaqn.agents.record import MemberRecord, is_in, tree_where
from adaqn.agents.settings import TD3Settings
from adaqn.agents.targets import critic_inputs, critic_target, polyak
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.selection import Selection
from adaqn.members.selection.draws import initial_selection
from adaqn.networks.ensemble import EnsembleParameters, EnsembleState
from adaqn.networks.losses import l2
from adaqn.networks.network import Network
from adaqn.replay.protocol import Batch

TD3Program = Program[TD3Settings]


class TD3State(NamedTuple):
    """Everything that learning changes. K members, of which two make up the target."""

    ensemble: EnsembleState  # online parameters and optimizer states of the critics
    target: EnsembleParameters  # their Polyak averages
    actor: OptimizedParameters  # [P]
    target_actor: Array  # [P] Polyak average of the actor
    selected: Selection  # ψ1, ψ2
    record: MemberRecord
    counts: UpdateCounts
    discount: Array  # [K] γ_k
    gamma: Array  # [] γ̄


class Draws(NamedTuple):
    """The random numbers of one update."""

    smoothing: Array | np.ndarray  # [B, A] standard normal, for the target actions
    selection: Array | np.ndarray  # [K] uniform
    behaviour: Array | np.ndarray  # [1 + K] uniform

    def rows(self, part: slice) -> Draws:
        """The numbers for a part of the batch."""
        return self._replace(smoothing=self.smoothing[part])


def start(program: TD3Program, members: tuple[Hyperparameters, ...], discounts: np.ndarray, seed: int) -> TD3State:
    """Initialize all networks, with targets equal to them and the first two members as target pair."""
    ensemble = program.ensemble
    rng = np.random.default_rng(seed)
    critics = ensemble.init(members, rng)
    actor = jnp.asarray(program.actor.init(rng))
    return TD3State(
        ensemble=critics,
        target=jax.tree.map(jnp.copy, ensemble.parameters(critics)),
        actor=program.optimizer(program.actor).init(actor),
        target_actor=jnp.copy(actor),
        selected=initial_selection(program.rule.target_size(2, ensemble.size)),
        record=MemberRecord.empty(ensemble.size),
        counts=UpdateCounts.none(),
        discount=jnp.asarray(discounts),
        gamma=jnp.asarray(program.settings.gamma, jnp.float32),
    )


def policy_action(actor: Network, parameters: Array, observation: Array) -> Array:
    """π(s), in (-1, 1). [n, A]"""
    return jnp.tanh(actor.apply(actor.unravel(parameters), observation))


def mode(program: TD3Program, state: TD3State, observation: Array) -> Array:
    """The actor's actions. [n, A]"""
    return policy_action(program.actor, state.actor.parameters, observation)


def act(program: TD3Program, state: TD3State, observation: Array, noise: Array) -> Array:
    """The actor's actions with exploration noise, in [-1, 1]. [n, A]"""
    return jnp.clip(mode(program, state, observation) + program.settings.action_noise * noise, -1.0, 1.0)


def target_action(program: TD3Program, state: TD3State, next_observation: Array, noise: Array) -> Array:
    """The target actor's actions with clipped noise (target policy smoothing). [B, A]"""
    limit = program.settings.target_noise_clip
    smoothing = jnp.clip(program.settings.target_policy_noise * noise, -limit, limit)
    return jnp.clip(policy_action(program.actor, state.target_actor, next_observation) + smoothing, -1.0, 1.0)


class ActorGradient(NamedTuple):
    """What an update of the actor needs to know of a batch, or of a part of it."""

    gradient: Array  # [P] of the mean loss
    unsound: Array  # [] the critic has values that overflow


def next_value(program: TD3Program, state: TD3State, next_observation: Array, draws: Draws) -> tuple[Array, Array]:
    """The value of the next states [B] with the target actor's smoothed actions, and the unusable members. [K]"""
    action = target_action(program, state, next_observation, jnp.asarray(draws.smoothing))
    inputs = critic_inputs(next_observation, action)
    return critic_target(program.ensemble, state.target, state.selected, inputs, program.rule.mixture)


def follow(program: TD3Program, target: EnsembleParameters, online: EnsembleParameters) -> EnsembleParameters:
    """The targets as they are: they follow when the actor is updated."""
    del program, online
    return target


def actor_gradient(
    program: TD3Program, state: TD3State, observation: Array, draws: Draws, pair: Array
) -> ActorGradient:
    """The gradient of the actor's loss against the first of the pair."""
    del draws
    ensemble, actor, _ = program
    critics = ensemble.parameters(state.ensemble)

    def loss(arrays: list[Array]) -> tuple[Array, Array]:
        action = jnp.tanh(actor.apply(arrays, observation))
        values = ensemble.value(critics, pair[0], critic_inputs(observation, action))[:, 0]
        return -values.mean(), values

    gradients, values = jax.grad(loss, has_aux=True)(actor.unravel(state.actor.parameters))
    return ActorGradient(actor.ravel(gradients), ~jnp.isfinite(l2(values)).all())


def step_actor(
    program: TD3Program, state: TD3State, critics: EnsembleParameters, pair: Array, found: ActorGradient
) -> TD3State:
    """One gradient step of the actor; then all targets are updated."""
    ensemble, actor, settings = program
    stepped = program.optimizer(actor).step(state.actor, found.gradient)
    moved = state._replace(
        actor=stepped,
        target_actor=polyak(state.target_actor, stepped.parameters, settings.tau),
        target=polyak(state.target, critics, settings.tau),
    )
    # A critic that has just diverged must not ruin the actor. Its values may still be finite, but optimizers square
    # the gradient and never recover from an infinite average.
    critic = pair[:1]
    unmoved = state._replace(
        record=state.record.mark_diverged(is_in(jnp.where(found.unsound, critic, -1), ensemble.size)),
    )
    sound = ~found.unsound & jnp.isfinite(l2(found.gradient)).all() & jnp.isfinite(stepped.parameters).all()
    return count_actor_update(tree_where(sound, moved, unmoved), critic, sound)


FUNCTIONS = Functions(start, next_value, follow, actor_gradient, step_actor, act, mode)


class TD3Agent(ActorCriticAgent[TD3State]):
    """TD3 with an ensemble of critics."""

    functions = FUNCTIONS
    outputs_per_action = 1
    actor_copies = 4  # parameters, their Polyak average and two moments

    def updates(self, number: int) -> list[Operation]:
        """The updates of the n-th training step; `policy_delay` counts each critic update."""
        s = self.settings
        made = (number - 1) * s.gradient_steps
        later = range(made + 1, made + s.gradient_steps + 1)
        return [Operation.UPDATE if n % s.policy_delay else Operation.ACTOR_UPDATE for n in later]

    def draws(self, members: int, batch: Batch[np.ndarray], rng: np.random.Generator) -> Draws:
        """Draw the random numbers of one update."""
        smoothing = rng.standard_normal((len(batch.action), self._actions), np.float32)
        uniforms = rng.random(2 * members + 1, np.float32)
        return Draws(smoothing, uniforms[:members], uniforms[members:])

    def policy_weights(self, state: AgentState[TD3State]) -> PolicyWeights:
        """The actor, whose parameters are always finite."""
        return PolicyWeights("tanh", self._actor, np.array(state.learning.actor.parameters), self.settings.actor)
