"""Critics and an actor for continuous actions: what AdaSAC and AdaTD3 share (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from adaqn.agents.base import LearningState
from adaqn.agents.generations import Inheritance, next_members
from adaqn.agents.record import MemberRecord, is_in, tree_where, valid_pair
from adaqn.agents.settings import PairSettings
from adaqn.agents.targets import bellman_target, critic_inputs, evaluated_together
from adaqn.members.selection import TargetRule, behaviour_rule, target_rule
from adaqn.networks.ensemble import Ensemble, EnsembleParameters, EnsembleState
from adaqn.networks.losses import l2
from adaqn.networks.network import Network
from adaqn.networks.optimizers import build_optimizer, optimizer_spec
from adaqn.replay.protocol import Batch


class OptimizedParameters(NamedTuple):
    """Parameters and the state of their optimizer."""

    parameters: Array
    optimizer: Any


@cache  # avoids recompilation for a second agent and for every trial of a search
def _compiled_init(name: str) -> Callable[[Any], Any]:
    """The initial state of an optimizer, which does not depend on its learning rate."""
    return jax.jit(build_optimizer(name, 1.0, {}).init)


class ParameterOptimizer(NamedTuple):
    """An optimizer for the parameters of a network, or for a scalar. Hashable."""

    name: str
    learning_rate: float
    network: Network | None  # None for a scalar

    def init(self, parameters: Array) -> OptimizedParameters:
        """The parameters with a newly initialized optimizer."""
        return OptimizedParameters(parameters, _compiled_init(self.name)(self._as_arrays(parameters)))

    def step(self, current: OptimizedParameters, gradient: Array) -> OptimizedParameters:
        """One gradient descent step."""
        parameters = self._as_arrays(current.parameters)
        change, optimizer_state = self._build().update(self._as_arrays(gradient), current.optimizer, parameters)
        moved: Any = optax.apply_updates(parameters, change)
        if isinstance(moved, list):
            moved = moved[0][0] if self.network is None else self.network.ravel(moved)
        return OptimizedParameters(moved, optimizer_state)

    def _build(self) -> optax.GradientTransformation:
        return build_optimizer(self.name, self.learning_rate, {})

    def _as_arrays(self, vector: Array) -> Any:
        """The flat vector, or a list of arrays for optimizers that are not element-wise."""
        if optimizer_spec(self.name).elementwise:
            return vector
        return [vector[None]] if self.network is None else self.network.unravel(vector)


class UpdateCounts(NamedTuple):
    """Updates of the critics and of the actor since the last report."""

    made: Array  # [2]
    learned: Array  # [2] updates that changed the parameters

    @classmethod
    def none(cls) -> UpdateCounts:
        """All counts at zero."""
        return cls(jnp.zeros(2, jnp.int32), jnp.zeros(2, jnp.int32))

    def critics(self, learned: Array) -> Self:
        """Count one update of the critics."""
        return self._replace(
            made=self.made + jnp.asarray([1, 0], jnp.int32),
            learned=self.learned + jnp.stack([learned, False]).astype(jnp.int32),
        )

    def actor(self, learned: Array) -> Self:
        """Count one update of the actor."""
        return self._replace(
            made=self.made + jnp.asarray([0, 1], jnp.int32),
            learned=self.learned + jnp.stack([False, learned]).astype(jnp.int32),
        )


class IntervalStatistics(NamedTuple):
    """Statistics of the K members over the updates since the last report. [K] each"""

    losses: Array
    acted: Array  # fraction of actor updates with the member in the behaviour pair
    newly_diverged: Array
    selected: Array  # fraction of critic updates after which the member was in the target pair


def end_interval(record: MemberRecord, counts: UpdateCounts, finite: Array) -> tuple[MemberRecord, IntervalStatistics]:
    """Return the statistics since the last report, and reset their counters. finite: [K]"""
    before = record.mark_diverged(~finite)
    critic_updates, actor_updates = jnp.maximum(counts.made, 1)
    stretch = IntervalStatistics(
        losses=jnp.where(before.diverged, jnp.inf, before.loss),
        acted=before.acted / actor_updates,
        newly_diverged=before.diverged & ~before.reported,
        selected=before.chosen / critic_updates,
    )
    return before.reset_counters(), stretch


def without_diverged(ensemble: Ensemble, parameters: EnsembleParameters, diverged: Array) -> EnsembleParameters:
    """If two members are always evaluated together, set the parameters of diverged ones to zero.

    Both are evaluated even if only one is used, and the zero gradient of the unused one times NaN would be NaN.
    """
    if not evaluated_together(ensemble):
        return parameters
    return tuple(
        jnp.where(jnp.stack([diverged[k] for k in group])[:, None], 0.0, rows)
        for group, rows in zip(ensemble.groups, parameters, strict=True)
    )


def inherited_critics(
    ensemble: EnsembleState, target: EnsembleParameters, heirs: Inheritance, rng: np.random.Generator
) -> tuple[EnsembleState, EnsembleParameters]:
    """Online critics of the next members, and their Polyak targets, which are inherited in the same way.

    If a member of the target pair is replaced, the child in its slot is part of the pair until the next update chooses
    a new pair.
    """
    members = heirs.new.join(next_members(rng, heirs.old.split(ensemble), heirs))
    targets = [np.asarray(heirs.old.member(target, k)) for k in range(heirs.old.size)]
    inherited = [heirs.parameters(slot, targets) for slot in range(heirs.new.size)]
    return members, heirs.new.parameters_in_groups(inherited)


class ActorCriticState(LearningState, Protocol):
    """The fields that both states have. K members, of which two make up the target."""

    @property
    def target(self) -> EnsembleParameters: ...

    @property
    def actor(self) -> OptimizedParameters: ...

    @property
    def counts(self) -> UpdateCounts: ...

    @property
    def discount(self) -> Array: ...

    @property
    def gamma(self) -> Array: ...


State = TypeVar("State", bound=ActorCriticState)
SettingsT = TypeVar("SettingsT", bound=PairSettings)


class Program(NamedTuple, Generic[SettingsT]):
    """The static arguments of the compiled functions. Hashable."""

    ensemble: Ensemble  # of critics: observation and action in, one value out
    actor: Network  # observation in
    settings: SettingsT

    @property
    def rule(self) -> TargetRule:
        """The rule that chooses the target pair or mixture."""
        return target_rule(self.settings.selection, self.settings.selection_temperature)

    def optimizer(self, network: Network | None) -> ParameterOptimizer:
        """The optimizer of the actor's network, or with None, of a scalar that is learned with the same settings."""
        return ParameterOptimizer(self.settings.actor_optimizer, self.settings.actor_learning_rate, network)


