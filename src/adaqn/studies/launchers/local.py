"""Processes on this machine, one for each core, as many as fit into memory."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from typing import IO

from adaqn.checks import count
from adaqn.errors import UserError
from adaqn.files import make_parent, writing
from adaqn.replay.memory import available_memory
from adaqn.studies.launchers import Ending, Job, Options, command, process_environment, require_no_address
from adaqn.studies.study import RunKey

PATIENCE = 60.0  # seconds that a run has for its last step and checkpoint


def open_launcher(options: Options) -> LocalLauncher:
    """A launcher for this machine."""
    require_no_address("local", options)
    if options.resources:
        raise UserError(f"the launcher local has no resources to set, but got {next(iter(options.resources))!r}")
    jobs = _cores() if options.jobs is None else count("--jobs", options.jobs, low=1)
    return LocalLauncher(jobs, available_memory())


class LocalLauncher:
    """So many processes at a time; they checkpoint and end when this one does, however it ends."""

    def __init__(self, jobs: int, memory: int | None) -> None:
        self.jobs = jobs
        self._memory = memory  # bytes for all of them together; None if that is not known
        self._running: dict[subprocess.Popen[bytes], Job] = {}

    def start(self, jobs: Iterator[Job]) -> dict[RunKey, subprocess.Popen[bytes]]:
        """Start a process for each, as long as cores and memory are free."""
        started: dict[RunKey, subprocess.Popen[bytes]] = {}
        while len(self._running) < self.jobs and (job := next(jobs, None)) is not None and self._fits(job):
            process = start_process(job)
            self._running[process] = job
            started[job.key] = process
        return started

    def _fits(self, job: Job) -> bool:
        """Whether the memory is free. What is too large even alone is started, and says so itself."""
        needed = job.memory + sum(running.memory for running in self._running.values())
        return not self._running or self._memory is None or needed <= self._memory

    def ending(self, handle: subprocess.Popen[bytes]) -> Ending | None:
        """The exit status of a process."""
        status = handle.poll()
        if status is None:
            return None
        self._running.pop(handle, None)
        close_pipe(handle)
        return process_ending(status)

    def stop(self) -> None:
        """Ask all to checkpoint and end, and wait for them."""
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            end_process(process)
        self._running.clear()


def start_process(job: Job) -> subprocess.Popen[bytes]:
    """A process that brings a run to its end, or to a checkpoint when the pipe to its standard input is closed."""
    make_parent(job.log)
    with writing(job.log):
        log: IO[bytes] = job.log.open("ab")
    with log:
        # In a session of its own, so that Ctrl-C comes to us alone: a run would take a second signal for impatience.
        return subprocess.Popen(
            command(job),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=process_environment(),
            start_new_session=True,
        )


def end_process(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process that was asked to end, and make it end if it takes too long."""
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
    finally:
        close_pipe(process)


def close_pipe(process: subprocess.Popen[bytes]) -> None:
    """Close our end of the pipe to a process, which ends it if it has not ended."""
    if process.stdin is not None:
        process.stdin.close()


def process_ending(status: int) -> Ending:
    """What an exit status of subprocess says; a negative one is a signal."""
    if status >= 0:
        return Ending(status)
    return Ending(None, f"its process was ended by {signal.Signals(-status).name}")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
