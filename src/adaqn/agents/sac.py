"""AdaSAC (Algorithm 2), RandSAC and SAC: one algorithm with different selection rules and numbers of members."""

from __future__ import annotations

import dataclasses
import math
from functools import lru_cache
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents.catalogue import Population, as_population
from adaqn.agents.ensemble_agent import EnsembleAgent, EnsembleRun
from adaqn.agents.events import Event
from adaqn.agents.evolving import Inheritance, evolution_of, next_members
from adaqn.agents.protocol import Clock, Operation, PolicyWeights
from adaqn.agents.sac_learning import Draws, SACProgram, SACState, act, report, start, update_actor, update_critics
from adaqn.agents.sac_settings import SACSettings
from adaqn.compilation import transition
from adaqn.envs.spaces import require_box_actions, require_vector_observations
from adaqn.errors import ActorDiverged
from adaqn.hyperparameters import Hyperparameters
from adaqn.networks import squashed_gaussian
from adaqn.networks.network import Network
from adaqn.replay.memory import Need
from adaqn.replay.protocol import Batch


class Programs(NamedTuple):
    """The compiled functions for one ensemble and actor."""

    act: Any  # (state, observations [n, ...], noise [n, A]) -> actions [n, A]
    mode: Any  # (state, observations) -> actions
    update: dict[Operation, Any]  # (state, batch, draws, ε_b) -> state
    update_and_act: dict[Operation, Any]  # (state, batch, draws, ε_b, observations, noise) -> (state, actions)
    report: Any  # (state) -> (state, losses, shares in the target, shares in the behaviour, newly diverged), [K] each


@lru_cache(maxsize=32)
def compiled_programs(program: SACProgram) -> Programs:
    """The programs; the same object for equal architectures and settings."""

    def update(state: SACState, batch: Batch[Array], draws: Draws, epsilon: Array, actor: bool) -> SACState:
        state = update_critics(program, state, batch, draws)
        return update_actor(program, state, batch.observation, draws, epsilon) if actor else state

    def updating(actor: bool) -> Any:
        return transition(lambda s, b, d, e: update(s, b, d, e, actor))

    def updating_and_acting(actor: bool) -> Any:
        def both(
            state: SACState, batch: Batch[Array], draws: Draws, epsilon: Array, observations: Array, noise: Array
        ) -> tuple[SACState, Array]:
            state = update(state, batch, draws, epsilon, actor)
            return state, act(program, state, observations, noise)

        return transition(both)

    def mode(state: SACState, observations: Array) -> Array:
        actor = program.actor
        return squashed_gaussian.mode(actor.apply(actor.unravel(state.actor.parameters), observations))

    with_actor = {Operation.UPDATE: False, Operation.ACTOR_UPDATE: True}
    return Programs(
        act=jax.jit(lambda s, o, n: act(program, s, o, n)),
        mode=jax.jit(mode),
        update={operation: updating(actor) for operation, actor in with_actor.items()},
        update_and_act={operation: updating_and_acting(actor) for operation, actor in with_actor.items()},
        report=transition(lambda s: report(program, s)),
    )


