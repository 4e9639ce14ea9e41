"""A stopwatch inside the environment, which works the same for every library, whatever its callbacks."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import gymnasium as gym


class Moment(NamedTuple):
    """A point in time: wall-clock and processor time."""

    wall: float
    cpu: float  # processor seconds spent by all threads

    @classmethod
    def now(cls) -> Moment:
        """The current time."""
        return cls(time.perf_counter(), time.process_time())

    def cpu_share_since(self, begin: Moment) -> float:
        """The share of a core that this process had since `begin`: less than 1 if other processes used it."""
        return (self.cpu - begin.cpu) / (self.wall - begin.wall)


class Stopwatch:
    """Records the time just before chosen steps of an environment.

    When step n + 1 is about to be taken, its action is known, so every update before it is complete, even in a library
    that computes asynchronously.
    """

    def __init__(self, env: gym.Env[Any, Any], *steps: int) -> None:
        self.taken = 0
        self._awaited = frozenset(steps)
        self._reached: dict[int, Moment] = {}
        self._step = env.step
        # Not a wrapper: ours stores single frames only for environments whose wrappers it recognizes.
        env.step = self._noted_step

    def after(self, step: int) -> Moment:
        """The time at which this many steps, and all updates due by then, were complete."""
        if step not in self._reached:
            raise LookupError(f"step {step} was not followed by another: {self.taken} steps were taken")
        return self._reached[step]

    def _noted_step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self.taken in self._awaited:
            self._reached[self.taken] = Moment.now()
        self.taken += 1
        return self._step(action)
