"""SEARL: members act one after the other, are compared by their returns, and learn in a burst of updates."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from adaqn.agents.base import AgentState
from adaqn.agents.generations import Generations
from adaqn.agents.population import Population
from adaqn.agents.protocol import (
    Arrays,
    Clock,
    Event,
    Failure,
    Json,
    MemberEvaluation,
    Operation,
    PolicyWeights,
    Report,
)
from adaqn.agents.record import MemberRecord, is_in
from adaqn.agents.settings import SEARLSettings
from adaqn.agents.value import (
    MemberPrograms,
    ValueAgent,
    ValueState,
    learn_one_by_one,
    member_programs,
    next_value_alone,
    snapshot,
)
from adaqn.envs.environments import FinishedEpisode
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.selection import Selection
from adaqn.networks.ensemble import own_array
from adaqn.replay.memory import Need
from adaqn.replay.protocol import Batch


class Evaluation(NamedTuple):
    """The progress of a generation of K members."""

    member: int  # the member under evaluation
    steps: tuple[int, ...]  # [K] actions chosen by each
    total: tuple[float, ...]  # [K] sum of the returns of its episodes
    episodes: tuple[int, ...]  # [K] number of its episodes
    unreported: tuple[MemberEvaluation, ...] = ()  # episodes that have not been reported yet
    last_returns: tuple[float, ...] = ()  # mean returns in the previous generation, of members that finished an episode
    elite_return: float | None = None  # mean return of the elite in the previous generation

    @classmethod
    def begin(cls, size: int, last_returns: tuple[float, ...] = (), elite_return: float | None = None) -> Evaluation:
        """The start of a generation, with the first member."""
        return cls(0, (0,) * size, (0.0,) * size, (0,) * size, (), last_returns, elite_return)

    def with_step(self, member: int) -> Evaluation:
        """Count an action of a member."""
        return self._replace(steps=_plus(self.steps, member, 1))

    def with_episode(self, episode: MemberEvaluation) -> Evaluation:
        """Add an episode that a member finished."""
        return self._replace(
            total=_plus(self.total, episode.member, episode.total),
            episodes=_plus(self.episodes, episode.member, 1),
            unreported=(*self.unreported, episode),
        )

    @property
    def returns(self) -> tuple[float | None, ...]:
        """The mean return of each member, None if it finished no episode. [K]"""
        return tuple(total / n if n else None for total, n in zip(self.total, self.episodes, strict=True))

    @classmethod
    def from_json(cls, saved: Json) -> Evaluation:
        """Restore an evaluation from its `_asdict` saved as JSON."""
        values: dict[str, Any] = dict(saved)
        for name in ("steps", "total", "episodes", "last_returns"):
            values[name] = tuple(values[name])
        values["unreported"] = tuple(MemberEvaluation(*episode) for episode in values["unreported"])
        return cls(**values)


def _plus(values: tuple[Any, ...], place: int, amount: float) -> tuple[Any, ...]:
    return (*values[:place], values[place] + amount, *values[place + 1 :])


Members = AgentState[ValueState]


class SEARLState(NamedTuple):
    """The members, and the progress of their evaluation."""

    population: Members
    evaluation: Evaluation


class _SEARLMembers(ValueAgent[tuple[MemberPrograms, ...]]):
    """The ensemble, with one program per member."""

    def compile(self, members: tuple[Hyperparameters, ...]) -> tuple[MemberPrograms, ...]:
        """One program per member; equal architectures share it."""
        ensemble = self.ensemble_of(members)
        return tuple(member_programs(ensemble.alone(k)) for k in range(ensemble.size))


_add_losses = jax.jit(MemberRecord.add)


class SEARLAgent:
    """SEARL as an agent. The elite, the best member of the last generation, is its target member and its policy."""

    def __init__(
        self,
        settings: SEARLSettings,
        population: Population,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
    ) -> None:
        assert population.space is not None, "the algorithm requires one"
        self.settings = settings
        evolution = Generations(population.space, settings)
        self.members = _SEARLMembers(settings, population.members, observation_space, action_space, evolution)
        # ceil(M / K), so that a generation has at least M samples
        self.steps_per_member = -(-settings.generation_interval // len(population.members))

    @property
    def parameter_bytes(self) -> int:
        """The bytes of online and target parameters and of the optimizers' moments."""
        return self.members.parameter_bytes

    @property
    def memory_needs(self) -> tuple[Need, ...]:
        """Memory for all members and for one update of them."""
        return self.members.memory_needs

    @property
    def lanes(self) -> int:
        """The number of threads among which the members are divided."""
        return self.members.lanes

    def init(self, seed: int) -> SEARLState:
        """The state at step 0."""
        population = self.members.init(seed)
        return SEARLState(population, Evaluation.begin(len(population.members)))

    def plan(self, state: SEARLState, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """At the end of an episode: continue with the same member, go on to the next, or end the generation."""
        if clock.settled == clock.step or not ended[0]:
            return ()
        member, steps = state.evaluation.member, state.evaluation.steps
        sound = not state.population.learning.record.diverged[member]
        if sound and steps[member] < self.steps_per_member:
            return (Operation.EPISODE_END,)
        if _living_after(state, member):
            return (Operation.EPISODE_END, Operation.NEXT_MEMBER)
        return (Operation.EPISODE_END, *self._burst(sum(steps), clock), Operation.GENERATION)

    def _burst(self, samples: int, clock: Clock) -> list[Operation]:
        """An update per G samples of the generation that just ended, and a target update at every multiple of T."""
        due: list[Operation] = []
        if not self._may_learn(clock):
            return due
        first = clock.step - samples
        for sample in range(1, samples + 1):
            if sample % self.settings.train_freq == 0:
                due.append(Operation.UPDATE)
            # Without an update since the last target update, the targets would not change.
            changed = bool(due) and due[-1] is Operation.UPDATE
            if changed and (first + sample) % self.settings.target_update_interval == 0:
                due.append(Operation.TARGET_UPDATE)
        return due

    def _may_learn(self, clock: Clock) -> bool:
        """Whether the burst may run; a burst that comes too early is skipped, not postponed."""
        held = clock.step - clock.replay_start  # samples in the replay buffer, up to its capacity
        return held > self.settings.learning_starts and held >= self.settings.batch_size

    def act(
        self, state: SEARLState, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[SEARLState, np.ndarray | Failure]:
        """The greedy action of the member under evaluation.

        If it turns out to have diverged, the next non-diverged member finishes the episode, which counts for neither.
        """
        del clock, rng
        assert len(observations) == 1, "members are evaluated in one environment"
        population, first = state.population, state.evaluation.member
        size, learning = len(population.members), population.learning
        diverged = np.array(learning.record.diverged)
        programs = self.members.programs(population)
        for member in ((first + ahead) % size for ahead in range(size)):
            if diverged[member]:
                continue
            q = np.asarray(programs[member].values(learning.ensemble[member].parameters, observations))
            if np.isfinite(q).all():
                return state._replace(evaluation=state.evaluation.with_step(member)), q.argmax(axis=-1)
            diverged[member] = True
            record = learning.record._replace(diverged=jnp.asarray(diverged))
            learning = learning._replace(record=record)
            state = state._replace(population=population._replace(learning=learning))
        return state, self.members.failure(population)

    def episodes_ended(self, state: SEARLState, episodes: Sequence[FinishedEpisode], clock: Clock) -> SEARLState:
        """Credit the episodes to the member under evaluation, unless it has diverged."""
        evaluation, population = state.evaluation, state.population
        if population.learning.record.diverged[evaluation.member]:
            return state
        for episode in episodes:
            of_member = MemberEvaluation(
                clock.step, population.generation, evaluation.member, float(episode.total), int(episode.length)
            )
            evaluation = evaluation.with_episode(of_member)
        return state._replace(evaluation=evaluation)

    def update(
        self,
        state: SEARLState,
        operation: Operation,
        batch: Batch[np.ndarray],
        clock: Clock,
        rng: np.random.Generator,
        act_on: np.ndarray | None = None,
    ) -> tuple[SEARLState, np.ndarray | Failure | None]:
        """One gradient step of every member towards its own target; then `act` if requested."""
        del operation
        programs, learning = self.members.programs(state.population), state.population.learning

        def value_of(k: int) -> np.ndarray:
            value, usable = next_value_alone(programs[k], learning.target[k], None, batch.next_observation)
            # An unusable target makes the loss of only this member non-finite.
            return value if usable else np.full_like(value, np.nan)

        trained, losses = learn_one_by_one(programs, learning, batch, value_of, self.members.lanes)
        learning = learning._replace(ensemble=trained, record=_add_losses(learning.record, losses))
        state = _with_learning(state, learning)
        return (state, None) if act_on is None else self.act(state, act_on, clock, rng)

    def perform(
        self, state: SEARLState, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[SEARLState, tuple[Event, ...]]:
        """Report an episode, go on to the next member, update all targets, or replace members and update all targets.

        A target update within the burst chooses no member, so it emits no `TargetUpdate` event, and losses keep
        accumulating.
        """
        evaluation = state.evaluation
        if operation is Operation.EPISODE_END:
            return state._replace(evaluation=evaluation._replace(unreported=())), evaluation.unreported
        if operation is Operation.NEXT_MEMBER:
            following = _living_after(state, evaluation.member)[0]
            return state._replace(evaluation=evaluation._replace(member=following)), ()
        if operation is Operation.TARGET_UPDATE:
            return _with_learning(state, _with_new_targets(state.population.learning)), ()
        assert operation is Operation.GENERATION, "SEARL plans no other operations besides updates"
        return self._compete(state, clock, rng)

    def _compete(
        self, state: SEARLState, clock: Clock, rng: np.random.Generator
    ) -> tuple[SEARLState, tuple[Event, ...]]:
        """Run the tournament on the returns, replace members, and update all targets."""
        population, evaluation = state.population, state.evaluation
        diverged = self.members.diverged(population)
        if diverged.all():
            return state, (self.members.failure(population),)
        returns = [-np.inf if mean is None else mean for mean in evaluation.returns]
        fitness = np.where(diverged, np.inf, -np.array(returns))
        children = self.members.children(population, fitness, clock, rng)
        record = population.learning.record.mark_diverged(jnp.asarray(diverged))
        losses = jnp.where(record.diverged, jnp.inf, record.loss)
        elite = Selection(jnp.asarray([fitness.argmin()], jnp.int32), jnp.ones(1))
        now = is_in(elite.members, len(children)).astype(jnp.int32)
        newly_diverged = record.diverged & ~record.reported
        record = record._replace(
            loss=jnp.zeros_like(losses),
            compared_loss=losses,
            selections=record.selections + now,
            choices=record.choices + 1,
        ).reset_counters()
        learning = population.learning._replace(
            target=snapshot(tuple(group.parameters for group in population.learning.ensemble)),
            selected=elite,
            record=record,
        )
        population = population._replace(learning=learning)
        event = self.members.target_update(population, clock, losses, evaluation.steps, newly_diverged)
        replaced, generation = self.members.replace_members(
            population, children, self.settings.reset_weights, clock, rng
        )
        last_returns = tuple(mean for mean in evaluation.returns if mean is not None)
        elite_return = evaluation.returns[int(fitness.argmin())]
        following = Evaluation.begin(len(children), last_returns, elite_return)
        return SEARLState(replaced, following), (event, generation)

    def policy(
        self, state: SEARLState, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """The greedy actions of the elite; SEARL explores only through the diversity of its members."""
        del rng, clock
        learning, target = state.population.learning, self.members.target_member(state.population)
        values = self.members.programs(state.population)[target].values
        q = np.asarray(values(learning.ensemble[target].parameters, observations))
        if not np.isfinite(q).all():
            q = np.asarray(values(learning.target[target], observations))
        return q.argmax(axis=-1)

    def policy_weights(self, state: SEARLState) -> PolicyWeights:
        """The elite's network."""
        return self.members.policy_weights(state.population)

    def report(self, state: SEARLState, clock: Clock) -> Report:
        """Summarize the members, with the returns of the last generation once there is one."""
        report = self.members.report(state.population, clock)._replace(policy_return=state.evaluation.elite_return)
        returns = state.evaluation.last_returns
        if not returns:
            return report
        summaries = (("max", max), ("mean", statistics.fmean), ("min", min))
        own = {f"rollout/searl_return_{name}": of(returns) for name, of in summaries}
        return report._replace(metrics=report.metrics | own)

    def to_arrays(self, state: SEARLState) -> tuple[Arrays, Json]:
        """Convert the whole state to named arrays and JSON."""
        arrays, meta = self.members.to_arrays(state.population)
        return arrays, meta | {"evaluation": state.evaluation._asdict()}

    def saved_bytes(self, meta: Json) -> int:
        """The size of the saved members' parameters."""
        return self.members.saved_bytes(meta)

    def from_arrays(self, arrays: Arrays, meta: Json) -> SEARLState:
        """The inverse of `to_arrays`."""
        return SEARLState(self.members.from_arrays(arrays, meta), Evaluation.from_json(meta["evaluation"]))


def _with_learning(state: SEARLState, learning: ValueState) -> SEARLState:
    return state._replace(population=state.population._replace(learning=learning))


def _living_after(state: SEARLState, member: int) -> list[int]:
    diverged = np.asarray(state.population.learning.record.diverged)
    return [k for k in range(member + 1, len(diverged)) if not diverged[k]]


def _with_new_targets(learning: ValueState) -> ValueState:
    """Update the snapshot of every member; a diverged one keeps its last snapshot, which can still act."""
    diverged = np.asarray(learning.record.diverged)
    target = list(learning.target)
    for k, group in enumerate(learning.ensemble):
        parameters = np.asarray(group.parameters)
        if not diverged[k] and np.isfinite(parameters).all():
            target[k] = own_array(parameters)
    return learning._replace(target=tuple(target))
