"""Tasks of a Ray cluster, an existing one or one that is started here. The study's directory is on shared storage.

Ray places a run where its resources are free, and starts it again elsewhere when a node is lost; there it is resumed
from its directory. In a task is a process of its own, as on one machine, so that the same numbers come out.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from adaqn.base.checks import count
from adaqn.base.errors import UserError
from adaqn.base.plugins import require_extra
from adaqn.networks.xla.threads import available_cores
from adaqn.studies.launchers import Ending, Job, Options, resources_from
from adaqn.studies.processes import PATIENCE, Attempt
from adaqn.studies.study import RunKey

_FOR_EVER = -1  # times that a task is started again when its node is lost, which is no fault of the run


def open_launcher(options: Options) -> RayLauncher:
    """Connect to the cluster, or start one on this machine."""
    ray = require_extra("the launcher ray", "ray", "ray")
    jobs = None if options.jobs is None else count("--jobs", options.jobs, low=1)
    started_here = not ray.is_initialized()
    if started_here:
        quiet = {"log_to_driver": False, "logging_level": logging.WARNING}
        try:
            if options.address is None:
                # "local" is a new cluster, also where an old one is still running.
                ray.init(address="local", num_cpus=jobs or available_cores(), include_dashboard=False, **quiet)
            else:
                ray.init(address=options.address, **quiet)
        except (ConnectionError, OSError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise UserError(f"cannot connect to Ray at {options.address or 'this machine'}: {reason}") from error
    return RayLauncher(ray, resources_from(options), None if options.address is None else jobs, started_here)


class RayLauncher:
    """A task for each run, all handed over at once, or so many at a time as was asked for."""

    poll = 1.0

    def __init__(self, ray: Any, resources: dict[str, Any], jobs: int | None, disconnect: bool) -> None:
        self._ray = ray
        self._jobs = jobs
        self._disconnect = disconnect
        try:
            self._task = ray.remote(**{"num_cpus": 1, "max_retries": _FOR_EVER, **resources})(_execute)
        except (ValueError, TypeError) as error:
            raise UserError(f"Ray does not take these resources: {' '.join(str(error).split())}") from error
        self._running: dict[Any, Job] = {}

    def start(self, jobs: Iterator[Job]) -> dict[RunKey, Any]:
        """Hand over tasks, with the memory that they need."""
        started: dict[RunKey, Any] = {}
        while (self._jobs is None or len(self._running) < self._jobs) and (job := next(jobs, None)) is not None:
            needs = {"memory": job.memory} if job.memory else {}
            reference = self._task.options(name=str(job.key), **needs).remote(job)
            self._running[reference] = job
            started[job.key] = reference
        return started

    def ending(self, handle: Any) -> Ending | None:
        """What a task returned, or why it did not."""
        ready, _ = self._ray.wait([handle], timeout=0)
        if not ready:
            return None
        self._running.pop(handle, None)
        try:
            return self._ray.get(handle)
        except self._ray.exceptions.RayError as error:
            return Ending(None, f"Ray gave it up: {' '.join(str(error).split())}")

    def stop(self) -> None:
        """Cancel all tasks, which makes checkpoints, and leave the cluster."""
        references = list(self._running)
        for reference in references:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.cancel(reference)
        if references:
            self._ray.wait(references, num_returns=len(references), timeout=PATIENCE)
        self._running.clear()
        self.close()

    def close(self) -> None:
        """Leave the cluster, if it was joined for this study."""
        if self._disconnect:
            self._ray.shutdown()


def _execute(job: Job) -> Ending:
    """The task. Cancelling it raises KeyboardInterrupt here."""
    return Attempt(job).wait()
