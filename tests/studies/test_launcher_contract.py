"""What every launcher must do, whatever executes its jobs. A new one is added to `LAUNCHED`, and passes this."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adaqn.runs.lock import RunLock
from adaqn.studies.directory import StudyDirectory
from adaqn.studies.launchers import LAUNCHERS, Ending, Job, Launcher, Options, open_launcher
from adaqn.studies.study import RunKey, Study
from adaqn.studies.work import BUSY, DONE, FAILED
from tests.studies.tiny import finish, tiny
from tests.waiting import wait_for

# Ray's cluster and submitit fork, and another test of the same process may have started JAX.
pytestmark = pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")

# How each launcher is tried on this machine, and the package that it needs.
LAUNCHED: dict[str, tuple[dict[str, Any], str | None]] = {
    "local": ({"jobs": 2}, None),
    "ray": ({"jobs": 2}, "ray"),
    "slurm": ({"resources": {"cluster": "local"}}, "submitit"),
}
PATIENCE = 150.0  # seconds; a machine with other work takes long to start a process
KEYS = [RunKey("dqn-8", "CartPole-v1", seed) for seed in range(4)]


def test_every_launcher_is_in_the_contract() -> None:
    assert set(LAUNCHED) == set(LAUNCHERS.names())


def _installed(name: str) -> bool:
    package = LAUNCHED[name][1]
    return package is None or importlib.util.find_spec(package) is not None


@pytest.fixture(scope="module", params=LAUNCHED)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A launcher, and a study for it; opened once, since a cluster takes seconds to start."""
    if not _installed(request.param):
        pytest.skip(f"the extra {request.param} is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # or workers get no time beside other tests
        place = Place(request.param, tmp_path_factory.mktemp(request.param))
        try:
            yield place
        finally:
            place.launcher.stop()


def _study(steps: int) -> Study:
    return tiny(seeds=4, run={"steps": steps}, arms={"dqn": {"algo": "dqn", "member": "each"}})


def _frozen(path: Path, steps: int) -> StudyDirectory:
    """A study whose runs can be executed."""
    directory = StudyDirectory(path / "study")
    directory.freeze(_study(steps))
    return directory


def _job(directory: StudyDirectory, key: RunKey) -> Job:
    return Job(directory.path.resolve(), key, directory.log(key).resolve(), memory=0)


class Place:
    """A launcher and the study whose runs it executes."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.study = _study(steps=400)
        self.directory = _frozen(path, steps=400)
        self.launcher: Launcher = open_launcher(name, Options(self.directory.path.resolve(), **LAUNCHED[name][0]))

    def endings(self, keys: list[RunKey]) -> dict[RunKey, Ending]:
        """Start these runs, as many as there is room for at a time, and wait for all of them."""
        jobs, found = iter([_job(self.directory, key) for key in keys]), dict[RunKey, Ending]()
        handles: dict[RunKey, Any] = {}

        def over() -> bool:
            handles.update(self.launcher.start(jobs))
            for key in list(handles):
                ending = self.launcher.ending(handles[key])
                if ending is not None:
                    found[key] = ending
                    del handles[key]
            return len(found) == len(keys)

        wait_for(over)
        return found


@pytest.mark.thorough
def test_the_exit_status_of_every_job_is_told_by_its_key(place: Place) -> None:
    """Runs that end at once: finished, executed by somebody else, and not of the study."""
    finished, busy, unknown = KEYS[0], KEYS[1], RunKey("dqn-8", "CartPole-v1", 99)
    finish(place.directory, place.study, finished)
    path = place.directory.run(busy)
    path.mkdir(parents=True)
    lock = RunLock(path)
    lock.acquire()
    try:
        found = place.endings([finished, busy, unknown])
    finally:
        lock.release()
    assert found == {finished: Ending(DONE), busy: Ending(BUSY), unknown: Ending(FAILED)}
    assert "99 is not among the runs of the study" in place.directory.log(unknown).read_text()
    assert place.endings([unknown])[unknown] == Ending(FAILED)  # a key can be started again once it has ended


@pytest.mark.thorough
def test_a_run_is_brought_to_its_end(place: Place) -> None:
    key = KEYS[2]
    assert place.endings([key]) == {key: Ending(DONE)}
    assert place.directory.is_finished(key)
    summary = json.loads((place.directory.run(key) / "summary.json").read_text())
    assert summary["steps"] == 400
    assert "algorithm" in place.directory.log(key).read_text()


@pytest.mark.thorough
def test_no_more_jobs_are_taken_than_there_are(place: Place) -> None:
    assert place.launcher.start(iter(())) == {}
    assert place.launcher.poll > 0.0


@pytest.mark.thorough
def test_stopping_leaves_a_run_to_be_resumed(tmp_path: Path, place: Place) -> None:
    """The last test of a launcher: Ray has one cluster in a process, which stopping leaves."""
    directory, key = _frozen(tmp_path, steps=1_000_000), KEYS[0]
    (handle,) = place.launcher.start(iter([_job(directory, key)])).values()
    assert place.launcher.ending(handle) is None
    wait_for(lambda: directory.state(key).step >= 200)
    place.launcher.stop()
    wait_for(lambda: not directory.is_locked(key))
    assert directory.state(key).status == "interrupted"
    assert any((directory.run(key) / "checkpoint").glob("step-*.zip"))
    place.launcher.stop()  # nothing is left to stop
    if place.name == "slurm":
        handle._process.wait(PATIENCE)  # submitit's own process, which it leaves to the garbage collector
