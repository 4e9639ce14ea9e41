"""AdaDQN (Algorithm 1), its ablations and DQN: one algorithm with different selection rules and numbers of members."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from jax import Array

from adaqn.agents.catalogue import Population, as_population
from adaqn.agents.dqn_programs import StagedPrograms, fused_programs
from adaqn.agents.dqn_settings import DQNSettings
from adaqn.agents.ensemble_agent import EnsembleRun
from adaqn.agents.events import Event
from adaqn.agents.evolving import evolution_of
from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.schedules import linear
from adaqn.agents.value_agent import ValueAgent
from adaqn.errors import UserError
from adaqn.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Batch


class DQNAgent(ValueAgent):
    """Algorithm 1 as the loop sees it."""

    settings: DQNSettings

    def __init__(
        self,
        settings: DQNSettings,
        population: Population | tuple[Hyperparameters, ...],
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
    ) -> None:
        population = as_population(population)
        interval = settings.target_update_interval
        if population.space is not None and settings.generation_interval % interval:
            raise UserError(
                f"generation_interval must be a multiple of target_update_interval, {interval}, "
                f"but it is {settings.generation_interval}"
            )
        evolution = evolution_of(population, settings)
        super().__init__(settings, population.members, observation_space, action_space, evolution)
        default = "epsilon" if population.space is None else "inverse_loss"
        self.behaviour = settings.behaviour or default

    def _programs(self, members: tuple[Hyperparameters, ...]) -> Any:
        make = fused_programs if self.evolution is None else StagedPrograms
        return make(self.ensemble_of(members), self.settings.selection, self.behaviour)

    def plan(self, state: EnsembleRun, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """An update every G steps, a target update every T steps (lines 6 and 12), once learning has started."""
        del ended
        s = self.settings
        due: list[Operation] = []
        first = clock.began + s.learning_starts
        for step in range(max(clock.settled, first) + 1, clock.step + 1):
            since_update = step % s.train_freq
            if since_update == 0:
                due += [Operation.UPDATE] * s.gradient_steps
            # Without an update since the last target update, there are no losses to choose by.
            updated = step - since_update > max(first, step - s.target_update_interval)
            if step % s.target_update_interval == 0 and updated:
                replaced = self.evolution is not None and self.evolution.due(step, state.members)
                due.append(Operation.GENERATION if replaced else Operation.TARGET_UPDATE)
        return tuple(due)

    def exploration(self, clock: Clock) -> tuple[float, float]:
        """ε and ε_b at this step."""
        s = self.settings
        epsilon = linear(s.exploration_initial_eps, s.exploration_final_eps, s.exploration_steps, clock.step)
        return epsilon, self.behaviour_epsilon(clock)

    def act(
        self, state: EnsembleRun, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[EnsembleRun, np.ndarray]:
        """ε-greedy actions of the behaviour members."""
        epsilons = np.asarray(self.exploration(clock), np.float32)
        uniforms = rng.random((len(observations), 3 + len(state.members)), np.float32)
        learning, actions = state.programs.act(state.learning, observations, uniforms, epsilons)
        return self._with_sound_actions(state._replace(learning=learning), actions, observations, clock, rng)

    def update(
        self,
        state: EnsembleRun,
        operation: Operation,
        batch: Batch[np.ndarray],
        clock: Clock,
        rng: np.random.Generator,
    ) -> EnsembleRun:
        """One gradient step of every member."""
        del operation, clock, rng
        return state._replace(learning=state.programs.update(state.learning, batch))

    def update_and_act(
        self,
        state: EnsembleRun,
        operation: Operation,
        batch: Batch[np.ndarray],
        observations: np.ndarray,
        clock: Clock,
        rng: np.random.Generator,
    ) -> tuple[EnsembleRun, np.ndarray]:
        """`update`, then `act`, in one dispatch."""
        del operation
        epsilons = np.asarray(self.exploration(clock), np.float32)
        uniforms = rng.random((len(observations), 3 + len(state.members)), np.float32)
        learning, actions = state.programs.update_and_act(state.learning, batch, observations, uniforms, epsilons)
        return self._with_sound_actions(state._replace(learning=learning), actions, observations, clock, rng)

    def _with_sound_actions(
        self, state: EnsembleRun, actions: Array, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[EnsembleRun, np.ndarray]:
        """Draw again if a member that was drawn turned out to have diverged."""
        chosen = np.asarray(actions)
        if chosen[0] >= 0:
            return state, chosen
        self.require_living(state)
        return self.act(state, observations, clock, rng)

    def perform(
        self, state: EnsembleRun, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[EnsembleRun, tuple[Event, ...]]:
        """Renew the target, and in a generation replace members.

        The losses since the last target update are the fitness; the next target is chosen by the same losses among
        those who stay.
        """
        uniforms = rng.random(len(state.members), np.float32)
        if operation is Operation.TARGET_UPDATE:
            return self._renewed(state, clock, state.programs.update_target(state.learning, uniforms))
        assert operation is Operation.GENERATION, "DQN plans nothing else besides updates"
        children = self.children(state, clock, rng)
        stays = np.array([child.mutation is None for child in children])
        candidates = stays if stays.any() else np.ones_like(stays)  # a schedule replaces the only one there is
        renewed, events = self._renewed(
            state, clock, state.programs.update_target(state.learning, uniforms, candidates)
        )
        replaced, generation = self.replace_members(renewed, children, clock, rng)
        return replaced, (*events, generation)

    def policy(
        self, state: EnsembleRun, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """The greedy actions of the target member; with a generator, random ones with probability ε."""
        actions = np.array(state.programs.greedy(state.learning, observations))
        if rng is not None:
            explore = rng.random(len(actions)) < self.exploration(clock)[0]
            actions[explore] = rng.integers(self._outputs, size=int(explore.sum()))
        return actions

    def metrics(self, state: EnsembleRun, clock: Clock) -> dict[str, float]:
        """Scalars for the logs."""
        epsilon, behaviour_epsilon = self.exploration(clock)
        own = {"rollout/exploration_rate": epsilon, "ada/behaviour_rate": behaviour_epsilon}
        return super().metrics(state, clock) | own
