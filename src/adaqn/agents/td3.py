"""AdaTD3, RandTD3 and TD3: a deterministic actor, delayed and with a smoothed target, and critics as in Algorithm 2.

TD3 (Fujimoto et al., 2018) with K critics instead of two. The two with the smallest cumulated losses make up the
target, as in AdaSAC. TD3 trains its actor against the first of its critics alone; AdaTD3 against the first of a
behaviour pair, which is the target pair, or a random one with probability ε_b. All targets, the actor's included, move
when the actor does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents.core.actor_critic import OptimizedParameters, UpdateCounts
from adaqn.agents.core.actor_critic_agent import ActorCriticAgent
from adaqn.agents.core.actor_critic_learning import (
    Program,
    behaviour_pair,
    choose_pair,
    count_actor_update,
    critic_step,
)
from adaqn.agents.core.actor_critic_programs import Functions
from adaqn.agents.core.actor_settings import ActorSettings, PairSettings
from adaqn.agents.core.ensemble_agent import AgentState
from adaqn.agents.core.record import MemberRecord, among, either
from adaqn.agents.core.settings import setting
from adaqn.agents.core.targets import critic_inputs, critic_target, polyak
from adaqn.agents.protocol import Operation, PolicyWeights
from adaqn.agents.registry import Algorithm, Traits
from adaqn.checks import at_least, between
from adaqn.ensemble import EnsembleParameters, EnsembleState
from adaqn.hyperparameters import Hyperparameters, grid
from adaqn.networks.losses import l2
from adaqn.networks.network import Network
from adaqn.replay.protocol import Batch
from adaqn.selection import Selection
from adaqn.selection.draws import initial_selection


@dataclass(frozen=True, kw_only=True)
class PlainTD3Settings(ActorSettings):
    """What a TD3 with two equal critics needs."""

    gradient_steps: int = setting(1, "updates of the critics made each time (UTD)", at_least(1))
    policy_delay: int = setting(2, "updates of the critics for each one of the actor and of all targets", at_least(1))
    action_noise: float = setting(0.1, "standard deviation of the noise on actions, which are in [-1, 1]", between(0.0))
    target_policy_noise: float = setting(
        0.2, "standard deviation of the noise on the actions of the target", between(0.0)
    )
    target_noise_clip: float = setting(0.5, "limit of the noise on the actions of the target", between(0.0))


@dataclass(frozen=True, kw_only=True)
class TD3Settings(PlainTD3Settings, PairSettings):
    """What all members share, and how pairs of them are chosen."""


TD3Program = Program[TD3Settings]


class TD3State(NamedTuple):
    """All that learning changes. K members, of which two make up the target."""

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
    """What is random in one update."""

    smoothing: Array | np.ndarray  # [B, A] standard normal, for the actions of the target
    selection: Array | np.ndarray  # [K] uniform
    behaviour: Array | np.ndarray  # [1 + K] uniform


def start(program: TD3Program, members: tuple[Hyperparameters, ...], discounts: np.ndarray, seed: int) -> TD3State:
    """Fresh weights, targets equal to them, and the first two members as pair."""
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
    """The actions of the actor. [n, A]"""
    return policy_action(program.actor, state.actor.parameters, observation)


def act(program: TD3Program, state: TD3State, observation: Array, noise: Array) -> Array:
    """The actions of the actor with exploration noise, in [-1, 1]. [n, A]"""
    return jnp.clip(mode(program, state, observation) + program.settings.action_noise * noise, -1.0, 1.0)


def target_action(program: TD3Program, state: TD3State, next_observation: Array, noise: Array) -> Array:
    """The target actor's actions with clipped noise, so that critics become smooth around them. [B, A]"""
    limit = program.settings.target_noise_clip
    smoothing = jnp.clip(program.settings.target_policy_noise * noise, -limit, limit)
    return jnp.clip(policy_action(program.actor, state.target_actor, next_observation) + smoothing, -1.0, 1.0)


