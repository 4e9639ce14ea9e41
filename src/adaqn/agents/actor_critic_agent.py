"""The base class of AdaSAC and AdaTD3: acting, the update schedule of critics and actor, and reports of the pairs."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from typing import Any, ClassVar, TypeVar

import gymnasium
import jax
import numpy as np
from jax import Array

from adaqn.agents.actor_critic import ActorCriticState, Functions, Program, inherited_critics
from adaqn.agents.base import AgentState, EnsembleAgent, behaviour_epsilon, due_steps
from adaqn.agents.execution.actor_critic import ActorCriticPrograms, compiled_programs
from adaqn.agents.generations import Inheritance, evolution_of
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Event, Failure, Operation, Report
from adaqn.agents.settings import PairSettings
from adaqn.base.errors import ActorDiverged
from adaqn.envs.spaces import require_box_actions, require_vector_observations
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.networks.ensemble import Ensemble
from adaqn.networks.network import Network
from adaqn.replay.memory import Need
from adaqn.replay.protocol import Batch

Learning = TypeVar("Learning", bound=ActorCriticState)


class ActorCriticAgent(EnsembleAgent[Learning, ActorCriticPrograms]):
    """An agent with critics and an actor; actions are in [-1, 1], and the environments rescale them to their Box."""

    functions: ClassVar[Functions]
    outputs_per_action: ClassVar[int]  # actor outputs per action dimension
    actor_copies: ClassVar[int]  # arrays in the state with the size of the actor's parameters

    def __init__(
        self,
        settings: PairSettings,
        population: Population,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
    ) -> None:
        if settings.behaviour is None:
            default = "epsilon" if population.space is None else "inverse_loss"
            settings = dataclasses.replace(settings, behaviour=default)
        self.settings = settings
        observations = require_vector_observations(observation_space)
        self._actions = int(require_box_actions(action_space).shape[0])
        size = math.prod(observations.shape)
        evolution = evolution_of(population, settings)
        super().__init__(settings, population.members, (size + self._actions,), 1, evolution)
        self._actor = Network(settings.actor.architecture, (size,), self.outputs_per_action * self._actions)

    @property
    def parameter_bytes(self) -> int:
        """The bytes of the critics, and of the actor with its optimizer."""
        return super().parameter_bytes + self._actor_need.size

    @property
    def memory_needs(self) -> tuple[Need, ...]:
        """The needs of the critics and of the actor."""
        return *super().memory_needs, self._actor_need

    @property
    def _actor_need(self) -> Need:
        return Need("the actor", self.actor_copies * 4 * self._actor.size, "take smaller layers for actor_hidden")

    def _least_bytes(self, members: tuple[Hyperparameters, ...]) -> int:
        """The bytes of the critics' and the actor's parameters."""
        return super()._least_bytes(members) + 4 * self._actor.size

    def start(self, members: tuple[Hyperparameters, ...], seed: int) -> Learning:
        """Initialize the critics and the actor."""
        return self.functions.start(self.program(members), members, self.discounts(members), seed)

    def program(self, members: tuple[Hyperparameters, ...]) -> Program[Any]:
        """The static arguments of the compiled functions for these members."""
        return Program(self.ensemble_of(members), self._actor, self.settings)

    def ensemble_of(self, members: tuple[Hyperparameters, ...]) -> Ensemble:
        """The ensemble of these members, divided among the lanes of an update.

        Within a lane each member is its own group: the products of several equal members together are so large that
        XLA would leave them to its own thread, for which the lanes would wait.
        """
        whole = self.saved_ensemble(members)
        return whole if self.lanes == 1 else dataclasses.replace(whole, lanes=self.lanes, grouped=False)

    def saved_ensemble(self, members: tuple[Hyperparameters, ...]) -> Ensemble:
        """The ensemble of these members without lanes."""
        return super().ensemble_of(members)

    def compile(self, members: tuple[Hyperparameters, ...]) -> ActorCriticPrograms:
        """One program for all critics and the actor."""
        return compiled_programs(self.functions, self.program(members))

    def regrouped(self, learning: Learning, old: Ensemble, new: Ensemble) -> Learning:
        """The state with the groups of another ensemble of the same members."""
        if old == new:
            return learning
        targets = [np.asarray(old.member(learning.target, k)) for k in range(old.size)]
        critics = new.join(old.split(learning.ensemble))
        return learning._replace(ensemble=critics, target=new.parameters_in_groups(targets))

    def plan(self, state: AgentState[Learning], clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """Updates every `train_freq` steps, reports of the pairs and generations at their own intervals."""
        del ended
        s = self.settings
        due: list[Operation] = []
        for due_step in due_steps(clock, s.learning_starts, s.train_freq, s.selection_interval):
            if due_step.update:
                due += self.updates(due_step.step // s.train_freq)
            if due_step.target:
                due.append(Operation.TARGET_UPDATE)
            if self.evolution is not None and self.evolution.due(due_step.step, state.members):
                due.append(Operation.GENERATION)
        return tuple(due)

    def updates(self, number: int) -> list[Operation]:
        """The updates of the n-th training step: of the critics, the last one also of the actor if it is due."""
        s = self.settings
        last = Operation.UPDATE if number % s.policy_delay else Operation.ACTOR_UPDATE
        return [Operation.UPDATE] * (s.gradient_steps - 1) + [last]

    def act(
        self, state: AgentState[Learning], observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[AgentState[Learning], np.ndarray | Failure]:
        """Uniformly random actions until `learning_starts`, then the policy's actions with exploration noise."""
        shape = (len(observations), self._actions)
        if clock.step < self.settings.learning_starts:
            return state, rng.uniform(-1.0, 1.0, shape).astype(np.float32)
        noise = rng.standard_normal(shape, np.float32)
        return state, self._finite(self.programs(state).act(state.learning, observations, noise))

    @abstractmethod
    def draws(self, members: int, batch: Batch[np.ndarray], rng: np.random.Generator) -> Any:
        """Draw the random numbers of one update."""

    def update(
        self,
        state: AgentState[Learning],
        operation: Operation,
        batch: Batch[np.ndarray],
        clock: Clock,
        rng: np.random.Generator,
        act_on: np.ndarray | None = None,
    ) -> tuple[AgentState[Learning], np.ndarray | Failure | None]:
        """One gradient step of every critic, and of the actor if it is an `ACTOR_UPDATE`; then `act` if requested."""
        draws = self.draws(len(state.members), batch, rng)
        epsilon = np.asarray(behaviour_epsilon(self.settings, clock), np.float32)
        programs = self.programs(state)
        if act_on is None:
            updated = programs.update[operation](state.learning, batch, draws, epsilon)
            return state._replace(learning=updated), None
        noise = rng.standard_normal((len(act_on), self._actions), np.float32)
        if self.evolution is not None:
            # The update before a generation has no action after it. With both in one program, every generation would
            # compile two large programs, which takes longer than what one call per step saves.
            updated = programs.update[operation](state.learning, batch, draws, epsilon)
            return state._replace(learning=updated), self._finite(programs.act(updated, act_on, noise))
        program = programs.update_and_act[operation]
        updated, actions = program(state.learning, batch, draws, epsilon, act_on, noise)
        return state._replace(learning=updated), self._finite(actions)

    def perform(
        self, state: AgentState[Learning], operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[AgentState[Learning], tuple[Event, ...]]:
        """Report the pairs since the last report, or replace members."""
        if operation is Operation.GENERATION:
            return self._generation(state, clock, rng)
        assert operation is Operation.TARGET_UPDATE, "nothing else is planned besides updates"
        return self._report_pairs(state, clock)

    def _generation(
        self, state: AgentState[Learning], clock: Clock, rng: np.random.Generator
    ) -> tuple[AgentState[Learning], tuple[Event, ...]]:
        """Replace members according to their cumulated losses; the pair needs no update, every update chooses it."""
        diverged = self.diverged(state)
        if diverged.all():
            return state, (self.failure(state),)
        fitness = np.where(diverged, np.inf, np.asarray(state.learning.record.loss))
        children = self.children(state, fitness, clock, rng)
        replaced, generation = self.replace_members(state, children, self.settings.reset_weights, clock, rng)
        return replaced, (generation,)

    def inherited(self, learning: Learning, heirs: Inheritance, rng: np.random.Generator) -> Learning:
        """Online critics and Polyak targets of the next members."""
        members, target = inherited_critics(learning.ensemble, learning.target, heirs, rng)
        return learning._replace(ensemble=members, target=target)

    def _report_pairs(
        self, state: AgentState[Learning], clock: Clock
    ) -> tuple[AgentState[Learning], tuple[Event, ...]]:
        """Report how often each member was in the pairs, or the failure if learning is stuck."""
        if (failure := self._stuck(state)) is not None:
            return state, (failure,)
        learning, stretch = self.programs(state).report_interval(state.learning)
        state = state._replace(learning=learning)
        return state, (self.target_update(state, clock, *stretch),)

    def _stuck(self, state: AgentState[Learning]) -> Failure | None:
        """The failure of an actor that has diverged so far that updates no longer change anything, else None."""
        made, learned = jax.device_get(state.learning.counts)
        alive = not np.asarray(state.learning.record.diverged).all()
        if alive and ((made > 0) & (learned == 0)).any():
            return self._actor_failure(f"the last {made.max()} updates changed nothing")
        return None

    def policy(
        self, state: AgentState[Learning], observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """The actor's actions: without noise, or with exploration noise if a generator is given."""
        del clock
        programs = self.programs(state)
        if rng is None:
            return np.array(programs.mode(state.learning, observations))
        noise = rng.standard_normal((len(observations), self._actions), np.float32)
        return np.array(programs.act(state.learning, observations, noise))

    def report(self, state: AgentState[Learning], clock: Clock) -> Report:
        """Summarize the members, with scalars for the logs."""
        report = super().report(state, clock)
        own = {"ada/behaviour_rate": behaviour_epsilon(self.settings, clock)}
        return report._replace(metrics=report.metrics | own)

    def _finite(self, actions: Array | Any) -> np.ndarray | Failure:
        """The policy's actions [n, A], or a failure if they are not finite, so that no environment receives them."""
        chosen = np.asarray(actions)
        return chosen if np.isfinite(chosen).all() else self._actor_failure("its actions are not finite")

    def _actor_failure(self, why: str) -> Failure:
        rate = self.settings.actor_learning_rate
        error = ActorDiverged(f"the actor diverged ({why}): try a smaller actor_learning_rate than {rate:g}")
        return Failure(error)
