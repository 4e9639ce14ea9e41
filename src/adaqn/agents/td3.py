"""AdaTD3, RandTD3 and TD3: a deterministic actor, delayed and with a smoothed target, and critics as in Algorithm 2.

TD3 (Fujimoto et al., 2018) with K critics instead of two. The two with the smallest cumulated losses make up the
target, as in AdaSAC. TD3 trains its actor against its first critic alone; here that is the first of a behaviour pair,
which is the target pair, or a random one with probability ε_b. All targets, the actor's included, move when the actor
does.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents.core.actor_critic import (
    OptimizedParameters,
    ParameterOptimizer,
    Stretch,
    UpdateCounts,
    end_stretch,
    inherited_critics,
    without_diverged,
)
from adaqn.agents.core.actor_critic_agent import ActorCriticAgent
from adaqn.agents.core.actor_settings import ActorSettings
from adaqn.agents.core.ensemble_agent import AgentState, behaviour_epsilon
from adaqn.agents.core.generations import Inheritance, evolution_of
from adaqn.agents.core.population import Population
from adaqn.agents.core.record import MemberRecord, among, living_pair
from adaqn.agents.core.settings import SelectionSettings, setting
from adaqn.agents.core.targets import bellman_target, critic_inputs, critic_target, polyak
from adaqn.agents.events import Event, Failure
from adaqn.agents.protocol import Clock, Operation, PolicyWeights, Report
from adaqn.agents.registry import Algorithm, Traits
from adaqn.checks import at_least, between
from adaqn.compilation import transition
from adaqn.ensemble import Ensemble, EnsembleParameters, EnsembleState
from adaqn.hyperparameters import Hyperparameters, grid
from adaqn.networks.losses import l2
from adaqn.networks.network import Network
from adaqn.replay.protocol import Batch
from adaqn.selection import Selection, TargetRule, behaviour_rule, target_rule
from adaqn.selection.draws import initial_selection


@dataclass(frozen=True, kw_only=True)
class PlainTD3Settings(ActorSettings):
    """What a TD3 with two equal critics needs."""

    policy_delay: int = setting(2, "the actor is updated every so many times that the critics are", at_least(1))
    action_noise: float = setting(0.1, "standard deviation of the noise on actions, which are in [-1, 1]", between(0.0))
    target_policy_noise: float = setting(
        0.2, "standard deviation of the noise on the actions of the target", between(0.0)
    )
    target_noise_clip: float = setting(0.5, "limit of the noise on the actions of the target", between(0.0))


@dataclass(frozen=True, kw_only=True)
class TD3Settings(PlainTD3Settings, SelectionSettings):
    """What all members share, and how pairs of them are chosen."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_used_temperature()


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

    smoothing: np.ndarray  # [B, A] standard normal, for the actions of the target
    selection: np.ndarray  # [K] uniform
    behaviour: np.ndarray  # [1 + K] uniform


class TD3Program(NamedTuple):
    """What the compiled functions depend on. Hashable."""

    ensemble: Ensemble  # of critics: observation and action in, one value out
    actor: Network
    settings: TD3Settings

    @property
    def rule(self) -> TargetRule:
        """How the pair, or the mixture, of the target is chosen."""
        return target_rule(self.settings.selection, self.settings.selection_temperature)

    @property
    def optimizer(self) -> ParameterOptimizer:
        """That of the actor."""
        return ParameterOptimizer(self.settings.actor_optimizer, self.settings.actor_learning_rate, self.actor)


def policy_action(actor: Network, parameters: Array, observation: Array) -> Array:
    """π(s), in (-1, 1). [n, A]"""
    return jnp.tanh(actor.apply(actor.unravel(parameters), observation))


