"""Algorithm 2 as pure transitions: K critics with a Polyak target each, one actor, a pair of members as target."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from adaqn.agents.bellman import bellman_target
from adaqn.agents.sac_settings import AUTO, SACSettings
from adaqn.ensemble import Ensemble, EnsembleParameters, EnsembleState
from adaqn.hyperparameters import Hyperparameters
from adaqn.networks import squashed_gaussian
from adaqn.networks.losses import l2
from adaqn.networks.network import Network
from adaqn.networks.optimizers import build_optimizer, optimizer_spec
from adaqn.replay.protocol import Batch
from adaqn.selection import Selection, behaviour_rule, target_rule


class Learned(NamedTuple):
    """Parameters that one optimizer moves."""

    parameters: Array
    optimizer: Any


class SACState(NamedTuple):
    """All that learning changes. K members, of which two make up the target."""

    ensemble: EnsembleState  # online parameters and optimizer states of the critics
    target: EnsembleParameters  # their Polyak averages
    actor: Learned  # [P]
    log_alpha: Learned  # [] logarithm of the entropy coefficient
    selected: Selection  # ψ1, ψ2
    cumulated_loss: Array  # [K] exponential average of the L2 error, with rate τ
    last_loss: Array  # [K] L2 error on the last batch
    diverged: Array  # [K] found to have values that are not finite; for good
    reported: Array  # [K] diverged, and told
    updates: Array  # [] updates of the critics so far
    selections: Array  # [K] those after which the member was in the target pair
    selected_since: Array  # [K] the same since the last report
    acted_since: Array  # [K] actor updates since the last report with the member in the behaviour pair
    updates_since: Array  # [2] updates of the critics and of the actor since the last report
    learned_since: Array  # [2] those that changed anything
    entropy: Array  # [] of the policy on the last batch, estimated
    discount: Array  # [K] γ_k
    gamma: Array  # [] γ̄

    @property
    def target_updates(self) -> Array:
        """A pair is chosen in every update. []"""
        return self.updates

    @property
    def compared_loss(self) -> Array:
        """The losses by which the pair was chosen. [K]"""
        return self.cumulated_loss


class Draws(NamedTuple):
    """What is random in one update: standard normal numbers for actions, uniform ones for the rules."""

    next_noise: Array | np.ndarray  # [B, A] for the actions of the target
    noise: Array | np.ndarray  # [B, A] for the actor's own
    selection: Array | np.ndarray  # [K]
    behaviour: Array | np.ndarray  # [1 + K]


class SACProgram(NamedTuple):
    """What the compiled functions depend on. Hashable."""

    ensemble: Ensemble  # of critics: observation and action in, one value out
    actor: Network  # observation in, means and log standard deviations out
    settings: SACSettings


def start(program: SACProgram, members: tuple[Hyperparameters, ...], discounts: np.ndarray, seed: int) -> SACState:
    """Fresh weights, targets equal to them, and the first two members as pair (line 1)."""
    ensemble, settings = program.ensemble, program.settings
    rng = np.random.default_rng(seed)
    critics = ensemble.init(members, rng)
    size = ensemble.size
    coefficient = 1.0 if settings.ent_coef == AUTO else float(settings.ent_coef)
    return SACState(
        ensemble=critics,
        target=jax.tree.map(jnp.copy, ensemble.parameters(critics)),
        actor=_learned(program, jnp.asarray(program.actor.init(rng)), program.actor),
        log_alpha=_learned(
            program, jnp.asarray(math.log(coefficient) if coefficient else -math.inf, jnp.float32), None
        ),
        selected=Selection(jnp.arange(2, dtype=jnp.int32), jnp.full(2, 0.5, jnp.float32)),
        cumulated_loss=jnp.zeros(size),
        last_loss=jnp.zeros(size),
        diverged=jnp.zeros(size, bool),
        reported=jnp.zeros(size, bool),
        updates=jnp.zeros((), jnp.int32),
        selections=jnp.zeros(size, jnp.int32),
        selected_since=jnp.zeros(size, jnp.int32),
        acted_since=jnp.zeros(size, jnp.int32),
        updates_since=jnp.zeros(2, jnp.int32),
        learned_since=jnp.zeros(2, jnp.int32),
        entropy=jnp.zeros(()),
        discount=jnp.asarray(discounts),
        gamma=jnp.asarray(settings.gamma, jnp.float32),
    )


def critic_inputs(observation: Array, action: Array) -> Array:
    """What a critic sees: the observation, flattened, and the action behind it. [B, d + A]"""
    flat = observation.reshape(observation.shape[0], -1)
    return jnp.concatenate([flat, action], axis=-1)


def pair_values(ensemble: Ensemble, parameters: EnsembleParameters, pair: Array, inputs: Array) -> Array:
    """The values of two members. [2, B]"""
    if ensemble.size == 2:
        # Both are needed, whoever is first: no index, and equal members are computed as one.
        return ensemble.values(parameters, inputs)[:, :, 0][pair]
    return jnp.stack([ensemble.value(parameters, pair[i], inputs)[:, 0] for i in range(2)])


def update_critics(program: SACProgram, state: SACState, batch: Batch[Array], draws: Draws) -> SACState:
    """One gradient step of every critic on the shared target, then the choice of the pair (lines 5 to 13)."""
    ensemble, actor, settings = program
    pair = state.selected.members
    outputs = actor.apply(actor.unravel(state.actor.parameters), batch.next_observation)
    following = squashed_gaussian.sample(outputs, jnp.asarray(draws.next_noise))
    values = pair_values(ensemble, state.target, pair, critic_inputs(batch.next_observation, following.action))
    soft_value = values.min(axis=0) - entropy_coefficient(state) * following.log_probability
    # Parameters can be finite and yet too large to compute with, which shows only here. Nobody learns from such a
    # target; with the next update another pair is there.
    unsound = ~jnp.isfinite(l2(values)).all(axis=1)  # [2]
    sound = jnp.isfinite(l2(soft_value)).all()

    def target_with(discount: Array) -> Array:
        return bellman_target(soft_value, batch, discount)

    trained, predictions = ensemble.update(
        state.ensemble,
        critic_inputs(batch.observation, batch.action),
        jax.vmap(target_with)(state.discount),
        lambda q: q[:, 0],
    )
    # Members may learn with losses and discounts of their own; they are compared by the L2 error with γ̄.
    losses = l2(predictions - target_with(state.gamma)[None, :]).mean(axis=1)
    tau = settings.tau
    online = ensemble.parameters(trained)
    learned = state._replace(
        ensemble=trained,
        target=jax.tree.map(lambda old, new: tau * new + (1.0 - tau) * old, state.target, online),
        cumulated_loss=(1.0 - tau) * state.cumulated_loss + tau * losses,
        last_loss=losses,
        diverged=state.diverged | ~jnp.isfinite(losses),
    )
    unlearned = state._replace(diverged=state.diverged | _in_pair(ensemble, jnp.where(unsound, pair, -1)))
    state = jax.tree.map(lambda new, old: jnp.where(sound, new, old), learned, unlearned)
    losses = jnp.where(state.diverged, jnp.inf, state.cumulated_loss)
    chosen = target_rule(settings.selection)(jnp.asarray(draws.selection), losses, ~state.diverged, 2)
    selected = chosen._replace(members=_living_pair(chosen.members, state.diverged))
    now = _in_pair(ensemble, selected.members)
    return state._replace(
        selected=selected,
        updates=state.updates + 1,
        selections=state.selections + now,
        selected_since=state.selected_since + now,
        updates_since=state.updates_since + jnp.asarray([1, 0], jnp.int32),
        learned_since=state.learned_since + jnp.stack([sound, False]).astype(jnp.int32),
    )


def update_actor(
    program: SACProgram, state: SACState, observation: Array, draws: Draws, epsilon: Array | np.ndarray
) -> SACState:
    """One step of the actor against a behaviour pair drawn with ε_b, and of the entropy coefficient (lines 15, 16)."""
    ensemble, actor, settings = program
    draw = behaviour_rule(settings.behaviour or "epsilon")
    drawn = draw(
        jnp.asarray(draws.behaviour), jnp.asarray(epsilon), state.cumulated_loss, ~state.diverged, state.selected
    )
    pair = _living_pair(drawn, state.diverged)
    critics = _without_diverged(ensemble, ensemble.parameters(state.ensemble), state.diverged)
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
        actor=_moved(program, state.actor, gradient, actor),
        log_alpha=_moved_coefficient(program, state, entropy - settings.target_entropy_of(noise.shape[1])),
        entropy=entropy,
    )
    # A critic that has just diverged must not take the actor with it. Its values may still be finite, but optimizers
    # square the gradient, and would never recover from an infinite average of that.
    unsound = ~jnp.isfinite(l2(values)).all(axis=1)  # [2]
    unmoved = state._replace(diverged=state.diverged | _in_pair(ensemble, jnp.where(unsound, pair, -1)))
    sound = ~unsound.any() & jnp.isfinite(l2(gradient)).all() & jnp.isfinite(moved.actor.parameters).all()
    state = jax.tree.map(lambda new, old: jnp.where(sound, new, old), moved, unmoved)
    return state._replace(
        acted_since=state.acted_since + _in_pair(ensemble, pair),
        updates_since=state.updates_since + jnp.asarray([0, 1], jnp.int32),
        learned_since=state.learned_since + jnp.stack([False, sound]).astype(jnp.int32),
    )


def entropy_coefficient(state: SACState) -> Array:
    """α. []"""
    return jnp.exp(state.log_alpha.parameters)


def act(program: SACProgram, state: SACState, observation: Array, noise: Array) -> Array:
    """Actions drawn from the policy with standard normal noise, in (-1, 1). [n, A]"""
    outputs = program.actor.apply(program.actor.unravel(state.actor.parameters), observation)
    return squashed_gaussian.sample(outputs, noise).action


def report(program: SACProgram, state: SACState) -> tuple[SACState, Array, Array, Array, Array]:
    """Start a new stretch; of the last one: losses, shares in target and behaviour pairs, newly diverged. [K] each"""
    diverged = state.diverged | ~program.ensemble.finite(program.ensemble.parameters(state.ensemble))
    critic_updates, actor_updates = jnp.maximum(state.updates_since, 1)
    begun = state._replace(
        selected=state.selected._replace(members=_living_pair(state.selected.members, diverged)),
        diverged=diverged,
        reported=diverged,
        selected_since=jnp.zeros_like(state.selected_since),
        acted_since=jnp.zeros_like(state.acted_since),
        updates_since=jnp.zeros_like(state.updates_since),
        learned_since=jnp.zeros_like(state.learned_since),
    )
    return (
        begun,
        jnp.where(diverged, jnp.inf, state.cumulated_loss),
        state.selected_since / critic_updates,
        state.acted_since / actor_updates,
        diverged & ~state.reported,
    )


def _in_pair(ensemble: Ensemble, pair: Array) -> Array:
    """Which members are among these two, where -1 is nobody. [K]"""
    return (pair[:, None] == jnp.arange(ensemble.size)[None, :]).any(axis=0)


def _living_pair(pair: Array, diverged: Array) -> Array:
    """The pair, or twice the same member if only one of the two is alive. [2]"""
    dead = diverged[pair]
    return jnp.where(dead.any() & ~dead.all(), jnp.where(dead[0], pair[1], pair[0]), pair)


def _without_diverged(ensemble: Ensemble, parameters: EnsembleParameters, diverged: Array) -> EnsembleParameters:
    """Zeros for diverged members where both of two are computed: what nobody asks for has no slope, but 0 · NaN has."""
    if ensemble.size != 2:
        return parameters
    return tuple(
        jnp.where(jnp.stack([diverged[k] for k in group])[:, None], 0.0, rows)
        for group, rows in zip(ensemble.groups, parameters, strict=True)
    )


def _learned(program: SACProgram, parameters: Array, network: Network | None) -> Learned:
    optimizer = build_optimizer(program.settings.actor_optimizer, program.settings.actor_learning_rate, {})
    return Learned(parameters, jax.jit(optimizer.init)(_as_arrays(program, parameters, network)))


def _as_arrays(program: SACProgram, vector: Array, network: Network | None) -> Any:
    """Parameters or gradients as the optimizer must see them: some look at whole arrays, not at single weights."""
    if optimizer_spec(program.settings.actor_optimizer).elementwise:
        return vector
    return [vector[None]] if network is None else network.unravel(vector)


def _moved(program: SACProgram, learned: Learned, gradient: Array, network: Network | None) -> Learned:
    optimizer = build_optimizer(program.settings.actor_optimizer, program.settings.actor_learning_rate, {})
    parameters = _as_arrays(program, learned.parameters, network)
    change, optimizer_state = optimizer.update(_as_arrays(program, gradient, network), learned.optimizer, parameters)
    moved: Any = optax.apply_updates(parameters, change)
    if isinstance(moved, list):
        moved = moved[0][0] if network is None else network.ravel(moved)
    return Learned(moved, optimizer_state)


def _moved_coefficient(program: SACProgram, state: SACState, surplus: Array) -> Learned:
    """log α after a step down the gradient of log α · (entropy - target); a number that was given stays."""
    if program.settings.ent_coef != AUTO:
        return state.log_alpha
    return _moved(program, state.log_alpha, surplus, None)
