"""Jobs of Slurm, through submitit. The study's directory is on storage that all nodes share.

The runs are one array. A job that is preempted, or reaches its time limit, makes a checkpoint and is queued again.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

from adaqn.base.checks import count
from adaqn.base.errors import UserError
from adaqn.base.plugins import require_extra
from adaqn.studies.launchers import Ending, Job, Options, require_no_address, resources_from
from adaqn.studies.processes import Attempt
from adaqn.studies.study import RunKey

DEFAULTS: dict[str, Any] = {"name": "adaqn", "timeout_min": 24 * 60, "cpus_per_task": 1, "tasks_per_node": 1}
TIMEOUTS = 1_000  # times that a job may reach its time limit and go on
_GB = 10**9


def open_launcher(options: Options) -> SlurmLauncher:
    """A launcher for this cluster; the resource `cluster=local` makes it processes of this machine, to try it."""
    require_no_address("slurm", options)
    submitit = require_extra("the launcher slurm", "submitit", "slurm")
    resources = {**DEFAULTS, **resources_from(options)}
    cluster = str(resources.pop("cluster", "slurm"))
    if options.jobs is not None:
        resources["slurm_array_parallelism"] = count("--jobs", options.jobs, low=1)
    try:
        limits = {f"{cluster}_max_num_timeout": TIMEOUTS}
        executor = submitit.AutoExecutor(options.study_dir / "logs" / "slurm", cluster=cluster, **limits)
        executor.update_parameters(**resources)
    except (RuntimeError, ValueError, NameError, AssertionError, TypeError) as error:
        raise UserError(f"Slurm cannot be used: {' '.join(str(error).split())}") from error
    return SlurmLauncher(executor, submitit, memory_is_given="mem_gb" in resources)


class SlurmLauncher:
    """An array of jobs for all runs that are handed over at once."""

    poll = 5.0  # every look is one into a shared directory for each job

    def __init__(self, executor: Any, submitit: Any, memory_is_given: bool) -> None:
        self._executor = executor
        self._errors = (submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError)
        self._memory_is_given = memory_is_given
        self._running: list[Any] = []

    def start(self, jobs: Iterator[Job]) -> dict[RunKey, Any]:
        """Submit all as one array; its jobs have the same resources, those of the largest."""
        waiting = list(jobs)
        if not waiting:
            return {}
        memory = max(job.memory for job in waiting)
        if memory and not self._memory_is_given:
            self._executor.update_parameters(mem_gb=math.ceil(memory / _GB))
        with self._executor.batch():
            handles = [self._executor.submit(RunJob(job)) for job in waiting]
        self._running += handles
        return dict(zip((job.key for job in waiting), handles, strict=True))

    def ending(self, handle: Any) -> Ending | None:
        """What a job returned, or why it did not."""
        if not handle.done():
            return None
        self._running.remove(handle)
        try:
            return handle.result()
        except self._errors as error:
            lines = str(error).strip().splitlines()
            return Ending(None, f"Slurm gave it up: {lines[-1] if lines else 'no reason is known'}")

    def stop(self) -> None:
        """Cancel all jobs; Slurm sends SIGTERM, on which a run makes its checkpoint."""
        for handle in self._running:
            with contextlib.suppress(OSError):
                handle.cancel(check=False)
        self._running.clear()

    def close(self) -> None:
        """Nothing is held open."""


class RunJob:
    """What a job does; submitit calls `checkpoint` before it is preempted or its time is over."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._attempt: Attempt | None = None

    def __call__(self) -> Ending:
        """Execute the run."""
        self._attempt = Attempt(self._job)
        return self._attempt.wait()

    def checkpoint(self) -> Any:
        """Let the run make its checkpoint, and say how it goes on."""
        if self._attempt is not None:
            self._attempt.stop()
        return require_extra("the launcher slurm", "submitit", "slurm").helpers.DelayedSubmission(RunJob(self._job))