def start(program: TD3Program, members: tuple[Hyperparameters, ...], discounts: np.ndarray, seed: int) -> TD3State:
    """Fresh weights, targets equal to them, and the first two members as pair."""
    ensemble = program.ensemble
    rng = np.random.default_rng(seed)
    critics = ensemble.init(members, rng)
    actor = jnp.asarray(program.actor.init(rng))
    return TD3State(
        ensemble=critics,
        target=jax.tree.map(jnp.copy, ensemble.parameters(critics)),
        actor=program.optimizer.init(actor),
        target_actor=jnp.copy(actor),
        selected=initial_selection(program.rule.target_size(2, ensemble.size)),
        record=MemberRecord.empty(ensemble.size),
        counts=UpdateCounts.none(),
        discount=jnp.asarray(discounts),
        gamma=jnp.asarray(program.settings.gamma, jnp.float32),
    )


def target_action(program: TD3Program, state: TD3State, next_observation: Array, noise: Array) -> Array:
    """The target actor's action with clipped noise, so that critics are smooth around it. [B, A]"""
    settings = program.settings
    limit = settings.target_noise_clip
    smoothing = jnp.clip(settings.target_policy_noise * noise, -limit, limit)
    return jnp.clip(policy_action(program.actor, state.target_actor, next_observation) + smoothing, -1.0, 1.0)


def update_critics(program: TD3Program, state: TD3State, batch: Batch[Array], draws: Draws) -> TD3State:
    """One gradient step of every critic on the shared target, then the choice of the pair."""
    ensemble, _, settings = program
    action = target_action(program, state, batch.next_observation, jnp.asarray(draws.smoothing))
    inputs = critic_inputs(batch.next_observation, action)
    value, unusable = critic_target(ensemble, state.target, state.selected, inputs, program.rule.mixture)
    # Nobody learns from a target that is too large to compute with; with the next update another pair is there.
    sound = jnp.isfinite(l2(value)).all()

    def target_with(discount: Array) -> Array:
        return bellman_target(value, batch, discount)

    trained, predictions = ensemble.update(
        state.ensemble,
        critic_inputs(batch.observation, batch.action),
        jax.vmap(target_with)(state.discount),
        lambda q: q[:, 0],
    )
    losses = l2(predictions - target_with(state.gamma)[None, :]).mean(axis=1)
    learned = state._replace(ensemble=trained, record=state.record.follow(losses, settings.tau))
    unlearned = state._replace(record=state.record.mark_diverged(unusable))
    state = jax.tree.map(lambda new, old: jnp.where(sound, new, old), learned, unlearned)
    everyone = jnp.ones(ensemble.size, bool)
    record, selected = state.record.select(program.rule, jnp.asarray(draws.selection), everyone, 2)
    return state._replace(record=record, selected=selected, counts=state.counts.critics(sound))


def update_actor(program: TD3Program, state: TD3State, observation: Array, draws: Draws, epsilon: Array) -> TD3State:
    """One step of the actor up the value of the first of a behaviour pair; then all targets follow."""
    ensemble, actor, settings = program
    record = state.record
    draw = behaviour_rule(settings.behaviour or "epsilon")
    drawn = draw(jnp.asarray(draws.behaviour), epsilon, record.loss, record.alive, state.selected.leading(2))
    critic = living_pair(drawn, record.diverged)[0]
    critics = without_diverged(ensemble, ensemble.parameters(state.ensemble), record.diverged)

    def loss(arrays: list[Array]) -> tuple[Array, Array]:
        action = jnp.tanh(actor.apply(arrays, observation))
        values = ensemble.value(critics, critic, critic_inputs(observation, action))[:, 0]
        return -values.mean(), values

    gradients, values = jax.grad(loss, has_aux=True)(actor.unravel(state.actor.parameters))
    gradient = actor.ravel(gradients)
    stepped = program.optimizer.step(state.actor, gradient)
    moved = state._replace(
        actor=stepped,
        target_actor=polyak(state.target_actor, stepped.parameters, settings.tau),
        target=polyak(state.target, ensemble.parameters(state.ensemble), settings.tau),
    )
    # A critic that has just diverged must not take the actor with it.
    usable = jnp.isfinite(l2(values)).all()
    size = ensemble.size
    unmoved = state._replace(record=record.mark_diverged(among(jnp.where(usable, -1, critic)[None], size)))
    sound = usable & jnp.isfinite(l2(gradient)).all() & jnp.isfinite(stepped.parameters).all()
    state = jax.tree.map(lambda new, old: jnp.where(sound, new, old), moved, unmoved)
    acted = state.record.acted + among(critic[None], size)
    return state._replace(record=state.record._replace(acted=acted), counts=state.counts.actor(sound))


