"""AdaDQN (Algorithm 1), its ablations and DQN: one algorithm with different selection rules and numbers of members.

First the algorithm as pure functions, each with its lines of the pseudocode, then the agent that calls them. Functions
that evaluate networks are separate from those that only count and choose, so that everything can be compiled as one
program, or as one per member and a small one for the rest.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents.base import AgentState, behaviour_epsilon, due_steps, linear
from adaqn.agents.execution.divided_value import divided_programs
from adaqn.agents.execution.value import DQNPrograms, FusedPrograms, StagedPrograms, fused_programs
from adaqn.agents.generations import evolution_of
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Event, Failure, Operation, Report
from adaqn.agents.record import MemberRecord, is_in, tree_where
from adaqn.agents.settings import DQNSettings
from adaqn.agents.targets import weighted_mean
from adaqn.agents.value import DQNRules, QFunctions, TargetChoice, ValueAgent, ValueState, gradients, learn, next_value
from adaqn.base.errors import UserError
from adaqn.envs.spaces import require_observations
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.selection import Selection, behaviour_rule, target_rule
from adaqn.networks.ensemble import Ensemble, EnsembleParameters
from adaqn.networks.losses import l2
from adaqn.replay.making import row_layout
from adaqn.replay.protocol import Batch


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
        return values[0], is_in(jnp.where(usable, -1, selected.members[:1]), size)
    weighs = jnp.zeros(size, bool).at[selected.members].set(selected.weights > 0.0)
    return weighted_mean(values, selected), ~usable & weighs


def update(
    functions: QFunctions, ensemble: Ensemble, rules: DQNRules, state: ValueState, batch: Batch[Array]
) -> ValueState:
    """One gradient step of every member towards the shared target (lines 7 to 12).

    If the target is unusable, no member learns until the next target update chooses another.
    """
    value, unusable = functions.target_value(ensemble, rules, state, batch.next_observation)
    sound = ~unusable.any()
    trained, losses = functions.learn(ensemble, state.ensemble, batch, value, state.discount, state.gamma, sound)
    record = tree_where(sound, state.record.add(losses), state.record.mark_diverged(unusable))
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


def select_target(
    rules: DQNRules, record: MemberRecord, finite: Array, candidates: Array, uniforms: Array
) -> tuple[MemberRecord, Selection, TargetChoice]:
    """ψ <- argmin L_k among the candidates, or another rule's choice, and L_k <- 0 (line 14). [K] each"""
    before = record.mark_diverged(~finite)
    rule = target_rule(rules.selection, rules.temperature)
    chosen, selected = before.select(rule, uniforms, candidates, 1)
    facts = TargetChoice(chosen.compared_loss, record.acted, before.diverged & ~record.reported)
    return chosen.reset_counters()._replace(loss=jnp.zeros_like(record.loss)), selected, facts


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


FUNCTIONS = QFunctions(
    target_value, learn, gradients, update, act, behaviour_members, select_target, mix, update_target, greedy
)

State = AgentState[ValueState]

# Updates in one call of a program. An interruption waits for all of them, and twice as many are hardly any faster.
UPDATES_AT_ONCE = 32


