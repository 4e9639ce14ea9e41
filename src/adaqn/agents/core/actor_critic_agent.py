"""What AdaSAC and AdaTD3 share as the loop sees them: the rhythm of critics and actor, and the reports of pairs."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Protocol, TypeVar

import gymnasium
import jax
import numpy as np
from jax import Array

from adaqn.agents.core.actor_critic import Stretch, UpdateCounts
from adaqn.agents.core.actor_settings import ActorSettings
from adaqn.agents.core.ensemble_agent import AgentState, EnsembleAgent, LearningState, Programs
from adaqn.agents.core.generations import Evolution
from adaqn.agents.core.rhythm import beats
from adaqn.agents.events import Event, Failure
from adaqn.agents.protocol import Clock, Operation
from adaqn.envs.gym_spaces import require_box_actions, require_vector_observations
from adaqn.errors import ActorDiverged
from adaqn.hyperparameters import Hyperparameters
from adaqn.networks.network import Network
from adaqn.replay.memory import Need


class ActorCriticState(LearningState, Protocol):
    """What the arrays of both have in common."""

    @property
    def counts(self) -> UpdateCounts: ...


Learning = TypeVar("Learning", bound=ActorCriticState)


class ActorCriticAgent(EnsembleAgent[Learning, Programs]):
    """Critics of continuous actions and an actor, whose actions in [-1, 1] the environments rescale to their Box."""

    def __init__(
        self,
        settings: ActorSettings,
        members: tuple[Hyperparameters, ...],
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        evolution: Evolution | None,
        outputs_per_action: int,
    ) -> None:
        observations = require_vector_observations(observation_space)
        self._actions = int(require_box_actions(action_space).shape[0])
        size = math.prod(observations.shape)
        super().__init__(settings, members, (size + self._actions,), 1, evolution)
        self._actor_settings = settings
        self._actor = Network(settings.actor.architecture, (size,), outputs_per_action * self._actions)

    @property
    def parameter_bytes(self) -> int:
        """Those of the critics, and the actor with its two moments."""
        return super().parameter_bytes + 3 * 4 * self._actor.size

    @property
    def memory_needs(self) -> tuple[Need, ...]:
        """Those of the critics and of the actor."""
        actor = Need("the actor", 3 * 4 * self._actor.size, "take smaller layers for actor_hidden")
        return *super().memory_needs, actor

    def _least_bytes(self, members: tuple[Hyperparameters, ...]) -> int:
        """Those of the critics, and the actor."""
        return super()._least_bytes(members) + 4 * self._actor.size

    def plan(self, state: AgentState[Learning], clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """Updates of the critics every G steps, the last one with the actor's; now and then a report of the pairs."""
        del ended
        s = self._actor_settings
        due: list[Operation] = []
        for beat in beats(clock, s.learning_starts, s.train_freq, s.selection_interval):
            if beat.update:
                with_actor = beat.step // s.train_freq % s.policy_delay == 0
                due += [Operation.UPDATE] * (s.gradient_steps - 1)
                due.append(Operation.ACTOR_UPDATE if with_actor else Operation.UPDATE)
            if beat.target:
                due.append(Operation.TARGET_UPDATE)
            if self.evolution is not None and self.evolution.due(beat.step, state.members):
                due.append(Operation.GENERATION)
        return tuple(due)

    @abstractmethod
    def report_stretch(self, state: AgentState[Learning]) -> tuple[Learning, Stretch]:
        """What the updates since the last report did, and the state at the beginning of the next stretch."""

    def _generation(
        self, state: AgentState[Learning], reset_weights: bool, clock: Clock, rng: np.random.Generator
    ) -> tuple[AgentState[Learning], tuple[Event, ...]]:
        """Replace members by their cumulated losses; the pair is chosen anew in every update."""
        diverged = self.diverged(state)
        if diverged.all():
            return state, (self.failure(state),)
        fitness = np.where(diverged, np.inf, np.asarray(state.learning.record.loss))
        children = self.children(state, fitness, clock, rng)
        replaced, generation = self.replace_members(state, children, reset_weights, clock, rng)
        return replaced, (generation,)

    def _report_pairs(
        self, state: AgentState[Learning], clock: Clock
    ) -> tuple[AgentState[Learning], tuple[Event, ...]]:
        """Tell how often each member was in the pairs, unless nothing can be learned any more."""
        if (failure := self._stuck(state)) is not None:
            return state, (failure,)
        learning, stretch = self.report_stretch(state)
        state = state._replace(learning=learning)
        return state, (self.target_update(state, clock, *stretch),)

    def _stuck(self, state: AgentState[Learning]) -> Failure | None:
        """The failure of an actor that has come to where neither it nor the critics can learn any more."""
        made, learned = jax.device_get(state.learning.counts)
        alive = not np.asarray(state.learning.record.diverged).all()
        if alive and ((made > 0) & (learned == 0)).any():
            return self._actor_failure(f"the last {made.max()} updates changed nothing")
        return None

    def _finite(self, actions: Array | Any) -> np.ndarray | Failure:
        """The actions of the policy [n, A]; that they are none is said here, and not by the environment."""
        chosen = np.asarray(actions)
        return chosen if np.isfinite(chosen).all() else self._actor_failure("its actions are not finite")

    def _actor_failure(self, why: str) -> Failure:
        rate = self._actor_settings.actor_learning_rate
        error = ActorDiverged(f"the actor diverged ({why}): try a smaller actor_learning_rate than {rate:g}")
        return Failure(error)
