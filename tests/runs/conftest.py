"""A trainer that learns nothing, but goes through a run and can be saved and restored as the real one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from adaqn.agents.events import TargetUpdate
from adaqn.agents.protocol import Clock, MemberReport, Report
from adaqn.agents.registry import NO_TRAITS
from adaqn.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Transitions
from adaqn.replay.vectors import VectorReplay
from adaqn.snapshot import Snapshot
from adaqn.training.logger import Logger
from adaqn.training.observers import Episode, Observer

MEMBERS = (Hyperparameters(hidden=(25, 25)), Hyperparameters(hidden=(50,), learning_rate=1e-3))


class FakeAgent:
    """Its state is a counter."""

    diverged = (False, True)

    def __init__(self) -> None:
        self.selections = [0, 0]

    def report(self, state: int, clock: Clock) -> Report:
        columns = zip(MEMBERS, self.selections, self.diverged, strict=True)
        members = tuple(MemberReport(m, 1.0, 0.5, n, d) for m, n, d in columns)
        target = clock.step % 2
        metrics = {"ada/target_member": float(target)} | ({"train/loss": 0.25 * state} if state else {})
        return Report(members, (target,), 0, metrics)


class FakeTrainer:
    """Two environments; a target update every ten steps, episodes of random length and return."""

    def __init__(self, n_envs: int = 2) -> None:
        self.agent = FakeAgent()
        self.state = 0
        self.environments = SimpleNamespace(
            name="Fake-v0",
            count=n_envs,
            observation_space=gymnasium.spaces.Box(0.0, 1.0, (3,)),
            action_space=gymnasium.spaces.Discrete(2),
        )
        self.replay = VectorReplay(64, n_envs, (3,), (), np.int32)
        self.clock = Clock(horizon=1000)
        self.updates = 0
        self.episodes = 0
        self.recent_episodes: deque[Episode] = deque(maxlen=100)
        self.stop_reason: str | None = None
        self.interrupted = False
        self.pending: tuple[Any, ...] = ()
        self.logger = Logger()
        self.traits = NO_TRAITS
        self.rng = np.random.default_rng(0)

    def report(self) -> Report:
        return self.agent.report(self.state, self.clock)

    def policy_return(self, recent: Sequence[float]) -> float | None:
        return float(np.mean(recent)) if recent else None

    def stop(self, reason: str) -> None:
        self.stop_reason = reason

    def interrupt(self, reason: str) -> None:
        self.stop_reason = reason
        self.interrupted = True

    def run(self, until: int, observers: Sequence[Observer]) -> None:
        self.stop_reason = None
        self.interrupted = False
        every: Any = observers
        self.observers = every
        try:
            for observer in every:
                observer.on_start(self)
            while self.clock.step < until and self.stop_reason is None:
                self.settle(every)
                self.step(every)
            if not self.interrupted:
                for observer in every:
                    observer.on_last_step(self)
                self.settle(every)
                for observer in every:
                    observer.on_finish(self)
        finally:
            for observer in every:
                observer.on_close(self)

    def tell(self, event: Any) -> None:
        for observer in self.observers:
            observer.on_event(self, event)

    def settle(self, observers: Sequence[Any]) -> None:
        clock = self.clock
        if clock.step > clock.settled:
            self.state += 1
            self.updates += 1
        if clock.step // 10 > clock.settled // 10:
            losses = tuple(self.rng.random(2, np.float32).tolist())
            event = TargetUpdate(clock.step, int(np.argmin(losses)), (losses[0], np.inf), (3, 7), ())
            self.agent.selections[event.target] += 1
            for observer in observers:
                observer.on_event(self, event)
        self.clock = clock._replace(settled=clock.step)

    def step(self, observers: Sequence[Any]) -> None:
        n = self.environments.count
        observation = self.rng.random((n, 3), np.float32)
        ended = np.zeros(n, bool)
        self.replay.add(Transitions(observation, np.arange(n), np.ones(n), observation, ended, ended))
        self.clock = self.clock._replace(step=self.clock.step + n)
        if self.rng.random() < 0.3:
            episode = Episode(self.clock.step, float(self.rng.normal()), int(self.rng.integers(1, 9)))
            self.episodes += 1
            self.recent_episodes.append(episode)
            for observer in observers:
                observer.on_episode(self, episode)
        for observer in observers:
            observer.on_step(self)

    def snapshot(self) -> Snapshot:
        meta = {
            "clock": list(self.clock),
            "counts": [self.updates, self.episodes],
            "selections": list(self.agent.selections),
            "recent": [list(episode) for episode in self.recent_episodes],
            "generator": self.rng.bit_generator.state,
        }
        return Snapshot({"state": np.array(self.state)}, meta)

    def restore(self, snapshot: Snapshot) -> None:
        meta = snapshot.meta
        self.state = int(snapshot.arrays["state"])
        self.clock = Clock(*meta["clock"])
        self.updates, self.episodes = meta["counts"]
        self.agent.selections = meta["selections"]
        self.recent_episodes = deque((Episode(*e) for e in meta["recent"]), maxlen=100)
        self.rng.bit_generator.state = meta["generator"]


@pytest.fixture
def new_trainer() -> type[FakeTrainer]:
    return FakeTrainer


@pytest.fixture
def trainer() -> FakeTrainer:
    return FakeTrainer()