def update_critics(program: TD3Program, state: TD3State, batch: Batch[Array], draws: Draws) -> TD3State:
    """One gradient step of every critic on the shared target, then the choice of the pair."""
    action = target_action(program, state, batch.next_observation, jnp.asarray(draws.smoothing))
    inputs = critic_inputs(batch.next_observation, action)
    value, unusable = critic_target(program.ensemble, state.target, state.selected, inputs, program.rule.mixture)
    # Nobody learns from a target that is too large to compute with; with the next update another pair is there.
    sound = jnp.isfinite(l2(value)).all()
    trained, losses = critic_step(program, state, batch, value)
    learned = state._replace(ensemble=trained, record=state.record.follow(losses, program.settings.tau))
    unlearned = state._replace(record=state.record.mark_diverged(unusable))
    return choose_pair(program, either(sound, learned, unlearned), draws.selection, sound)


def update_actor(
    program: TD3Program, state: TD3State, observation: Array, draws: Draws, epsilon: Array | np.ndarray
) -> TD3State:
    """One step of the actor up the value of the first of a behaviour pair; then all targets follow."""
    ensemble, actor, settings = program
    critics = ensemble.parameters(state.ensemble)
    critic = behaviour_pair(program, state, draws.behaviour, epsilon)[:1]

    def loss(arrays: list[Array]) -> tuple[Array, Array]:
        action = jnp.tanh(actor.apply(arrays, observation))
        values = ensemble.value(critics, critic[0], critic_inputs(observation, action))[:, 0]
        return -values.mean(), values

    gradients, values = jax.grad(loss, has_aux=True)(actor.unravel(state.actor.parameters))
    gradient = actor.ravel(gradients)
    stepped = program.optimizer(actor).step(state.actor, gradient)
    moved = state._replace(
        actor=stepped,
        target_actor=polyak(state.target_actor, stepped.parameters, settings.tau),
        target=polyak(state.target, critics, settings.tau),
    )
    # A critic that has just diverged must not take the actor with it. Its values may still be finite, but optimizers
    # square the gradient, and would never recover from an infinite average of that.
    usable = jnp.isfinite(l2(values)).all()
    unmoved = state._replace(
        record=state.record.mark_diverged(among(jnp.where(usable, -1, critic), ensemble.size)),
    )
    sound = usable & jnp.isfinite(l2(gradient)).all() & jnp.isfinite(stepped.parameters).all()
    return count_actor_update(either(sound, moved, unmoved), critic, sound)


class TD3Agent(ActorCriticAgent[TD3State]):
    """TD3 with an ensemble of critics, as the loop sees it."""

    functions = Functions(start, update_critics, update_actor, act, mode)
    outputs_per_action = 1
    actor_copies = 4  # parameters, their Polyak average and two moments

    def updates(self, number: int) -> list[Operation]:
        """As many updates of the critics as are due for the n-th time; the delay of the actor counts each of them."""
        s = self.settings
        made = (number - 1) * s.gradient_steps
        later = range(made + 1, made + s.gradient_steps + 1)
        return [Operation.UPDATE if n % s.policy_delay else Operation.ACTOR_UPDATE for n in later]

    def draws(self, members: int, batch: Batch[np.ndarray], rng: np.random.Generator) -> Draws:
        """What is random in one update."""
        smoothing = rng.standard_normal((len(batch.action), self._actions), np.float32)
        uniforms = rng.random(2 * members + 1, np.float32)
        return Draws(smoothing, uniforms[:members], uniforms[members:])

    def policy_weights(self, state: AgentState[TD3State]) -> PolicyWeights:
        """The actor, which never takes a step that is not finite."""
        return PolicyWeights("tanh", self._actor, np.array(state.learning.actor.parameters), self.settings.actor)


DEFAULT_MEMBERS = grid(hidden=[(64, 64), (256, 256)], learning_rate=[3e-4, 1e-3])
DEFAULT_CRITIC = Hyperparameters(hidden=(256, 256), learning_rate=1e-3)
TRAITS = Traits(sums_up_selections=True)

ALGORITHMS = {
    "adatd3": Algorithm(TD3Settings, TD3Agent, lambda _: DEFAULT_MEMBERS, least=2, space="optional", traits=TRAITS),
    "randtd3": Algorithm(
        TD3Settings,
        TD3Agent,
        lambda _: DEFAULT_MEMBERS,
        {"selection": "random"},
        least=2,
        space="optional",
        traits=TRAITS,
    ),
    "td3": Algorithm(
        TD3Settings,
        TD3Agent,
        lambda _: (DEFAULT_CRITIC,),
        {"behaviour": "first"},
        copies=2,
        traits=TRAITS,
        base_settings=PlainTD3Settings,
    ),
}