class SACAgent(EnsembleAgent):
    """Algorithm 2 as the loop sees it. Actions are in [-1, 1]; the environments rescale them to their Box."""

    settings: SACSettings
    sums_up_selections = True

    def __init__(
        self,
        settings: SACSettings,
        population: Population | tuple[Hyperparameters, ...],
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
    ) -> None:
        population = as_population(population)
        observations = require_vector_observations(observation_space)
        self._actions = int(require_box_actions(action_space).shape[0])
        size = math.prod(observations.shape)
        if settings.behaviour is None:
            default = "epsilon" if population.space is None else "inverse_loss"
            settings = dataclasses.replace(settings, behaviour=default)
        evolution = evolution_of(population, settings)
        super().__init__(settings, population.members, (size + self._actions,), 1, evolution)
        self._actor = Network(settings.actor.architecture, (size,), 2 * self._actions)

    @property
    def parameter_bytes(self) -> int:
        """Those of the critics, and the actor with its two moments."""
        return super().parameter_bytes + 3 * 4 * self._actor.size

    @property
    def memory_needs(self) -> tuple[Need, ...]:
        """Those of the critics and of the actor."""
        actor = Need("the actor", 3 * 4 * self._actor.size, "take smaller layers for actor_hidden")
        return *super().memory_needs, actor

    def least_bytes(self, meta: dict[str, Any]) -> int:
        """Those of the critics, and the actor."""
        return super().least_bytes(meta) + 4 * self._actor.size

    def _start(self, members: tuple[Hyperparameters, ...], seed: int) -> EnsembleRun:
        learning = start(self._program(members), members, self.discounts(members), seed)
        return EnsembleRun(members, self._programs(members), learning)

    def _program(self, members: tuple[Hyperparameters, ...]) -> SACProgram:
        return SACProgram(self.ensemble_of(members), self._actor, self.settings)

    def _programs(self, members: tuple[Hyperparameters, ...]) -> Programs:
        return compiled_programs(self._program(members))

    def plan(self, state: EnsembleRun, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """Updates of the critics, the last one with the actor's, every G steps; a report of the pairs now and then."""
        del ended
        s = self.settings
        due: list[Operation] = []
        first = clock.began + s.learning_starts
        for step in range(max(clock.settled, first) + 1, clock.step + 1):
            since_update = step % s.train_freq
            if since_update == 0:
                with_actor = step // s.train_freq % s.policy_delay == 0
                due += [Operation.UPDATE] * (s.gradient_steps - 1)
                due.append(Operation.ACTOR_UPDATE if with_actor else Operation.UPDATE)
            updated = step - since_update > max(first, step - s.selection_interval)
            if step % s.selection_interval == 0 and updated:
                due.append(Operation.TARGET_UPDATE)
            if self.evolution is not None and self.evolution.due(step, state.members):
                due.append(Operation.GENERATION)
        return tuple(due)

    def act(
        self, state: EnsembleRun, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[EnsembleRun, np.ndarray]:
        """Uniform actions until learning starts, then those of the policy."""
        shape = (len(observations), self._actions)
        if clock.step < self.settings.learning_starts:
            return state, rng.uniform(-1.0, 1.0, shape).astype(np.float32)
        actions = state.programs.act(state.learning, observations, rng.standard_normal(shape, np.float32))
        return state, self._finite(actions)

    def update(
        self,
        state: EnsembleRun,
        operation: Operation,
        batch: Batch[np.ndarray],
        clock: Clock,
        rng: np.random.Generator,
    ) -> EnsembleRun:
        """One gradient step of every critic, and of the actor if the operation says so."""
        program = state.programs.update[operation]
        return state._replace(learning=program(state.learning, batch, *self._draws(state, batch, clock, rng)))

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
        draws, epsilon = self._draws(state, batch, clock, rng)
        noise = rng.standard_normal((len(observations), self._actions), np.float32)
        program = state.programs.update_and_act[operation]
        learning, actions = program(state.learning, batch, draws, epsilon, observations, noise)
        return state._replace(learning=learning), self._finite(actions)

    def _draws(
        self, state: EnsembleRun, batch: Batch[np.ndarray], clock: Clock, rng: np.random.Generator
    ) -> tuple[Draws, np.ndarray]:
        size, members = (2, len(batch.action), self._actions), len(state.members)
        next_noise, noise = rng.standard_normal(size, np.float32)
        uniforms = rng.random(2 * members + 1, np.float32)
        draws = Draws(next_noise, noise, uniforms[:members], uniforms[members:])
        return draws, np.asarray(self.behaviour_epsilon(clock), np.float32)

    def perform(
        self, state: EnsembleRun, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[EnsembleRun, tuple[Event, ...]]:
        """Report the pairs of the last stretch, or replace members; the pair is chosen anew in every update."""
        if operation is Operation.GENERATION:
            replaced, generation = self.replace_members(state, self.children(state, clock, rng), clock, rng)
            return replaced, (generation,)
        assert operation is Operation.TARGET_UPDATE, "SAC plans nothing else besides updates"
        self._require_learning(state)
        learning, losses, selected, acted, newly_diverged = state.programs.report(state.learning)
        state = state._replace(learning=learning)
        return state, (self.target_update(state, clock, losses, acted, newly_diverged, selected),)

    def _require_learning(self, state: EnsembleRun) -> None:
        """Raise if the actor has come to where neither it nor the critics can learn any more."""
        updates, learned = jax.device_get((state.learning.updates_since, state.learning.learned_since))
        alive = not np.asarray(state.learning.diverged).all()
        if alive and ((updates > 0) & (learned == 0)).any():
            raise self._diverged(f"the last {updates.max()} updates changed nothing")

    def _finite(self, actions: Array) -> np.ndarray:
        """The actions of the policy; it is said here, and not by the environment, if they are none. [n, A]"""
        chosen = np.asarray(actions)
        if not np.isfinite(chosen).all():
            raise self._diverged("its actions are not finite")
        return chosen

    def _diverged(self, why: str) -> ActorDiverged:
        rate = self.settings.actor_learning_rate
        return ActorDiverged(f"the actor diverged ({why}): try a smaller actor_learning_rate than {rate:g}")

    def _inherited(self, state: EnsembleRun, heirs: Inheritance, rng: np.random.Generator) -> SACState:
        """Online critics, and Polyak targets that are inherited as the weights are.

        A member of the pair that is replaced is replaced by another's child with that one's loss, until the next
        update chooses again.
        """
        learning = state.learning
        members = heirs.new.join(next_members(rng, heirs.old.split(learning.ensemble), heirs))
        targets = [np.asarray(heirs.old.member(learning.target, k)) for k in range(heirs.old.size)]
        inherited = [heirs.parameters(slot, targets) for slot in range(heirs.new.size)]
        target = tuple(jnp.asarray(np.stack([inherited[k] for k in group])) for group in heirs.new.groups)
        return learning._replace(ensemble=members, target=target)

    def policy(
        self, state: EnsembleRun, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """The most likely actions (tanh of the mean); with a generator, drawn ones."""
        del clock
        if rng is None:
            return np.array(state.programs.mode(state.learning, observations))
        noise = rng.standard_normal((len(observations), self._actions), np.float32)
        return np.array(state.programs.act(state.learning, observations, noise))

    def policy_weights(self, state: EnsembleRun) -> PolicyWeights:
        """The actor, which never takes a step that is not finite."""
        parameters = np.array(state.learning.actor.parameters)
        return PolicyWeights("tanh-gaussian", self._actor, parameters, self.settings.actor)

    def metrics(self, state: EnsembleRun, clock: Clock) -> dict[str, float]:
        """Scalars for the logs."""
        learning = state.learning
        log_alpha, entropy = jax.device_get((learning.log_alpha.parameters, learning.entropy))
        own = {
            "train/ent_coef": math.exp(float(log_alpha)),
            "train/entropy": float(entropy),
            "ada/behaviour_rate": self.behaviour_epsilon(clock),
        }
        return super().metrics(state, clock) | own