class Functions(NamedTuple):
    """The pure functions in which the families differ. Hashable.

    Those that read a batch can be given a part of it: an update is either one program, or divided among threads.
    """

    start: Callable[..., Any]  # (program, members, discounts [K], seed) -> state
    next_value: Callable[..., tuple[Array, Array]]
    # (program, state, next observations [B, ...], draws) -> V(s') [B], and the members with unusable values [K]
    follow: Callable[..., EnsembleParameters]
    # (program, target parameters, online parameters) -> target parameters after an update of the critics
    actor_gradient: Callable[..., Any]  # (program, state, observations [B, ...], draws, pair [2]) -> means over B
    step_actor: Callable[..., Any]  # (program, state, parameters of the critics, pair, `actor_gradient`) -> state
    act: Callable[..., Any]  # (program, state, observations [n, ...], noise [n, A]) -> actions [n, A]
    mode: Callable[..., Any]  # (program, state, observations) -> actions without noise


def update_critics(
    family: Functions, program: Program[SettingsT], state: State, batch: Batch[Array], draws: Any
) -> State:
    """One gradient step of every critic towards the shared target, then the choice of the pair (lines 5 to 12)."""
    value, unusable = family.next_value(program, state, batch.next_observation, draws)
    sound = is_sound(value)
    ensemble = program.ensemble
    trained, losses = critic_step(ensemble, state.ensemble, batch, value, state.discount, state.gamma, sound)
    followed = family.follow(program, state.target, ensemble.parameters(trained))
    learned = state._replace(ensemble=trained, target=tree_where(sound, followed, state.target))
    return settle_critics(program, learned, losses, unusable, sound, draws.selection)