class DQNAgent(ValueAgent[DQNPrograms]):
    """AdaDQN (Algorithm 1) as an agent of the training loop."""

    functions: ClassVar[QFunctions] = FUNCTIONS

    def __init__(
        self,
        settings: DQNSettings,
        population: Population,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
    ) -> None:
        interval = settings.target_update_interval
        if population.space is not None and settings.generation_interval % interval:
            raise UserError(
                f"generation_interval must be a multiple of target_update_interval, {interval}, "
                f"but it is {settings.generation_interval}"
            )
        default = "epsilon" if population.space is None else "inverse_loss"
        self.settings = settings
        self.rules = DQNRules(
            settings.selection,
            settings.behaviour or default,
            settings.selection_temperature,
            settings.double_q,
        )
        evolution = evolution_of(population, settings)
        self.row_layout = row_layout(require_observations(observation_space), action_space, settings.n_steps)
        super().__init__(settings, population.members, observation_space, action_space, evolution, self.rules.mixture)
        # Where an update is several programs there is none that could make several updates.
        fused = evolution is None and self.lanes == 1
        self.updates_at_once = UPDATES_AT_ONCE if self.row_layout is not None and fused else 1

    def compile(self, members: tuple[Hyperparameters, ...]) -> DQNPrograms:
        """One fused program for all members, several for lanes, or one per member if members can be replaced."""
        ensemble = self.ensemble_of(members)
        if self.evolution is not None:
            return StagedPrograms(
                self.functions, ensemble, self.rules, self.row_layout, self.settings.batch_size, self.lanes
            )
        if self.lanes > 1:
            return divided_programs(
                self.functions, ensemble, self.rules, self.row_layout, self.settings.batch_size, self.lanes
            )
        return fused_programs(self.functions, ensemble, self.rules, self.row_layout)

    def plan(self, state: State, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """An update every G steps, a target update every T steps (lines 6 and 13), once learning has started."""
        del ended
        s = self.settings
        begun = max(clock.settled, clock.replay_start + s.learning_starts)
        if clock.step // s.target_update_interval <= begun // s.target_update_interval:
            # Nothing but updates can be due, as after nearly every step: no need to go through the steps one by one.
            return (Operation.UPDATE,) * ((clock.step // s.train_freq - begun // s.train_freq) * s.gradient_steps)
        due: list[Operation] = []
        for due_step in due_steps(clock, s.learning_starts, s.train_freq, s.target_update_interval):
            if due_step.update:
                due += [Operation.UPDATE] * s.gradient_steps
            if due_step.target:
                replaced = self.evolution is not None and self.evolution.due(due_step.step, state.members)
                due.append(Operation.GENERATION if replaced else Operation.TARGET_UPDATE)
        return tuple(due)

    def exploration(self, clock: Clock) -> tuple[float, float]:
        """ε and ε_b at this step."""
        s = self.settings
        epsilon = linear(s.exploration_initial_eps, s.exploration_final_eps, s.exploration_steps, clock.step)
        return epsilon, behaviour_epsilon(s, clock)

    def act(
        self, state: State, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[State, np.ndarray | Failure]:
        """ε-greedy actions of the behaviour members."""
        uniforms, epsilons = self._draws(state, observations, clock, rng)
        learning, actions = self.programs(state).act(state.learning, observations, uniforms, epsilons)
        return self._with_sound_actions(state._replace(learning=learning), actions, observations, clock, rng)

    def update(
        self,
        state: State,
        operation: Operation,
        batch: Batch[np.ndarray] | np.ndarray,
        clock: Clock,
        rng: np.random.Generator,
        act_on: np.ndarray | None = None,
        updates: int = 1,
    ) -> tuple[State, np.ndarray | Failure | None]:
        """One or more gradient steps of every member; then `act` if requested."""
        del operation
        programs = self.programs(state)
        rows = batch if self.row_layout is None or isinstance(batch, np.ndarray) else self.row_layout.pack(batch)
        given: tuple[Any, ...] = (rows,)
        update: Any = programs.update
        update_and_act: Any = programs.update_and_act
        # Which program runs must follow from the clock alone, and not from how many updates this call makes.
        room = self._updates_due_at_most(clock)
        assert updates == 1 or updates <= room, f"{updates} updates in one call, but at most {room} can be due"
        if room > 1:
            assert isinstance(programs, FusedPrograms) and isinstance(rows, np.ndarray)
            given = _batches(rows, updates, room)
            update, update_and_act = programs.updates, programs.updates_and_act
        if act_on is None:
            return state._replace(learning=update(state.learning, *given)[0]), None
        uniforms, epsilons = self._draws(state, act_on, clock, rng)
        learning, actions = update_and_act(state.learning, *given, act_on, uniforms, epsilons)
        return self._with_sound_actions(state._replace(learning=learning), actions, act_on, clock, rng)

    def _updates_due_at_most(self, clock: Clock) -> int:
        """The largest number of consecutive updates between two environment steps, at most `updates_at_once`."""
        s = self.settings
        return min(self.updates_at_once, -(-(clock.step - clock.settled) // s.train_freq) * s.gradient_steps)

    def _draws(
        self, state: State, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Uniform numbers [n, 3 + K], and (ε, ε_b). [2]"""
        epsilons = np.asarray(self.exploration(clock), np.float32)
        return rng.random((len(observations), 3 + len(state.members)), np.float32), epsilons

    def _with_sound_actions(
        self,
        state: State,
        actions: Array | np.ndarray,
        observations: np.ndarray,
        clock: Clock,
        rng: np.random.Generator,
    ) -> tuple[State, np.ndarray | Failure]:
        """Choose the actions again if a behaviour member turned out to have diverged."""
        chosen = np.asarray(actions)
        if chosen[0] >= 0:
            return state, chosen
        if np.asarray(state.learning.record.diverged).all():
            return state, self.failure(state)
        return self.act(state, observations, clock, rng)

    def perform(
        self, state: State, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[State, tuple[Event, ...]]:
        """Update the target, and in a generation replace members.

        The fitness is the loss since the last target update; the next target is chosen by the same losses among the
        survivors.
        """
        uniforms = rng.random(len(state.members), np.float32)
        if operation is Operation.TARGET_UPDATE:
            return self._renew_target(state, uniforms, np.ones(len(state.members), bool), clock)
        assert operation is Operation.GENERATION, "DQN plans no other operations besides updates"
        diverged = self.diverged(state)
        if diverged.all():
            return state, (self.failure(state),)
        fitness = np.where(diverged, np.inf, np.asarray(state.learning.record.loss))
        children = self.children(state, fitness, clock, rng)
        stays = np.array([not child.is_new for child in children])
        candidates = stays if stays.any() else np.ones_like(stays)  # a schedule replaces the only member
        renewed, events = self._renew_target(state, uniforms, candidates, clock)
        replaced, generation = self.replace_members(renewed, children, self.settings.reset_weights, clock, rng)
        return replaced, (*events, generation)

    def _renew_target(
        self, state: State, uniforms: np.ndarray, candidates: np.ndarray, clock: Clock
    ) -> tuple[State, tuple[Event, ...]]:
        facts: TargetChoice
        learning, facts = self.programs(state).update_target(state.learning, uniforms, candidates)
        state = state._replace(learning=learning)
        return state, (self.target_update(state, clock, *facts),)

    def policy(
        self, state: State, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """The greedy actions of the target member; given a generator, random ones with probability ε."""
        actions = np.array(self.programs(state).greedy(state.learning, observations))
        if rng is not None:
            explore = rng.random(len(actions)) < self.exploration(clock)[0]
            actions[explore] = rng.integers(self._outputs, size=int(explore.sum()))
        return actions

    def report(self, state: State, clock: Clock) -> Report:
        """Summarize the members, with scalars for the logs."""
        report = super().report(state, clock)
        epsilon, behaviour = self.exploration(clock)
        own = {"rollout/exploration_rate": epsilon, "ada/behaviour_rate": behaviour}
        return report._replace(metrics=report.metrics | own)


def _batches(rows: np.ndarray, updates: int, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows [updates * B, W] in an array with room for more batches [room, B, W], and how many batches there are."""
    size, width = len(rows) // updates, rows.shape[1]
    batches = np.zeros((room, size, width), rows.dtype)
    batches[:updates] = rows.reshape(updates, size, width)
    return batches, np.asarray(updates, np.int32)
