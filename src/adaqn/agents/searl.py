"""SEARL for DQN, the paper's baseline in infinite spaces: members are compared by the returns that each gets alone.

A generation goes like this, in the order of the authors' code; the paper's words have members learn after they were
compared, not before. One member after the other acts greedily, for at least M / K steps and until its episode
ends; all samples go into one replay buffer. Then every member learns in a burst of one update for every G samples,
from a target network of its own. Then the tournament on the returns, children in the places of those who go, and a
new target for everybody.

G and T count environment steps, as for AdaDQN; the paper gives both algorithms the same values. A burst goes through
the steps of its generation once more, makes an update at every G-th and renews all targets at every multiple of T: with
G = 1 every T updates, with G = 4 every T / 4. T is counted over the whole run, as for AdaDQN, so the renewal after a
generation comes in addition and does not shift the others. A run that is interrupted in a burst saves the operations
that are left, and renewals are among them.

Where episodes do not end, nothing of this happens: the first member acts for ever.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import jax.numpy as jnp
import numpy as np

from adaqn.agents.catalogue import Population
from adaqn.agents.dqn_programs import StagedPrograms
from adaqn.agents.ensemble_agent import EnsembleRun
from adaqn.agents.events import Event, MemberEvaluation
from adaqn.agents.evolving import Generations
from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.searl_settings import SEARLSettings
from adaqn.agents.value_agent import ValueAgent
from adaqn.envs.environments import FinishedEpisode
from adaqn.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Batch


class Evaluation(NamedTuple):
    """How far a generation is: whose turn it is, and what each of K members did so far."""

    member: int
    steps: tuple[int, ...]  # [K] that it chose the action of
    total: tuple[float, ...]  # [K] sum of the returns of its episodes
    episodes: tuple[int, ...]  # [K] how many these were
    unreported: tuple[MemberEvaluation, ...] = ()  # episodes that nobody was told of yet
    last_returns: tuple[float, ...] = ()  # mean returns in the generation before, of those who had any
    elite_return: float | None = None  # mean return of the elite in the generation before

    @classmethod
    def begin(cls, size: int, last_returns: tuple[float, ...] = (), elite_return: float | None = None) -> Evaluation:
        """Nobody did anything yet, and it is the first member's turn."""
        return cls(0, (0,) * size, (0.0,) * size, (0,) * size, (), last_returns, elite_return)

    def with_step(self, member: int) -> Evaluation:
        """A member chose an action."""
        return self._replace(steps=_plus(self.steps, member, 1))

    def with_episode(self, episode: MemberEvaluation) -> Evaluation:
        """A member finished an episode."""
        return self._replace(
            total=_plus(self.total, episode.member, episode.total),
            episodes=_plus(self.episodes, episode.member, 1),
            unreported=(*self.unreported, episode),
        )

    @property
    def returns(self) -> tuple[float | None, ...]:
        """The mean return of each member, None where it finished no episode. [K]"""
        return tuple(total / n if n else None for total, n in zip(self.total, self.episodes, strict=True))


