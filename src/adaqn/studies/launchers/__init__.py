"""Where runs execute: a module for each way, found by its name. It has a function `open_launcher(Options)`.

A launcher starts processes that call `work.perform`, and tells when each has ended. It knows nothing about runs: what
became of one is read from its directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from adaqn.errors import UserError
from adaqn.plugins import PluginFolder
from adaqn.studies.study import RunKey

LAUNCHERS = PluginFolder("launcher", __name__, entry_points="adaqn.launchers")
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class Job(NamedTuple):
    """One run to be brought to its end."""

    study_dir: Path  # absolute
    key: RunKey
    log: Path
    memory: int  # bytes that it needs, as far as is known


class Ending(NamedTuple):
    """How a job ended: its exit status, or the reason why there is none."""

    status: int | None
    reason: str = ""


class Options(NamedTuple):
    """What a user says about where runs execute."""

    study_dir: Path
    jobs: int | None = None  # at most so many at a time; None: as many as the launcher finds right
    address: str | None = None  # of a cluster
    resources: Mapping[str, str] = {}  # in the launcher's own words


class Launcher(Protocol):
    """Executes jobs somewhere, in the background."""

    def start(self, jobs: Iterator[Job]) -> dict[RunKey, Any]:
        """Start the next jobs, as many as there is room for, and return a handle for each by its key.

        A cluster, which has a queue of its own, takes all of them.
        """
        ...

    def ending(self, handle: Any) -> Ending | None:
        """How a job ended, or None as long as it has not."""
        ...

    def stop(self) -> None:
        """End all jobs that were started and have not ended, in a way that leaves their runs to be resumed."""
        ...


def open_launcher(name: str, options: Options) -> Launcher:
    """The launcher with this name."""
    return LAUNCHERS.load(name).open_launcher(options)


def command(job: Job) -> list[str]:
    """The command line that executes a job until its standard input is closed."""
    return [sys.executable, "-m", "adaqn.cli", "work", str(job.study_dir), str(job.key), "--tied"]


def process_environment() -> dict[str, str]:
    """The environment of the process: one thread, because there is a process for every core."""
    return {**os.environ, **{name: os.environ.get(name) or value for name, value in ONE_THREAD.items()}}


def require_no_address(name: str, options: Options) -> None:
    """Raise if an address is given to a launcher that has no use for one."""
    if options.address is not None:
        raise UserError(f"--address is for a cluster of Ray, but the launcher is {name}")
