"""A stopwatch inside the environment, which works the same for every library, whatever its callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable
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
    """Records the time just before chosen steps of the environments that it watches.

    When step n + 1 is about to be taken, its action is known, so every update before it is complete, even in a library
    that computes asynchronously. With several environments in parallel this holds for multiples of their number.
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

        # Not a wrapper: ours stores single frames only for environments whose wrappers it recognizes.
        env.step = noted_step
        return env

    def after(self, step: int) -> Moment:
        """The time at which this many steps, and all updates due by then, were complete."""
        if step not in self._reached:
            raise LookupError(f"step {step} was not followed by another: {self.taken} steps were taken")
        return self._reached[step]

    def _note(self) -> None:
        if self.taken in self._awaited:
            self._reached[self.taken] = Moment.now()
        self.taken += 1


class Turns(Stopwatch):
    """Divides the steps after a warm-up into turns of equal length, and waits before each of them.

    `wait` is given the begin and the end of the turn that is over, or None when the warm-up is.
    """

    def __init__(self, warmup: int, steps: int, wait: Callable[[tuple[Moment, Moment] | None], None]) -> None:
        super().__init__()
        self._warmup, self._steps, self._wait = warmup, steps, wait
        self._begin: Moment | None = None

    def _note(self) -> None:
        if self.taken >= self._warmup and (self.taken - self._warmup) % self._steps == 0:
            self._wait(None if self._begin is None else (self._begin, Moment.now()))
            self._begin = Moment.now()
        self.taken += 1