class SEARLAgent(ValueAgent):
    """SEARL as the loop sees it. The elite, the best of the last generation, is its target member and its policy."""

    settings: SEARLSettings
    extra_tables = ("evaluations",)

    def __init__(
        self,
        settings: SEARLSettings,
        population: Population,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
    ) -> None:
        assert population.space is not None, "the algorithm requires one"
        evolution = Generations(population.space, settings)
        super().__init__(settings, population.members, observation_space, action_space, evolution)
        self.least_steps = -(-settings.generation_interval // len(population.members))  # ceil(M / K) for each member

    def _start(self, members: tuple[Hyperparameters, ...], seed: int) -> EnsembleRun:
        return super()._start(members, seed)._replace(evaluation=Evaluation.begin(len(members)))

    def _programs(self, members: tuple[Hyperparameters, ...]) -> StagedPrograms:
        # The rule for the target is left one candidate, and that for behaviour has no use.
        return StagedPrograms(self.ensemble_of(members), "lowest", "epsilon")

    def plan(self, state: EnsembleRun, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """At the end of an episode: the same member goes on, or the next one does, or all learn and compete."""
        evaluation: Evaluation = state.evaluation
        if clock.settled == clock.step or not ended[0]:
            return ()
        sound = not state.learning.diverged[evaluation.member]
        if sound and evaluation.steps[evaluation.member] < self.least_steps:
            return (Operation.EPISODE_END,)
        if self._living_after(state, evaluation.member):
            return (Operation.EPISODE_END, Operation.NEXT_MEMBER)
        return (Operation.EPISODE_END, *self._burst(sum(evaluation.steps), clock), Operation.GENERATION)

    def _burst(self, samples: int, clock: Clock) -> list[Operation]:
        """An update for every G samples of the generation that just ended, and new targets at every multiple of T."""
        due: list[Operation] = []
        if not self._may_learn(clock):
            return due
        first = clock.step - samples
        for sample in range(1, samples + 1):
            if sample % self.settings.train_freq == 0:
                due.append(Operation.UPDATE)
            # Without an update since the last renewal, the targets are what they would become.
            changed = bool(due) and due[-1] is Operation.UPDATE
            if changed and (first + sample) % self.settings.target_update_interval == 0:
                due.append(Operation.TARGET_UPDATE)
        return due

    def _may_learn(self, clock: Clock) -> bool:
        """A burst that comes too early is left out, and not made up for."""
        held = clock.step - clock.began  # samples, as far as the replay buffer holds so many
        return held > self.settings.learning_starts and held >= self.settings.batch_size

    def _living_after(self, state: EnsembleRun, member: int) -> list[int]:
        diverged = np.asarray(state.learning.diverged)
        return [k for k in range(member + 1, len(state.members)) if not diverged[k]]

    def act(
        self, state: EnsembleRun, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[EnsembleRun, np.ndarray]:
        """The greedy action of the member whose turn it is.

        Should it turn out to have diverged, the next one that lives takes the episode to its end, which counts for
        nobody.
        """
        del clock, rng
        assert len(observations) == 1, "members are evaluated in one environment"
        size, first = len(state.members), state.evaluation.member
        diverged = np.array(state.learning.diverged)
        for member in ((first + ahead) % size for ahead in range(size)):
            if diverged[member]:
                continue
            q = np.asarray(state.programs.value(state.learning, member, observations))
            if np.isfinite(q).all():
                return state._replace(evaluation=state.evaluation.with_step(member)), q.argmax(axis=-1)
            diverged[member] = True
            state = state._replace(learning=state.learning._replace(diverged=jnp.asarray(diverged)))
        self.require_living(state)
        raise AssertionError("a living member has values that are finite")

    def episodes_ended(self, state: EnsembleRun, episodes: Sequence[FinishedEpisode], clock: Clock) -> EnsembleRun:
        """The episode belongs to the member whose turn it is, unless that one diverged in it."""
        evaluation: Evaluation = state.evaluation
        if state.learning.diverged[evaluation.member]:
            return state
        for episode in episodes:
            of_member = MemberEvaluation(
                clock.step, state.generation, evaluation.member, float(episode.total), int(episode.length)
            )
            evaluation = evaluation.with_episode(of_member)
        return state._replace(evaluation=evaluation)

    def update(
        self,
        state: EnsembleRun,
        operation: Operation,
        batch: Batch[np.ndarray],
        clock: Clock,
        rng: np.random.Generator,
    ) -> EnsembleRun:
        """One gradient step of every member towards its own target."""
        del operation, clock, rng
        learning, programs = state.learning, state.programs
        next_values = []
        for k, member in enumerate(programs.members):
            value, sound = member.target_value((learning.target[k],), batch.next_observation)
            # What cannot be learned from makes the loss of this member, and of no other, one that is not finite.
            next_values.append(value if sound else np.full_like(value, np.nan))
        return state._replace(learning=programs.learn(learning, batch, next_values))

    def update_and_act(
        self,
        state: EnsembleRun,
        operation: Operation,
        batch: Batch[np.ndarray],
        observations: np.ndarray,
        clock: Clock,
        rng: np.random.Generator,
    ) -> tuple[EnsembleRun, np.ndarray]:
        """`update`, then `act`."""
        return self.act(self.update(state, operation, batch, clock, rng), observations, clock, rng)

    def perform(
        self, state: EnsembleRun, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[EnsembleRun, tuple[Event, ...]]:
        """Report an episode, go on to the next member, renew all targets, or replace members and renew all targets.

        A renewal within the burst chooses nobody, so it is no `TargetUpdate` event, and losses go on adding up.
        """
        evaluation: Evaluation = state.evaluation
        if operation is Operation.EPISODE_END:
            return state._replace(evaluation=evaluation._replace(unreported=())), evaluation.unreported
        if operation is Operation.NEXT_MEMBER:
            following = self._living_after(state, evaluation.member)[0]
            return state._replace(evaluation=evaluation._replace(member=following)), ()
        if operation is Operation.TARGET_UPDATE:
            return state._replace(learning=state.programs.renew_targets(state.learning)), ()
        assert operation is Operation.GENERATION, "SEARL plans nothing else besides updates"
        children = self.children(state, clock, rng)
        elite = np.arange(len(children)) == self.fitness(state).argmin()
        learning = state.learning._replace(acted=jnp.asarray(evaluation.steps, jnp.int32))
        nothing_random = np.zeros(len(children), np.float32)
        renewed, events = self._renewed(state, clock, state.programs.update_target(learning, nothing_random, elite))
        replaced, generation = self.replace_members(renewed, children, clock, rng)
        returns = tuple(mean for mean in evaluation.returns if mean is not None)
        following = Evaluation.begin(len(children), returns, evaluation.returns[int(elite.argmax())])
        return replaced._replace(evaluation=following), (*events, generation)

    def fitness(self, state: EnsembleRun) -> np.ndarray:
        """Minus the mean returns, inf for those who diverged. [K]"""
        returns = [-np.inf if mean is None else mean for mean in state.evaluation.returns]
        return self.unless_diverged(state, -np.array(returns))

    def policy(
        self, state: EnsembleRun, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """The greedy actions of the elite; SEARL explores by its members alone."""
        del rng, clock
        return np.array(state.programs.greedy(state.learning, observations))

    def policy_return(self, state: EnsembleRun, recent: Sequence[float]) -> float | None:
        """The mean return of the elite when it was evaluated; the last training episodes are those of all members."""
        del recent
        return state.evaluation.elite_return

    def metrics(self, state: EnsembleRun, clock: Clock) -> dict[str, float]:
        """Scalars for the logs, with the returns of the last generation as soon as there was one."""
        tags = super().metrics(state, clock)
        returns = state.evaluation.last_returns
        if returns:
            for name, of in (("max", max), ("mean", statistics.fmean), ("min", min)):
                tags[f"rollout/searl_return_{name}"] = of(returns)
        return tags

    def to_arrays(self, state: EnsembleRun) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """All of the state as named arrays and JSON."""
        arrays, meta = super().to_arrays(state)
        return arrays, meta | {"evaluation": state.evaluation._asdict()}

    def from_arrays(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> EnsembleRun:
        """The state that `to_arrays` was given."""
        saved: dict[str, Any] = dict(meta["evaluation"])
        for name in ("steps", "total", "episodes", "last_returns"):
            saved[name] = tuple(saved[name])
        saved["unreported"] = tuple(MemberEvaluation(*episode) for episode in saved["unreported"])
        return super().from_arrays(arrays, meta)._replace(evaluation=Evaluation(**saved))


def _plus(values: tuple[Any, ...], place: int, amount: float) -> tuple[Any, ...]:
    return (*values[:place], values[place] + amount, *values[place + 1 :])
