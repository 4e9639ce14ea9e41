"""Access to the training environment for users: read-only during training, steppable between calls of `learn`."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from adaqn.agents.protocol import (
    Agent,
    Clock,
    Event,
    Failure,
    LearnsFromRows,
    Operation,
    Report,
    TrialStart,
    clock_from,
    lanes_of,
)
from adaqn.agents.registry import NO_TRAITS, Traits
from adaqn.base.checks import count, number
from adaqn.base.errors import CheckpointError, EnvironmentFault, UserError, reading_saved
from adaqn.base.snapshot import Snapshot
from adaqn.envs.environments import Environments
from adaqn.envs.episode import EpisodePosition
from adaqn.networks.xla.threads import Threads, thread_count
from adaqn.replay.protocol import Replay, Transitions
from adaqn.replay.vectors import VectorReplay
from adaqn.training.logger import Logger
from adaqn.training.observers import RECENT, Episode, Observer


class LentEnvironment(gymnasium.Wrapper):
    """A wrapper around one of the trainer's environments.

    Resetting or stepping it abandons the current training episodes, so the next training starts new ones. During
    training both raise, because they would corrupt the episode.
    """

    def __init__(self, trainer: Trainer, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._trainer = trainer

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode outside of training."""
        self._take_over()
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step that episode."""
        self._take_over()
        return self.env.step(action)

    def close(self) -> None:
        """Do nothing: training needs the environment, and its owner closes it."""

    def _take_over(self) -> None:
        if self._trainer.running:
            raise UserError(
                "the training environment cannot be reset or stepped during training: make another one, for example "
                "with model.make_env()"
            )
        self._trainer.give_up_episodes()


class Trainer:
    """The complete state of a run: agent state, replay buffer, random generators, environments and clock."""

    def __init__(
        self,
        agent: Agent[Any],
        environments: Environments,
        replay: Replay,
        batch_size: int,
        seed: int,
        traits: Traits = NO_TRAITS,
    ) -> None:
        self.agent = agent
        self.traits = traits
        self.batch_size = batch_size
        self._rows = agent.row_layout if isinstance(agent, LearnsFromRows) else None
        self._at_once = agent.updates_at_once if isinstance(agent, LearnsFromRows) else 1
        self.environments = environments
        self.replay = replay
        self.seed = seed
        for_weights, *others = np.random.SeedSequence(seed).spawn(4)
        self._agent_rng, self._environment_rng, self._replay_rng = map(np.random.default_rng, others)
        self._weights_seed = int(for_weights.generate_state(1)[0])
        self._state: Any = None  # created at first access, unless one was loaded before
        self.clock = Clock()
        self.horizons: tuple[tuple[int, int], ...] = ()  # (step, horizon from that step on); empty: the clock's
        self.updates = 0
        self.episodes = 0
        self.recent_episodes: deque[Episode] = deque(maxlen=RECENT)
        self.stop_reason: str | None = None
        self.interrupted = False
        self.running = False  # inside `run`
        self.transitions: Transitions | None = None  # of the last step
        self.logger = Logger()
        self._ended = np.zeros(environments.count, bool)
        self._started = False  # the environments have been reset
        self._observers: tuple[Observer[Trainer], ...] = ()  # of the current call of `run`
        self._wake = 0  # the first step at which one of them needs to be called
        self.pending: tuple[Operation, ...] = ()  # operations due at this step that an interruption left undone
        self.postponed: set[str] = set()  # tasks that observers postponed at this step because of an interruption

    @property
    def state(self) -> Any:
        """The agent's state: everything that learning changes."""
        if self._state is None:
            self._state = self.agent.init(self._weights_seed)
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        self._state = state

    @property
    def replay(self) -> Replay:
        """The buffer that batches are drawn from."""
        return self._replay

    @replay.setter
    def replay(self, replay: Replay) -> None:
        self._replay = replay
        self._drawn_as_rows = isinstance(replay, VectorReplay) and replay.layout == self._rows

    def enter(self, environments: Environments, replay: Replay) -> None:
        """Continue training in these environments, with new episodes and this empty replay buffer."""
        self.environments, self.replay = environments, replay
        self._ended = np.zeros(environments.count, bool)
        self.give_up_episodes()

    def begin(self, horizon: int) -> None:
        """Start a new run at step 0 with new episodes; the agent's state and the replay buffer are kept."""
        self.clock = Clock(horizon=horizon)
        self.updates = 0
        self.episodes = 0
        self.recent_episodes.clear()
        self._started = False
        self.pending = ()
        self.postponed.clear()

    def leave_run(self) -> None:
        """Continue as a different run, with an empty replay buffer and new episodes; pending operations are dropped."""
        self.clock = self.clock._replace(settled=self.clock.step, replay_start=self.clock.step)
        self.pending = ()
        self.postponed.clear()
        self._ended[:] = False
        self._started = False

    def give_up_episodes(self) -> None:
        """Abandon the current episodes; the next call of `run` starts new ones."""
        self._started = False

    def lend(self) -> gymnasium.Env:
        """The first environment, for users to inspect, or to step between two calls of `run`."""
        return LentEnvironment(self, self.environments.envs[0])

    def set_environments(self, environments: Environments) -> None:
        """Continue in other environments with equal spaces, in new episodes."""
        if self.running:
            raise UserError("the environment cannot be changed during training")
        self.environments = environments
        self.give_up_episodes()

    def set_replay(self, replay: Replay, transitions: int) -> None:
        """Continue with another replay buffer, whose transitions count as collected by this run."""
        if self.running:
            raise UserError("the replay buffer cannot be changed during training")
        self.replay = replay
        self.clock = self.clock._replace(replay_start=max(0, self.clock.replay_start - transitions))

    @property
    def threads(self) -> Threads:
        """The threads that updates are computed with."""
        return Threads(thread_count(), lanes_of(self.agent))

    def report(self) -> Report:
        """The current members, and scalars for the logs."""
        return self.agent.report(self.state, self.clock)

    def policy_return(self, recent: Sequence[float]) -> float | None:
        """An estimate of the learned policy's return; None if there is no data yet.

        It is the mean return of recent training episodes, unless the algorithm measures its policy itself.
        """
        if self.traits.measures_policy:
            return self.report().policy_return
        return float(np.mean(recent)) if recent else None

    def stop(self, reason: str) -> None:
        """End the run after the current step, as if it were the last one."""
        self.stop_reason = reason

    def interrupt(self, reason: str) -> None:
        """Leave the loop after the current operation; the run is not finished, and resumes exactly from there."""
        self.stop_reason = reason
        self.interrupted = True

    def run(self, until: int, observers: Sequence[Observer[Trainer]] = ()) -> None:
        """Train until this many environment steps have been taken, or until a stop or an interruption.

        An interrupted run does not complete the operations due at its last step: the last update and the next action
        are one compiled program, and separate programs could differ in the last bit.
        """
        self.stop_reason = None
        self.interrupted = False
        self.running = True
        self._observers = tuple(observers)
        try:
            if not self._started:
                self.replay.cut(range(self.environments.count))
                self.environments.reset(self._environment_rng)
                self._started = True
            for observer in observers:
                observer.on_start(self)
            self._wake = 0
            while self.clock.step < until and self.stop_reason is None:
                actions = self._settle(observers, act=True)
                if actions is not None:
                    self._step(actions, observers)
            if not self.interrupted:
                self._finish(observers)
        finally:
            self.running = False
            self._observers = ()
            with contextlib.ExitStack() as closing:  # calls every `on_close`, even if one raises
                for observer in reversed(observers):
                    closing.callback(observer.on_close, self)

    def _finish(self, observers: Sequence[Observer[Trainer]]) -> None:
        for observer in observers:
            observer.on_last_step(self)
        if self._settle(observers, act=False) is not None:
            for observer in observers:
                observer.on_finish(self)

    def tell(self, event: Event) -> None:
        """Notify all observers of an event that one of them caused, such as an evaluation."""
        for observer in self._observers:
            observer.on_event(self, event)

    def _settle(self, observers: Sequence[Observer[Trainer]], act: bool) -> np.ndarray | None:
        """Perform all operations due at the current step, and choose the next actions; None if interrupted meanwhile.

        If the last operation is an update, it and the choice of actions are one dispatch.
        """
        agent, clock = self.agent, self.clock
        for start, horizon in self.horizons:
            if start <= clock.step:
                clock = clock._replace(horizon=horizon)
        due = self.pending or agent.plan(self.state, clock, self._ended)
        self.pending = ()
        actions: np.ndarray | Failure | None = None
        observations = self.environments.observations
        fused = act and bool(due) and due[-1].needs_batch
        done = 0
        while done < len(due):
            operation, updates = due[done], self._updates_in_a_row(due, done)
            last = fused and done + updates >= len(due)
            if self.interrupted and not last:
                self.pending = due[done:]
                return None
            if updates:
                actions = self._update(operation, updates, clock, observations if last else None)
                done += updates
            else:
                self.state, events = agent.perform(self.state, operation, clock, self._agent_rng)
                self._tell(events, observers)
                done += 1
        if act and not fused:
            self.state, actions = agent.act(self.state, observations, clock, self._agent_rng)
        if isinstance(actions, Failure):
            raise actions.error
        self.clock = Clock(clock.step, clock.step, clock.horizon, clock.replay_start)
        return np.zeros(0) if actions is None else actions

    def _tell(self, events: Sequence[Event], observers: Sequence[Observer[Trainer]]) -> None:
        """Notify the observers of an operation's events; a trial begins with new episodes."""
        for event in events:
            if isinstance(event, Failure):
                raise event.error
            if isinstance(event, TrialStart):
                self.replay.cut(range(self.environments.count))
                if not event.keeps_replay:
                    self.replay.clear()
                self.environments.reset(self._environment_rng)
                self._ended[:] = False
            for observer in observers:
                observer.on_event(self, event)

    def _updates_in_a_row(self, due: Sequence[Operation], first: int) -> int:
        """The number of equal updates from here on that one call makes; 0 if the operation is no update.

        Runs are interrupted only between two calls, and resumed with the next one, so that the same updates are made
        together however often a run is interrupted.
        """
        operation, most = due[first], first + self._at_once
        if not operation.needs_batch:
            return 0
        end = first + 1
        while end < min(len(due), most) and due[end] is operation:
            end += 1
        return end - first

    def _update(
        self, operation: Operation, updates: int, clock: Clock, act_on: np.ndarray | None
    ) -> np.ndarray | Failure | None:
        """Sample batches and learn from them, then choose the next actions if observations are given."""
        self.updates += updates
        replay: Any = self._replay
        draw = replay.sample_rows if self._drawn_as_rows else replay.sample
        experience = draw(self._replay_rng, updates * self.batch_size)
        several = {} if updates == 1 else {"updates": updates}  # not every agent accepts it
        self.state, actions = self.agent.update(
            self.state, operation, experience, clock, self._agent_rng, act_on, **several
        )
        return actions

    def _step(self, actions: np.ndarray, observers: Sequence[Observer[Trainer]]) -> None:
        environments = self.environments
        self.postponed.clear()
        try:
            transitions = environments.step(actions, self._environment_rng)
        except EnvironmentFault:
            self._started = False  # if training continues, it starts new episodes
            raise
        self.transitions = transitions
        self.replay.add(transitions)
        step, settled, horizon, replay_start = self.clock
        self.clock = Clock(step + environments.count, settled, horizon, replay_start)
        self._ended = transitions.terminated | transitions.truncated
        if environments.finished:
            self.state = self.agent.episodes_ended(self.state, environments.finished, self.clock)
        for finished in environments.finished:
            self.episodes += 1
            episode = Episode(self.clock.step, finished.total, finished.length)
            self.recent_episodes.append(episode)
            for observer in observers:
                observer.on_episode(self, episode)
        if self.clock.step >= self._wake:
            for observer in observers:
                observer.on_step(self)
            self._wake = min((observer.next_step(self.clock.step) for observer in observers), default=sys.maxsize)

    def snapshot(self) -> Snapshot:
        """The state of the run except the replay buffer, whose rows are saved separately."""
        agent_arrays, agent_meta = self.agent.to_arrays(self.state)
        arrays = {f"agent/{name}": array for name, array in agent_arrays.items()}
        arrays["environments/observations"] = np.array(self.environments.observations)
        arrays["environments/ended"] = self._ended
        episodes = []
        for index, position in enumerate(self.environments.position()):
            arrays[f"environments/actions/{index}"] = position.actions
            episodes.append({"seed": position.seed, "total": position.total, "length": position.length})
        meta = {
            "agent": agent_meta,
            "clock": self.clock._asdict(),
            "updates": self.updates,
            "pending": [operation.name for operation in self.pending],
            "postponed": sorted(self.postponed),
            "episodes": self.episodes,
            "recent_episodes": [list(episode) for episode in self.recent_episodes],
            "environments": episodes,
            "generators": {name: rng.bit_generator.state for name, rng in self._generators().items()},
        }
        return Snapshot(arrays, meta)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the run from a snapshot; the caller must restore the replay buffer first."""
        arrays, meta = snapshot
        self.restore_agent(snapshot)
        with reading_saved("the checkpoint"):
            ended = np.array(arrays["environments/ended"], bool)
            if ended.shape != self._ended.shape:
                raise CheckpointError(f"the checkpoint is of {ended.shape} environments, not {self._ended.shape}")
            self._ended = ended
            positions = tuple(
                _position(episode, arrays[f"environments/actions/{index}"])
                for index, episode in enumerate(meta["environments"])
            )
            observations = arrays["environments/observations"]
        self.replay.cut(self.environments.restore(positions, observations, self._environment_rng))
        self._started = True

    def restore_agent(self, snapshot: Snapshot) -> None:
        """Restore the agent, the clock and the generators of the run, but not the position in the environments."""
        arrays, meta = snapshot
        prefix = "agent/"
        agent_arrays = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
        with reading_saved("the checkpoint"):
            self.state = self.agent.from_arrays(agent_arrays, meta["agent"])
            self.clock = clock_from(meta["clock"])
            self.updates = count("updates", meta["updates"])
            self.pending = tuple(Operation[name] for name in meta.get("pending", ()))
            self.postponed = {str(name) for name in meta.get("postponed", ())}
            self.episodes = count("episodes", meta["episodes"])
            self.recent_episodes = deque(map(_episode, meta["recent_episodes"]), maxlen=RECENT)
            for name, rng in self._generators().items():
                rng.bit_generator.state = meta["generators"][name]

    def _generators(self) -> dict[str, np.random.Generator]:
        return {"agent": self._agent_rng, "environment": self._environment_rng, "replay": self._replay_rng}


def _episode(values: Sequence[object]) -> Episode:
    step, total, length = values
    return Episode(count("step", step), number("return", total), count("length", length))


def _position(values: Mapping[str, Any], actions: np.ndarray) -> EpisodePosition:
    seed, length = count("seed", values["seed"]), count("length", values["length"])
    return EpisodePosition(seed, actions, number("return", values["total"]), length)
