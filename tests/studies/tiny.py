"""A study of CartPole runs that take a second, and runs that are finished without having been executed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from adaqn.base.files import Json
from adaqn.runs.config import RunConfig
from adaqn.studies.definition import expand
from adaqn.studies.directory import StudyDirectory
from adaqn.studies.launchers import Ending, Job
from adaqn.studies.study import RunKey, Study

TINY: Json = {
    "about": "Two networks on CartPole.",
    "config": {
        "env": "CartPole-v1",
        "steps": 400,
        "settings": {"learning_starts": 50, "target_update_interval": 50},
        "grid": {"hidden": [[8], [16]]},
        "checkpoint_interval": 100,
        "log_interval": 50,
    },
    "seeds": 2,
    "arms": {"adadqn": {}, "dqn": {"algo": "dqn", "member": "each"}},
}


# A search on two seeds, and its best trial on another one.
SEARCHING: Json = {
    "config": {"env": "CartPole-v1", "steps": 400, "space": "vectors", "settings": {"learning_starts": 50}},
    "seeds": [5],
    "tuning_seeds": [0, 1],
    "arms": {
        "search": {"algo": "random-search", "settings": {"trial_steps": 100, "gamma": 0.9}},
        "best": {"best_trial_of": "search", "steps": 300},
    },
}


def tiny(**changes: Any) -> Study:
    return expand({**TINY, **changes}, "tiny")


def begin(directory: StudyDirectory, study: Study, key: RunKey, **changes: Any) -> Path:
    """Write the files of a run that has begun."""
    path = directory.run(key)
    path.mkdir(parents=True, exist_ok=True)
    config = RunConfig.from_dict({**study.values(key), **changes})
    (path / "config.yaml").write_text(config.to_yaml())
    return path


def finish(directory: StudyDirectory, study: Study, key: RunKey, **changes: Any) -> Path:
    """Write the small files of a run that is finished, and nothing else."""
    path = begin(directory, study, key, **changes)
    (path / "episodes.csv").write_text("step,return,length\n400,400.0,400\n")
    summary = {"steps": study.arms[key.arm]["steps"], "time": {"elapsed": 2.0}}
    (path / "summary.json").write_text(json.dumps(summary))
    return path


class FakeLauncher:
    """Has two slots; `act` is what executing a job means, and a job ends at the second look."""

    poll = 0.001

    def __init__(self, act: Callable[[Job], Ending]) -> None:
        self.act = act
        self.started: list[RunKey] = []
        self.stopped = False
        self._running: dict[RunKey, tuple[Job, int]] = {}

    def start(self, jobs: Iterator[Job]) -> dict[RunKey, RunKey]:
        handles: dict[RunKey, RunKey] = {}
        while len(self._running) < 2 and (job := next(jobs, None)) is not None:
            self._running[job.key] = (job, 0)
            handles[job.key] = job.key
            self.started.append(job.key)
        return handles

    def ending(self, handle: RunKey) -> Ending | None:
        job, looks = self._running[handle]
        if looks == 0:
            self._running[handle] = (job, 1)
            return None
        del self._running[handle]
        return self.act(job)

    def stop(self) -> None:
        self.stopped = True
        self._running.clear()

    def close(self) -> None:
        assert not self._running