def report_stretch(program: TD3Program, state: TD3State) -> tuple[TD3State, Stretch]:
    """Report what the updates since the last report did, and begin a new stretch."""
    finite = program.ensemble.finite(program.ensemble.parameters(state.ensemble))
    record, stretch = end_stretch(state.record, state.counts, finite)
    selected = record.without_dead_partner(state.selected, 2)
    return state._replace(selected=selected, record=record, counts=UpdateCounts.none()), stretch


class TD3Programs(NamedTuple):
    """The compiled functions for one ensemble and actor."""

    mode: Any  # (state, observations) -> actions [n, A]
    update: dict[Operation, Any]  # (state, batch, draws, ε_b) -> state
    update_and_act: dict[Operation, Any]  # (state, batch, draws, ε_b, observations) -> (state, actions)
    report_stretch: Any  # (state) -> (state, stretch)


@lru_cache(maxsize=32)
def compiled_programs(program: TD3Program) -> TD3Programs:
    """The programs; the same object for equal architectures and settings."""

    def mode(state: TD3State, observations: Array) -> Array:
        return policy_action(program.actor, state.actor.parameters, observations)

    def updating(actor: bool) -> Any:
        def update(state: TD3State, batch: Batch[Array], draws: Draws, epsilon: Array) -> TD3State:
            state = update_critics(program, state, batch, draws)
            return update_actor(program, state, batch.observation, draws, epsilon) if actor else state

        return update

    def updating_and_acting(actor: bool) -> Any:
        def both(
            state: TD3State, batch: Batch[Array], draws: Draws, epsilon: Array, observations: Array
        ) -> tuple[TD3State, Array]:
            state = updating(actor)(state, batch, draws, epsilon)
            return state, mode(state, observations)

        return both

    with_actor = {Operation.UPDATE: False, Operation.ACTOR_UPDATE: True}
    return TD3Programs(
        mode=jax.jit(mode),
        update={operation: transition(updating(actor)) for operation, actor in with_actor.items()},
        update_and_act={operation: transition(updating_and_acting(actor)) for operation, actor in with_actor.items()},
        report_stretch=transition(lambda state: report_stretch(program, state)),
    )


State = AgentState[TD3State]


