"""Bringing the runs of a study to their end: which are started, tried again, waited for or given up.

The runs' directories are the only memory. Whoever else works on the same study is seen by the locks of its runs.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from adaqn.runs.reading import whole_lines
from adaqn.studies.directory import RunState, StudyDirectory
from adaqn.studies.launchers import Ending, Job, Launcher
from adaqn.studies.study import RunKey
from adaqn.studies.work import BUSY, DONE

LOOK = 2.0  # seconds between two looks into the directories
_INTERRUPTIONS = {128 + signal.SIGINT, 128 + signal.SIGTERM}


class Failure(NamedTuple):
    """A run that was given up."""

    key: RunKey
    reason: str
    log: Path
    attempts: int


class Progress(NamedTuple):
    """How far a study is."""

    states: Mapping[RunKey, RunState]
    waiting: frozenset[RunKey]  # handed to the launcher, but not executing yet
    failures: Sequence[Failure]  # given up


class Watcher(Protocol):
    """Somebody who shows how far a study is."""

    def show(self, progress: Progress) -> None:
        """Take the newest state; called every few seconds, and at the end."""
        ...


class StudyInterrupted(Exception):
    """The user or the system asked the study to stop; what was running can be resumed."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.signal = number


class Execution:
    """The runs of one study that are to be done now."""

    def __init__(
        self,
        directory: StudyDirectory,
        keys: Sequence[RunKey],
        launcher: Launcher,
        retries: int,  # times that a failed run is tried again
        watcher: Watcher,
        memory: Callable[[RunKey], int] = lambda key: 0,
        is_ready: Callable[[RunKey], bool] = lambda key: True,  # or has to wait for other runs
        discard_checkpoints: bool = False,  # of runs that are finished
    ) -> None:
        self._directory = directory
        self._launcher = launcher
        self._retries = retries
        self._watcher = watcher
        self._memory = memory
        self._is_ready = is_ready
        self._discard_checkpoints = discard_checkpoints
        self._open = [key for key in keys if not directory.is_finished(key)]  # neither finished nor given up
        self._handles: dict[RunKey, Any] = {}
        self._attempts: dict[RunKey, int] = {}  # that failed
        self._elsewhere: dict[RunKey, float] = {}  # when to look again whether another process has ended
        self._failures: list[Failure] = []
        self._states = {key: directory.state(key) for key in keys}
        self._shown = -LOOK

    def run(self) -> list[Failure]:
        """Execute until every run is finished or given up; SIGINT, SIGTERM and SIGHUP raise StudyInterrupted."""
        with _signals_raise():
            try:
                while self._open:
                    self._collect()
                    self._start()
                    self._show()
                    if self._open:
                        time.sleep(self._launcher.poll)
            except BaseException:
                self._launcher.stop()
                self._handles.clear()  # nobody waits for them any more
                raise
            finally:
                self._show(now=True)
        self._launcher.close()
        return self._failures

    def _collect(self) -> None:
        """See which jobs have ended, and what became of their runs."""
        for key, handle in list(self._handles.items()):
            ending = self._launcher.ending(handle)
            if ending is not None:
                del self._handles[key]
                self._judge(key, ending)

    def _judge(self, key: RunKey, ending: Ending) -> None:
        if self._directory.is_finished(key):
            self._open.remove(key)
            if self._discard_checkpoints:
                self._directory.discard_checkpoint(key)
        elif ending.status == BUSY or ending.status in _INTERRUPTIONS or self._directory.is_locked(key):
            # Somebody else has it, or had it and was stopped: it is looked at again in a while.
            self._elsewhere[key] = time.monotonic() + LOOK
        else:
            self._fail(key, ending)
        self._states[key] = self._directory.state(key)

    def _fail(self, key: RunKey, ending: Ending) -> None:
        log = self._directory.log(key)
        reason = ending.reason or (last_line(log) if ending.status != DONE else "it ended without a summary.json")
        self._directory.mark_failed(key, reason)
        self._attempts[key] = self._attempts.get(key, 0) + 1
        if self._attempts[key] > self._retries:
            self._open.remove(key)
            self._failures.append(Failure(key, reason, log, self._attempts[key]))

    def _start(self) -> None:
        """Start what there is room for."""
        started = self._launcher.start(self._next_jobs())
        for key in started:
            self._directory.clear_failure(key)
        self._handles |= started
        if not self._handles and self._open and not any(map(self._is_ready, self._open)):
            for key in self._open:  # they would wait for ever
                reason = "the runs on the tuning seeds that it waits for are not finished"
                self._failures.append(Failure(key, reason, self._directory.log(key), 0))
            self._open.clear()

    def _next_jobs(self) -> Iterator[Job]:
        """The runs that nobody is executing, in order; looked at only when somebody can start one."""
        for key in list(self._open):
            if key in self._handles or self._elsewhere.get(key, 0.0) > time.monotonic() or not self._is_ready(key):
                continue
            if self._directory.is_finished(key):  # by somebody else
                self._open.remove(key)
            elif self._directory.is_locked(key):
                self._elsewhere[key] = time.monotonic() + LOOK
            else:
                yield Job(self._directory.path.resolve(), key, self._directory.log(key), self._memory(key))

    def _show(self, now: bool = False) -> None:
        if not now and time.monotonic() < self._shown + LOOK:
            return
        self._shown = time.monotonic()
        for key, state in self._states.items():
            if state.status != "finished":
                self._states[key] = self._directory.state(key)
        waiting = frozenset(key for key in self._handles if self._states[key].status != "running")
        self._watcher.show(Progress(self._states, waiting, self._failures))


def last_line(log: Path) -> str:
    """The last line of a log, which says why a run failed."""
    lines = [line.strip() for line in whole_lines(log, errors="replace") if line.strip()]
    return lines[-1].removeprefix("adaqn: ") if lines else "it printed nothing"


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Within this context the first signal that asks the program to end raises StudyInterrupted.

    Only the main thread receives signals; elsewhere nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watched = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

    def handle(number: int, frame: object) -> None:
        del frame
        for each in watched:
            signal.signal(each, signal.SIG_IGN)  # the runs are ending: a second one would only leave them behind
        raise StudyInterrupted(number)

    before = {number: signal.signal(number, handle) for number in watched}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
