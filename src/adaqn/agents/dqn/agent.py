"""AdaDQN (Algorithm 1), its ablations and DQN: one algorithm with different selection rules and numbers of members."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from jax import Array

from adaqn.agents.core.ensemble_agent import AgentState, behaviour_epsilon
from adaqn.agents.core.generations import evolution_of
from adaqn.agents.core.population import Population
from adaqn.agents.core.q_learning import ValueState
from adaqn.agents.core.rhythm import beats
from adaqn.agents.core.schedules import linear
from adaqn.agents.core.value_agent import ValueAgent
from adaqn.agents.dqn.divided import divided_programs
from adaqn.agents.dqn.learning import DQNRules, TargetChoice
from adaqn.agents.dqn.programs import DQNPrograms, FusedPrograms, StagedPrograms, fused_programs
from adaqn.agents.dqn.settings import DQNSettings
from adaqn.agents.events import Event, Failure
from adaqn.agents.protocol import Clock, Operation, Report
from adaqn.base.errors import UserError
from adaqn.envs.spaces import require_observations
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.making import row_layout
from adaqn.replay.protocol import Batch

State = AgentState[ValueState]

# Updates in one call of a program. An interruption waits for all of them, and twice as many are hardly any faster.
UPDATES_AT_ONCE = 32


class DQNAgent(ValueAgent[DQNPrograms]):
    """AdaDQN (Algorithm 1) as an agent of the training loop."""

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
            return StagedPrograms(ensemble, self.rules, self.row_layout, self.settings.batch_size, self.lanes)
        if self.lanes > 1:
            return divided_programs(ensemble, self.rules, self.row_layout, self.settings.batch_size, self.lanes)
        return fused_programs(ensemble, self.rules, self.row_layout)

    def plan(self, state: State, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """An update every G steps, a target update every T steps (lines 6 and 13), once learning has started."""
        del ended
        s = self.settings
        begun = max(clock.settled, clock.replay_start + s.learning_starts)
        if clock.step // s.target_update_interval <= begun // s.target_update_interval:
            # Nothing but updates can be due, as after nearly every step: no need to go through the steps one by one.
            return (Operation.UPDATE,) * ((clock.step // s.train_freq - begun // s.train_freq) * s.gradient_steps)
        due: list[Operation] = []
        for beat in beats(clock, s.learning_starts, s.train_freq, s.target_update_interval):
            if beat.update:
                due += [Operation.UPDATE] * s.gradient_steps
            if beat.target:
                replaced = self.evolution is not None and self.evolution.due(beat.step, state.members)
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
