"""A run that learns nothing, for tests of observers: the real loop with a fake agent and environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from adaqn.agents.protocol import Arrays, Clock, Event, Json, MemberReport, Operation, Report, TargetUpdate
from adaqn.agents.registry import NO_TRAITS, Traits
from adaqn.envs.environments import Environments
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.making import make_replay
from adaqn.training.trainer import Trainer

MEMBERS = (Hyperparameters(hidden=(25, 25)), Hyperparameters(hidden=(50,), learning_rate=1e-3))


class FakeState(NamedTuple):
    updates: int
    selections: tuple[int, ...]  # [K]


class FakeAgent:
    """Reports an update per step and a target update every `interval` steps, but learns nothing."""

    parameter_bytes = 0
    memory_needs = ()

    def __init__(self, members: Sequence[Hyperparameters], interval: int | None, diverged: Sequence[int]) -> None:
        self.interval = interval  # None: no target updates
        self.targets: tuple[int, ...] | None = None  # None: the members in turn
        self.reports = [MemberReport(m, 7.0 + k, (k + 1) / 100, 0, k in diverged) for k, m in enumerate(members)]
        self.acted = tuple(3 + 4 * (k % 2) for k in range(len(members)))

    def init(self, seed: int) -> FakeState:
        return FakeState(0, (0,) * len(self.reports))

    def plan(self, state: FakeState, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        if self.interval is None or clock.step == clock.settled:
            return ()
        crossed = clock.step // self.interval > clock.settled // self.interval
        return (Operation.UPDATE, Operation.TARGET_UPDATE) if crossed else (Operation.UPDATE,)

    def act(
        self, state: FakeState, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[FakeState, np.ndarray]:
        return state, np.zeros(len(observations), np.int64)

    def update(
        self,
        state: FakeState,
        operation: Operation,
        batch: Any,
        clock: Clock,
        rng: np.random.Generator,
        act_on: np.ndarray | None = None,
    ) -> tuple[FakeState, np.ndarray | None]:
        actions = None if act_on is None else np.zeros(len(act_on), np.int64)
        return state._replace(updates=state.updates + 1), actions

    def perform(
        self, state: FakeState, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[FakeState, tuple[Event, ...]]:
        losses = [np.inf if report.diverged else float(rng.random(dtype=np.float32)) for report in self.reports]
        target = int(np.argmin(losses))
        selections = tuple(n + (k == target) for k, n in enumerate(state.selections))
        event = TargetUpdate(clock.step, target, tuple(losses), self.acted, ())
        return state._replace(selections=selections), (event,)

    def episodes_ended(self, state: FakeState, episodes: Sequence[Any], clock: Clock) -> FakeState:
        return state

    def policy(
        self, state: FakeState, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        return np.zeros(len(observations), np.int64)

    def policy_weights(self, state: FakeState) -> Any:
        raise AssertionError("there is no network")

    def report(self, state: FakeState, clock: Clock) -> Report:
        targets = (clock.step % len(self.reports),) if self.targets is None else self.targets
        columns = zip(self.reports, state.selections, strict=True)
        members = tuple(report._replace(selections=count) for report, count in columns)
        metrics = {"ada/target_member": float(targets[0])}
        return Report(members, targets, 0, metrics | ({"train/loss": 0.25 * state.updates} if state.updates else {}))

    def to_arrays(self, state: FakeState) -> tuple[Arrays, Json]:
        return {"selections": np.array(state.selections)}, {"updates": state.updates}

    def saved_bytes(self, meta: Json) -> int:
        return 0

    def from_arrays(self, arrays: Arrays, meta: Json) -> FakeState:
        return FakeState(meta["updates"], tuple(arrays["selections"].tolist()))


class FakeEnv(gymnasium.Env[np.ndarray, Any]):
    """Episodes of random length and return, or with `ends`, episodes that end at these steps with these returns."""

    def __init__(self, space: gymnasium.spaces.Box, ends: Mapping[int, float] | None) -> None:
        self.observation_space = space
        self.action_space = gymnasium.spaces.Discrete(4)
        self.ends = ends
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        if self.ends is not None:
            return self._observe(), self.ends.get(self.steps, 0.0), self.steps in self.ends, False, {}
        return self._observe(), float(self.np_random.normal()), bool(self.np_random.random() < 0.2), False, {}

    def _observe(self) -> np.ndarray:
        return self.np_random.random(self.observation_space.shape, np.float32).astype(self.observation_space.dtype)


def fake_run(
    n_envs: int = 2,
    members: Sequence[Hyperparameters] = MEMBERS,
    *,
    interval: int | None = 10,
    diverged: Sequence[int] = (1,),
    start: int = 0,
    episodes_at: Mapping[int, float] | None = None,
    traits: Traits = NO_TRAITS,
    seed: int = 42,
    space: gymnasium.spaces.Box | None = None,
) -> Trainer:
    """A run of a thousand steps, at its start or at step `start`.

    `episodes_at` maps the steps at which training episodes end to their returns; without it they are random.
    """
    space = gymnasium.spaces.Box(-1, 1, (8,), np.float32) if space is None else space
    first = None if episodes_at is None else {(step - start) // n_envs: total for step, total in episodes_at.items()}
    envs = [FakeEnv(space, first)]
    envs += [FakeEnv(space, None if first is None else {}) for _ in range(1, n_envs)]
    environments = Environments(envs, owned=True)
    replay = make_replay(64, n_envs, environments.observation_space, environments.action_space, n_steps=1)
    trainer = Trainer(FakeAgent(members, interval, diverged), environments, replay, batch_size=1, seed=seed)
    trainer.traits = traits
    trainer.clock = Clock(start, start, 1000)
    return trainer
