"""A check: complete episodes of the policy that a method would hand over, and clocks that leave the checks out."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from adaqn.training.evaluation import episode_seed
from benchmarks.tuning_record import Check, Costs, TuningRecord

ENVIRONMENT = "LunarLander-v3"
EPISODES = 20
CONFIRMATION = 100  # further episodes for a policy that succeeds: a first success can be luck


class BatchPolicy(Protocol):
    """A model of adaqn or of Stable-Baselines3."""

    def predict(self, observation: np.ndarray, *, deterministic: bool = True) -> tuple[Any, Any]:
        """The actions for a batch of observations."""
        ...


class Played(NamedTuple):
    """Complete episodes."""

    returns: list[float]
    steps: int  # of all together


def play(policy: BatchPolicy, seeds: Sequence[int]) -> Played:
    """Play an episode for each seed, all at the same time, so that the policy is called on batches of one size."""
    envs = [gym.make(ENVIRONMENT) for _ in seeds]
    observations = np.stack([env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)])
    totals, over, steps = np.zeros(len(envs)), np.zeros(len(envs), bool), 0
    while not over.all():
        actions, _ = policy.predict(observations, deterministic=True)
        for index in np.flatnonzero(~over):
            observations[index], reward, terminated, truncated, _ = envs[index].step(int(actions[index]))
            totals[index] += float(reward)
            over[index] = terminated or truncated
            steps += 1
    for env in envs:
        env.close()
    return Played([float(total) for total in totals], steps)


class Meter:
    """A record in the making: the time of the process up to now, without what the checks took."""

    def __init__(self, record: TuningRecord, started: float) -> None:
        self.record = record
        self._cpu = self._wall = 0.0  # of earlier processes of the same run
        self._aside = Costs()  # by checks in this process
        self._started = started  # time.time() when this process began

    def resume(self, samples: int) -> None:
        """Go on from where the record was after this many samples: later checks are dropped, earlier seconds count."""
        record = self.record
        checks = tuple(check for check in record.checks if check.samples <= samples)
        known = [Costs(check.samples, check.cpu_seconds, check.wall_seconds) for check in checks]
        known += [record.spent] if record.spent.samples <= samples else []
        spent = max(known, key=lambda costs: costs.samples, default=Costs())
        self._cpu, self._wall = spent.cpu_seconds, spent.wall_seconds
        self.record = dataclasses.replace(record, checks=checks, spent=spent)

    @property
    def cpu_seconds(self) -> float:
        """Of all threads, from the start of the process, which includes imports."""
        return self._cpu + time.process_time() - self._aside.cpu_seconds

    @property
    def wall_seconds(self) -> float:
        """From the start of the process."""
        return self._wall + time.time() - self._started - self._aside.wall_seconds

    def check(self, policy: BatchPolicy, samples: int, training_return: float | None = None, name: str = "") -> Check:
        """Play the check's episodes, and add it to the record; a success is confirmed by further episodes."""
        cpu, wall = self.cpu_seconds, self.wall_seconds
        before = time.process_time(), time.time()
        played = play(policy, _seeds(self.record.seed, samples, EPISODES))
        steps = played.steps
        check = Check(samples, cpu, wall, float(np.mean(played.returns)), training_return, name)
        if check.succeeds:
            seeds = _seeds(self.record.seed, samples, EPISODES + CONFIRMATION)[EPISODES:]
            rounds = [play(policy, seeds[first : first + EPISODES]) for first in range(0, CONFIRMATION, EPISODES)]
            further = float(np.mean([total for one in rounds for total in one.returns]))
            check = dataclasses.replace(check, confirmed_return=further)
            steps += sum(one.steps for one in rounds)
        took = time.process_time() - before[0], time.time() - before[1]
        self._aside = self._aside.plus(steps, *took)
        self.record = dataclasses.replace(
            self.record,
            checks=(*self.record.checks, check),
            spent=Costs(samples, cpu, wall),
            spent_on_checks=self.record.spent_on_checks.plus(steps, *took),
        )
        return check

    def note(self, samples: int) -> None:
        """Put what has been spent so far into the record."""
        self.record = dataclasses.replace(self.record, spent=Costs(samples, self.cpu_seconds, self.wall_seconds))


def _seeds(seed: int, samples: int, number: int) -> list[int]:
    """Episodes that depend on the seed and the step alone, and that no training or evaluation has seen."""
    return [episode_seed(1_000_000 + seed, samples, index) for index in range(number)]