def update_actor(
    family: Functions,
    program: Program[SettingsT],
    state: State,
    observation: Array,
    draws: Any,
    epsilon: Array | np.ndarray,
) -> State:
    """One gradient step of the actor against a behaviour pair drawn with ε_b (lines 13 and 14)."""
    pair = behaviour_pair(program, state, draws.behaviour, epsilon)
    gradient = family.actor_gradient(program, state, observation, draws, pair)
    return family.step_actor(program, state, program.ensemble.parameters(state.ensemble), pair, gradient)


def is_sound(next_value: Array) -> Array:
    """Whether the critics can learn towards these values [B]: no member learns from a target that overflows. []"""
    return jnp.isfinite(l2(next_value)).all()


def critic_step(
    ensemble: Ensemble,
    critics: EnsembleState,
    batch: Batch[Array],
    next_value: Array,
    discount: Array,
    gamma: Array,
    taken: Array,
) -> tuple[EnsembleState, Array]:
    """One gradient step of every critic towards the target with V(s') [B] (lines 8 to 10); L2 errors before it. [K]

    Where `taken` [] is False, no critic changes.
    """

    def target_with(discount: Array) -> Array:
        return bellman_target(next_value, batch, discount)

    trained, predictions = ensemble.update(
        critics,
        critic_inputs(batch.observation, batch.action),
        jax.vmap(target_with)(discount),
        lambda q: q[:, 0],
        taken,
    )
    # Members may train with different losses and discounts; they are compared by the L2 error with γ̄.
    return trained, l2(predictions - target_with(gamma)[None, :]).mean(axis=1)


def settle_critics(
    program: Program[SettingsT],
    state: State,
    losses: Array,
    unusable: Array,
    sound: Array,
    uniforms: Array | np.ndarray,
) -> State:
    """Record the losses [K] of an update of the critics, or what made it unsound, and choose the pair."""
    record = state.record
    record = tree_where(sound, record.follow(losses, program.settings.tau), record.mark_diverged(unusable))
    return choose_pair(program, state._replace(record=record), uniforms, sound)


def choose_pair(program: Program[SettingsT], state: State, uniforms: Array | np.ndarray, learned: Array) -> State:
    """Choose ψ1 and ψ2 after an update of the critics (line 12); `learned`: whether the update changed them."""
    everyone = jnp.ones(program.ensemble.size, bool)
    record, selected = state.record.select(program.rule, jnp.asarray(uniforms), everyone, 2)
    return state._replace(record=record, selected=selected, counts=state.counts.critics(learned))


def behaviour_pair(
    program: Program[SettingsT], state: ActorCriticState, uniforms: Array | np.ndarray, epsilon: Array | np.ndarray
) -> Array:
    """ψ1^b and ψ2^b, drawn before an update of the actor (line 13); equal if the other member has diverged. [2]"""
    record = state.record
    draw = behaviour_rule(program.settings.behaviour or "epsilon")
    drawn = draw(jnp.asarray(uniforms), jnp.asarray(epsilon), record.loss, record.alive, state.selected.leading(2))
    return valid_pair(drawn, record.diverged)


def count_actor_update(state: State, members: Array, learned: Array) -> State:
    """Count an update of the actor against these members; `learned`: whether it changed the actor."""
    record = state.record
    acted = record.acted + is_in(members, record.acted.shape[0])
    return state._replace(record=record._replace(acted=acted), counts=state.counts.actor(learned))


def report_interval(program: Program[SettingsT], state: State) -> tuple[State, IntervalStatistics]:
    """Return the statistics of the updates since the last report, and reset their counters."""
    finite = program.ensemble.finite(program.ensemble.parameters(state.ensemble))
    record, stretch = end_interval(state.record, state.counts, finite)
    selected = record.without_dead_partner(state.selected, 2)
    return state._replace(selected=selected, record=record, counts=UpdateCounts.none()), stretch
