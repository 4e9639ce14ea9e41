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

Result = TypeVar("Result")


class _Found(NamedTuple):
    value: Any
    error: BaseException | None


class _Worker:
    """A thread that makes one call after the other."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._calls: SimpleQueue[Callable[[], Any]] = SimpleQueue()
        self._results: SimpleQueue[_Found] = SimpleQueue()
        self._thread = Thread(target=_work, args=(self._calls, self._results), name="adaqn-lane", daemon=True)
        self._thread.start()

    def give(self, call: Callable[[], Any]) -> None:
        if not self._thread.is_alive():  # in a forked process
            self._start()
        self._calls.put(call)

    def take(self) -> _Found:
        return self._results.get()


def _work(calls: SimpleQueue[Callable[[], Any]], results: SimpleQueue[_Found]) -> None:
    while True:
        call = calls.get()
        try:
            found = _Found(call(), None)
        except BaseException as error:  # raised where the result is taken
            found = _Found(None, error)
        del call  # so that its arrays are not kept until the next one
        results.put(found)
        del found


class Lanes:
    """A fixed number of threads, of which the caller is the first."""

    def __init__(self, count: int) -> None:
        self._workers = [_Worker() for _ in range(count - 1)]

    def run(self, calls: Sequence[Callable[[], Result]]) -> list[Result]:
        """Make the calls side by side, at most as many as there are lanes; the first one in the calling thread."""
        first, *others = calls
        workers = self._workers[: len(others)]
        for worker, call in zip(workers, others, strict=True):
            worker.give(call)
        try:
            result = first()
        finally:  # an exception must not leave results for the next calls
            found = [worker.take() for worker in workers]
        for one in found:
            if one.error is not None:
                raise one.error
        return [result, *(one.value for one in found)]


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
def lanes(count: int) -> Lanes:
    """The threads of this process for this number of lanes."""
    return Lanes(count)
