"""Processes on this machine, one for each core, as many as fit into memory."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from adaqn.base.checks import count
from adaqn.base.errors import UserError
from adaqn.networks.xla.threads import available_cores
from adaqn.replay.memory import available_memory
from adaqn.studies.launchers import Ending, Job, Options, require_no_address
from adaqn.studies.processes import ask_to_end, close_pipe, end_process, process_ending, start_process
from adaqn.studies.study import RunKey


def open_launcher(options: Options) -> LocalLauncher:
    """A launcher for this machine."""
    require_no_address("local", options)
    if options.resources:
        raise UserError(f"the launcher local has no resources to set, but got {next(iter(options.resources))!r}")
    jobs = available_cores() if options.jobs is None else count("--jobs", options.jobs, low=1)
    return LocalLauncher(jobs, available_memory())


class LocalLauncher:
    """So many processes at a time; they checkpoint and end when this one does, however it ends."""

    poll = 0.25

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
            ask_to_end(process)
        for process in self._running:
            end_process(process)
        self._running.clear()

    def close(self) -> None:
        """Nothing is held open."""
