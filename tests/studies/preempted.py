"""A study through submitit's local executor, one of whose jobs is preempted while its run is under way.

python -m tests.studies.preempted STUDY.yaml DIRECTORY
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from adaqn.studies import execution
from adaqn.studies.definition import read_study
from adaqn.studies.directory import StudyDirectory
from adaqn.studies.execution import Execution, Progress
from adaqn.studies.launchers import Options, open_launcher
from adaqn.studies.study import RunKey


class Preemption:
    """Sends the signal of a preemption to the first job whose run has a checkpoint, as Slurm does."""

    def __init__(self, handles: dict[RunKey, Any]) -> None:
        self.preempted: RunKey | None = None
        self._handles = handles

    def show(self, progress: Progress) -> None:
        under_way = [key for key, state in progress.states.items() if state.status == "running" and state.step >= 600]
        if self.preempted is None and under_way:
            self.preempted = under_way[0]
            (task,) = _children(self._handles[self.preempted]._process.pid)
            os.kill(task, signal.SIGUSR2)


def _children(parent: int) -> list[int]:
    """The processes that a process has started."""
    found: list[int] = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                after_name = (process / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if int(after_name[1]) == parent:
                found.append(int(process.name))
    return found


def main() -> None:
    execution.LOOK = 0.1
    study, directory = read_study(sys.argv[1]), StudyDirectory(Path(sys.argv[2]))
    directory.freeze(study)
    launcher = open_launcher("slurm", Options(directory.path.resolve(), resources={"cluster": "local"}))
    launcher.poll = 0.1
    handles: dict[RunKey, Any] = {}
    start = launcher.start

    def remembering(jobs: Any) -> dict[RunKey, Any]:
        started = start(jobs)
        handles.update(started)
        return started

    launcher.start = remembering
    preemption = Preemption(handles)
    failures = Execution(directory, study.runs(), launcher, 0, preemption).run()
    assert failures == [], failures
    print(f"preempted: {preemption.preempted}")


if __name__ == "__main__":
    main()
