"""AdaSAC (Algorithm 2), RandSAC and SAC: one algorithm with different selection rules and numbers of members."""

from __future__ import annotations

import dataclasses
import math
from functools import lru_cache
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from jax import Array

from adaqn.agents.core.actor_critic import Stretch, inherited_critics
from adaqn.agents.core.actor_critic_agent import ActorCriticAgent
from adaqn.agents.core.ensemble_agent import AgentState, behaviour_epsilon
from adaqn.agents.core.generations import Inheritance, evolution_of
from adaqn.agents.core.population import Population
from adaqn.agents.events import Event, Failure
from adaqn.agents.protocol import Clock, Operation, PolicyWeights, Report
from adaqn.agents.sac import learning
from adaqn.agents.sac.learning import Draws, SACProgram, SACState
from adaqn.agents.sac.settings import SACSettings
from adaqn.compilation import transition
from adaqn.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Batch

State = AgentState[SACState]


class SACPrograms(NamedTuple):
    """The compiled functions for one ensemble and actor."""

    act: Any  # (state, observations [n, ...], noise [n, A]) -> actions [n, A]
    mode: Any  # (state, observations) -> actions
    update: dict[Operation, Any]  # (state, batch, draws, ε_b) -> state
    update_and_act: dict[Operation, Any]  # (state, batch, draws, ε_b, observations, noise) -> (state, actions)
    report_stretch: Any  # (state) -> (state, stretch)


@lru_cache(maxsize=32)
def compiled_programs(program: SACProgram) -> SACPrograms:
    """The programs; the same object for equal architectures and settings."""

    def update(state: SACState, batch: Batch[Array], draws: Draws, epsilon: Array, actor: bool) -> SACState:
        state = learning.update_critics(program, state, batch, draws)
        return learning.update_actor(program, state, batch.observation, draws, epsilon) if actor else state

    def updating(actor: bool) -> Any:
        return transition(lambda s, b, d, e: update(s, b, d, e, actor))

    def updating_and_acting(actor: bool) -> Any:
        def both(
            state: SACState, batch: Batch[Array], draws: Draws, epsilon: Array, observations: Array, noise: Array
        ) -> tuple[SACState, Array]:
            state = update(state, batch, draws, epsilon, actor)
            return state, learning.act(program, state, observations, noise)

        return transition(both)

    with_actor = {Operation.UPDATE: False, Operation.ACTOR_UPDATE: True}
    return SACPrograms(
        act=jax.jit(lambda s, o, n: learning.act(program, s, o, n)),
        mode=jax.jit(lambda s, o: learning.mode(program, s, o)),
        update={operation: updating(actor) for operation, actor in with_actor.items()},
        update_and_act={operation: updating_and_acting(actor) for operation, actor in with_actor.items()},
        report_stretch=transition(lambda s: learning.report_stretch(program, s)),
    )


class SACAgent(ActorCriticAgent[SACState, SACPrograms]):
    """Algorithm 2 as the loop sees it."""

    def __init__(
        self,
        settings: SACSettings,
        population: Population,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
    ) -> None:
        if settings.behaviour is None:
            default = "epsilon" if population.space is None else "inverse_loss"
            settings = dataclasses.replace(settings, behaviour=default)
        self.settings = settings
        evolution = evolution_of(population, settings)
        super().__init__(settings, population.members, observation_space, action_space, evolution, outputs_per_action=2)

    def start(self, members: tuple[Hyperparameters, ...], seed: int) -> SACState:
        """Critics and an actor with fresh weights."""
        return learning.start(self._program(members), members, self.discounts(members), seed)

    def _program(self, members: tuple[Hyperparameters, ...]) -> SACProgram:
        return SACProgram(self.ensemble_of(members), self._actor, self.settings)

    def compile(self, members: tuple[Hyperparameters, ...]) -> SACPrograms:
        """One program for all critics and the actor."""
        return compiled_programs(self._program(members))

    def act(
        self, state: State, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[State, np.ndarray | Failure]:
        """Uniform actions until learning starts, then those of the policy."""
        shape = (len(observations), self._actions)
        if clock.step < self.settings.learning_starts:
            return state, rng.uniform(-1.0, 1.0, shape).astype(np.float32)
        noise = rng.standard_normal(shape, np.float32)
        return state, self._finite(self.programs(state).act(state.learning, observations, noise))

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
        draws = self._draws(state, batch, rng)
        epsilon = np.asarray(behaviour_epsilon(self.settings, clock), np.float32)
        programs = self.programs(state)
        if act_on is None:
            updated = programs.update[operation](state.learning, batch, draws, epsilon)
            return state._replace(learning=updated), None
        noise = rng.standard_normal((len(act_on), self._actions), np.float32)
        program = programs.update_and_act[operation]
        updated, actions = program(state.learning, batch, draws, epsilon, act_on, noise)
        return state._replace(learning=updated), self._finite(actions)

    def _draws(self, state: State, batch: Batch[np.ndarray], rng: np.random.Generator) -> Draws:
        members = len(state.members)
        next_noise, noise = rng.standard_normal((2, len(batch.action), self._actions), np.float32)
        uniforms = rng.random(2 * members + 1, np.float32)
        return Draws(next_noise, noise, uniforms[:members], uniforms[members:])

    def perform(
        self, state: State, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[State, tuple[Event, ...]]:
        """Report the pairs of the last stretch, or replace members."""
        if operation is Operation.GENERATION:
            return self._generation(state, self.settings.reset_weights, clock, rng)
        assert operation is Operation.TARGET_UPDATE, "SAC plans nothing else besides updates"
        return self._report_pairs(state, clock)

    def report_stretch(self, state: State) -> tuple[SACState, Stretch]:
        """What the updates since the last report did."""
        return self.programs(state).report_stretch(state.learning)

    def inherited(self, learning: SACState, heirs: Inheritance, rng: np.random.Generator) -> SACState:
        """Online critics and Polyak targets of the next members."""
        members, target = inherited_critics(learning.ensemble, learning.target, heirs, rng)
        return learning._replace(ensemble=members, target=target)

    def policy(
        self, state: State, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """The most likely actions (tanh of the mean); with a generator, drawn ones."""
        del clock
        programs = self.programs(state)
        if rng is None:
            return np.array(programs.mode(state.learning, observations))
        noise = rng.standard_normal((len(observations), self._actions), np.float32)
        return np.array(programs.act(state.learning, observations, noise))

    def policy_weights(self, state: State) -> PolicyWeights:
        """The actor, which never takes a step that is not finite."""
        parameters = np.array(state.learning.actor.parameters)
        return PolicyWeights("tanh-gaussian", self._actor, parameters, self.settings.actor)

    def report(self, state: State, clock: Clock) -> Report:
        """The members as they stand, and scalars for the logs."""
        report = super().report(state, clock)
        log_alpha, entropy = jax.device_get((state.learning.log_alpha.parameters, state.learning.entropy))
        own = {
            "train/ent_coef": math.exp(float(log_alpha)),
            "train/entropy": float(entropy),
            "ada/behaviour_rate": behaviour_epsilon(self.settings, clock),
        }
        return report._replace(metrics=report.metrics | own)
