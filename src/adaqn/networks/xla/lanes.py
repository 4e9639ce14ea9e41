"""Threads that compute the parts of an update side by side, each with its own compiled program.

With several threads of its own, XLA divides every single product among them and waits for all of them after it: an
update of SAC has 190 kernels. A lane computes a whole part of an update, for a share of the batch or of the members,
so that lanes wait for each other three times. Compiled programs run without Python's global lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

Value = TypeVar("Value")


class _Result(NamedTuple):
    number: int  # of the call
    value: Any
    error: BaseException | None


class _Task(NamedTuple):
    number: int
    call: Callable[[], Any]
    results: SimpleQueue[_Result]  # of the caller: several threads may use the same lanes


class _Worker:
    """A thread that makes one call after the other."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._tasks: SimpleQueue[_Task] = SimpleQueue()
        self._thread = Thread(target=_work, args=(self._tasks,), name="adaqn-lane", daemon=True)
        self._thread.start()

    def give(self, task: _Task) -> None:
        if not self._thread.is_alive():  # in a forked process
            self._start()
        self._tasks.put(task)


def _work(tasks: SimpleQueue[_Task]) -> None:
    while True:
        task = tasks.get()
        try:
            result = _Result(task.number, task.call(), None)
        except BaseException as error:  # raised in the thread that waits for the result
            result = _Result(task.number, None, error)
        task.results.put(result)
        del task, result  # so that their arrays are not kept until the next call


class Lanes:
    """A fixed number of threads, of which the caller is the first."""

    def __init__(self, count: int) -> None:
        self._workers = [_Worker() for _ in range(count - 1)]

    def run(self, calls: Sequence[Callable[[], Value]]) -> list[Value]:
        """Make the calls side by side, at most as many as there are lanes; the first one in the calling thread.

        All calls are over when this returns or raises what one of them raised; an interruption does not wait for them.
        """
        first, *others = calls
        results: SimpleQueue[_Result] = SimpleQueue()
        for number, (worker, call) in enumerate(zip(self._workers[: len(others)], others, strict=True), start=1):
            worker.give(_Task(number, call, results))
        try:
            own = _Result(0, first(), None)
        except Exception as error:
            own = _Result(0, None, error)
        found = sorted([own, *(results.get() for _ in others)], key=lambda result: result.number)
        for result in found:
            if result.error is not None:
                raise result.error
        return [result.value for result in found]


def spread(loads: Sequence[int], count: int) -> list[list[int]]:
    """Divide tasks with these loads among lanes: the largest first, each to the lane that has the least by then."""
    shares: list[list[int]] = [[] for _ in range(count)]
    sums = [0] * count
    for task in sorted(range(len(loads)), key=lambda task: -loads[task]):
        lane = sums.index(min(sums))
        shares[lane].append(task)
        sums[lane] += loads[task]
    return [sorted(share) for share in shares]


@cache
def shared_lanes(count: int) -> Lanes:
    """The threads of this process for this number of lanes."""
    return Lanes(count)
