"""The process that executes one run, whoever starts it: one thread, output to a log, and an end with its parent."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import threading
import time
from typing import IO

from adaqn.base.files import make_parent, writing
from adaqn.networks.xla.threads import VARIABLE, outside_environment
from adaqn.studies.launchers import Ending, Job

PATIENCE = 60.0  # seconds that a run has for its last step and checkpoint
_LOOK = 0.1  # seconds between two looks at whether a process has ended
ONE_THREAD = {
    VARIABLE: "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # On a GPU, JAX would otherwise reserve three quarters of its memory for the first of several processes.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}


class Attempt:
    """One process that somebody waits for, in the job of a cluster.

    Waiting can be interrupted at any point by a signal whose handler calls `stop`, as submitit's do, so it must not
    hold a lock: `Popen.wait` does, and is left to a thread.
    """

    def __init__(self, job: Job) -> None:
        self._process = start_process(job)
        self._status: int | None = None
        threading.Thread(target=self._reap, daemon=True).start()

    def _reap(self) -> None:
        self._status = self._process.wait()

    def wait(self) -> Ending:
        """Wait for the process to end. Whatever interrupts the waiting ends the process, with a checkpoint."""
        try:
            return process_ending(self._ended(math.inf))
        finally:
            self.stop()

    def stop(self) -> None:
        """End the process, with a checkpoint, if it has not ended."""
        if self._status is None:
            ask_to_end(self._process)
            try:
                self._ended(PATIENCE)
            except TimeoutError:
                self._process.kill()
                self._ended(math.inf)
        close_pipe(self._process)

    def _ended(self, seconds: float) -> int:
        """The exit status, as soon as it is known."""
        until = time.monotonic() + seconds
        while self._status is None:
            if time.monotonic() > until:
                raise TimeoutError
            time.sleep(_LOOK)
        return self._status


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


def ask_to_end(process: subprocess.Popen[bytes]) -> None:
    """Let a run finish its step and make a checkpoint."""
    process.send_signal(signal.SIGTERM)


def command(job: Job) -> list[str]:
    """The command line that executes a job until its standard input is closed."""
    return [sys.executable, "-m", "adaqn.cli", "work", str(job.study_dir), str(job.key), "--tied"]


def process_environment() -> dict[str, str]:
    """The environment of the process: one thread, because there is a process for every core."""
    given = outside_environment()
    return {**given, **{name: given.get(name) or value for name, value in ONE_THREAD.items()}}
