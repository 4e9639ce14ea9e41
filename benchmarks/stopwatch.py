"""A clock inside the environment: it runs the same way for every library, whatever callbacks that one has."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import gymnasium as gym


class Moment(NamedTuple):
    """A point in time, on the wall and as this process has lived it."""

    wall: float
    cpu: float  # processor seconds spent by all threads

    @classmethod
    def now(cls) -> Moment:
        """This moment."""
        return cls(time.perf_counter(), time.process_time())

    def cpu_share_since(self, begin: Moment) -> float:
        """How much of a core this process had since then: less than 1 where others took their turn."""
        return (self.cpu - begin.cpu) / (self.wall - begin.wall)


class Stopwatch:
    """Notes the time at which chosen steps are about to be taken in the environments that it watches.

    When step n + 1 is about to be taken, its action is known, and so every update before it has been made:
    a library that computes asynchronously has had to wait for it. With several environments in parallel this holds
    for the steps at which they all have had their turn.
    """

    def __init__(self, *steps: int) -> None:
        self.taken = 0
        self._awaited = frozenset(steps)
        self._reached: dict[int, Moment] = {}

    def watch(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        """Count the steps of this environment too."""
        step = env.step

        def noted_step(action: Any) -> Any:
            self._note()
            return step(action)

        # Not a wrapper around it: ours keeps single frames only of environments that it can see through.
        env.step = noted_step
        return env

    def after(self, step: int) -> Moment:
        """The moment at which that many steps and all updates due by then were done."""
        if step not in self._reached:
            raise LookupError(f"step {step} was not followed by another: {self.taken} steps were taken")
        return self._reached[step]

    def _note(self) -> None:
        if self.taken in self._awaited:
            self._reached[self.taken] = Moment.now()
        self.taken += 1