class TD3Agent(ActorCriticAgent[TD3State, TD3Programs]):
    """TD3 with an ensemble of critics, as the loop sees it."""

    def __init__(
        self,
        settings: TD3Settings,
        population: Population,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
    ) -> None:
        if settings.behaviour is None:
            default = "epsilon" if population.space is None else "inverse_loss"
            settings = dataclasses.replace(settings, behaviour=default)
        self.settings = settings
        evolution = evolution_of(population, settings)
        super().__init__(settings, population.members, observation_space, action_space, evolution, outputs_per_action=1)

    def start(self, members: tuple[Hyperparameters, ...], seed: int) -> TD3State:
        """Critics and an actor with fresh weights."""
        return start(self._program(members), members, self.discounts(members), seed)

    def _program(self, members: tuple[Hyperparameters, ...]) -> TD3Program:
        return TD3Program(self.ensemble_of(members), self._actor, self.settings)

    def compile(self, members: tuple[Hyperparameters, ...]) -> TD3Programs:
        """One program for all critics and the actor."""
        return compiled_programs(self._program(members))

    def act(
        self, state: State, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[State, np.ndarray | Failure]:
        """Uniform actions until learning starts, then those of the policy with noise."""
        if clock.step < self.settings.learning_starts:
            return state, rng.uniform(-1.0, 1.0, (len(observations), self._actions)).astype(np.float32)
        return state, self._exploring(self.programs(state).mode(state.learning, observations), rng)

    def _exploring(self, actions: Array | np.ndarray, rng: np.random.Generator) -> np.ndarray | Failure:
        chosen = self._finite(actions)
        if isinstance(chosen, Failure):
            return chosen
        noise = self.settings.action_noise * rng.standard_normal(chosen.shape, np.float32)
        return np.clip(chosen + noise, -1.0, 1.0).astype(np.float32)

    def update(
        self,
        state: State,
        operation: Operation,
        batch: Batch[np.ndarray],
        clock: Clock,
        rng: np.random.Generator,
        act_on: np.ndarray | None = None,
    ) -> tuple[State, np.ndarray | Failure | None]:
        """One gradient step of every critic, of the actor if the operation says so, and then perhaps `act`."""
        members = len(state.members)
        smoothing = rng.standard_normal((len(batch.action), self._actions), np.float32)
        uniforms = rng.random(2 * members + 1, np.float32)
        draws = Draws(smoothing, uniforms[:members], uniforms[members:])
        epsilon = np.asarray(behaviour_epsilon(self.settings, clock), np.float32)
        programs = self.programs(state)
        if act_on is None:
            learning = programs.update[operation](state.learning, batch, draws, epsilon)
            return state._replace(learning=learning), None
        learning, actions = programs.update_and_act[operation](state.learning, batch, draws, epsilon, act_on)
        return state._replace(learning=learning), self._exploring(actions, rng)

    def perform(
        self, state: State, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[State, tuple[Event, ...]]:
        """Report the pairs of the last stretch, or replace members."""
        if operation is Operation.GENERATION:
            return self._generation(state, self.settings.reset_weights, clock, rng)
        assert operation is Operation.TARGET_UPDATE, "TD3 plans nothing else besides updates"
        return self._report_pairs(state, clock)

    def report_stretch(self, state: State) -> tuple[TD3State, Stretch]:
        """What the updates since the last report did."""
        return self.programs(state).report_stretch(state.learning)

    def inherited(self, learning: TD3State, heirs: Inheritance, rng: np.random.Generator) -> TD3State:
        """Online critics and Polyak targets of the next members."""
        members, target = inherited_critics(learning.ensemble, learning.target, heirs, rng)
        return learning._replace(ensemble=members, target=target)

    def policy(
        self, state: State, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """The actor's actions; with a generator, with the noise of training."""
        del clock
        actions = np.array(self.programs(state).mode(state.learning, observations))
        if rng is None:
            return actions
        noise = self.settings.action_noise * rng.standard_normal(actions.shape, np.float32)
        return np.clip(actions + noise, -1.0, 1.0).astype(np.float32)

    def policy_weights(self, state: State) -> PolicyWeights:
        """The actor, which never takes a step that is not finite."""
        return PolicyWeights("tanh", self._actor, np.array(state.learning.actor.parameters), self.settings.actor)

    def report(self, state: State, clock: Clock) -> Report:
        """The members as they stand, and scalars for the logs."""
        report = super().report(state, clock)
        own = {"ada/behaviour_rate": behaviour_epsilon(self.settings, clock)}
        return report._replace(metrics=report.metrics | own)


def default_members(_: tuple[int, ...]) -> tuple[Hyperparameters, ...]:
    """What an ensemble has by default."""
    return grid(hidden=[(64, 64), (256, 256)], learning_rate=[3e-4, 1e-3])


def default_critic(_: tuple[int, ...]) -> tuple[Hyperparameters, ...]:
    """What a TD3 has by default."""
    return (Hyperparameters(hidden=(256, 256), learning_rate=1e-3),)


TRAITS = Traits(sums_up_selections=True)

ALGORITHMS = {
    "adatd3": Algorithm(TD3Settings, TD3Agent, default_members, least=2, space="optional", traits=TRAITS),
    "randtd3": Algorithm(
        TD3Settings,
        TD3Agent,
        default_members,
        {"selection": "random"},
        least=2,
        space="optional",
        traits=TRAITS,
    ),
    "td3": Algorithm(
        TD3Settings,
        TD3Agent,
        default_critic,
        copies=2,
        traits=TRAITS,
        base_settings=PlainTD3Settings,
    ),
}
