"""Where runs execute: a module for each way, found by its name. It has a function `open_launcher(Options)`.

A launcher starts processes that call `work.perform`, and tells when each has ended. It knows nothing about runs: what
became of one is read from its directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from adaqn.base.errors import UserError
from adaqn.base.files import Json, yaml_value
from adaqn.base.plugins import PluginFolder
from adaqn.studies.study import RunKey

LAUNCHERS = PluginFolder("launcher", __name__, entry_points="adaqn.launchers")


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

    poll: float  # seconds between two looks at whether jobs have ended

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

    def close(self) -> None:
        """Give back what was taken, when all jobs have ended."""
        ...


def open_launcher(name: str, options: Options) -> Launcher:
    """The launcher with this name."""
    return LAUNCHERS.load(name).open_launcher(options)


def resources_from(options: Options) -> Json:
    """What a user says about resources, as values: `num_gpus=1` is a number."""
    return {name: yaml_value(f"the resource {name}", text) for name, text in options.resources.items()}


def require_no_address(name: str, options: Options) -> None:
    """Raise if an address is given to a launcher that has no use for one."""
    if options.address is not None:
        raise UserError(f"--address is for a cluster of Ray, but the launcher is {name}")
