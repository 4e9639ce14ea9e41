"""A launcher: processes of this machine with low priority, so that other work goes first."""

import subprocess
import sys
from collections.abc import Iterator

from adaqn.studies.launchers import Ending, Job, Options
from adaqn.studies.study import RunKey

Process = subprocess.Popen[bytes]


def open_launcher(options: Options) -> "PoliteLauncher":
    """A launcher with as many processes as `--jobs` says, by default one."""
    return PoliteLauncher(options.jobs or 1)


class PoliteLauncher:
    """Executes each run with `adaqn work`, which starts it, resumes it, or finds it finished."""

    poll = 0.25  # seconds between two calls of `ending`

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._running: list[Process] = []

    def start(self, jobs: Iterator[Job]) -> dict[RunKey, Process]:
        """Start the next runs, as long as there is room, and return a handle of each."""
        started: dict[RunKey, Process] = {}
        while len(self._running) < self._jobs and (job := next(jobs, None)) is not None:
            work = [sys.executable, "-m", "adaqn.cli", "work", str(job.study_dir), str(job.key)]
            job.log.parent.mkdir(parents=True, exist_ok=True)
            with job.log.open("ab") as log:
                process = subprocess.Popen(["nice", "-n", "10", *work], stdout=log, stderr=log)
            self._running.append(process)
            started[job.key] = process
        return started

    def ending(self, handle: Process) -> Ending | None:
        """The exit status of a run, or None while it is executed."""
        status = handle.poll()
        if status is None:
            return None
        self._running.remove(handle)
        return Ending(status)

    def stop(self) -> None:
        """End all runs with SIGTERM, on which they write a checkpoint."""
        for process in self._running:
            process.terminate()
        for process in self._running:
            process.wait()
        self._running.clear()

    def close(self) -> None:
        """Nothing is held open."""
