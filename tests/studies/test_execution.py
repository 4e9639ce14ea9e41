"""Which runs are started, tried again, waited for and given up. Jobs here only write the files that runs would."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from adaqn.runs.lock import RunLock
from adaqn.studies import execution
from adaqn.studies.directory import StudyDirectory
from adaqn.studies.execution import Execution, Progress, StudyInterrupted
from adaqn.studies.launchers import Ending, Job
from adaqn.studies.study import Study
from adaqn.studies.work import BUSY
from tests.studies.tiny import FakeLauncher, begin, finish, tiny


class Seen:
    def __init__(self) -> None:
        self.last: Progress | None = None
        self.on_show: Callable[[Progress], None] = lambda progress: None

    def show(self, progress: Progress) -> None:
        self.last = progress
        self.on_show(progress)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "LOOK", 0.01)


@pytest.fixture
def study() -> Study:
    return tiny()


@pytest.fixture
def directory(tmp_path: Path, study: Study) -> StudyDirectory:
    directory = StudyDirectory(tmp_path / "study")
    directory.freeze(study)
    return directory


def finishing(directory: StudyDirectory, study: Study) -> Callable[[Job], Ending]:
    def act(job: Job) -> Ending:
        finish(directory, study, job.key)
        return Ending(0)

    return act


def test_finished_runs_are_skipped_and_the_rest_is_done_once(directory: StudyDirectory, study: Study) -> None:
    keys = study.runs()
    finish(directory, study, keys[1])
    launcher, seen = FakeLauncher(finishing(directory, study)), Seen()
    assert Execution(directory, keys, launcher, 0, seen).run() == []
    assert launcher.started == [keys[0], *keys[2:]]
    assert seen.last is not None
    assert {state.status for state in seen.last.states.values()} == {"finished"}
    again = FakeLauncher(finishing(directory, study))
    assert Execution(directory, keys, again, 0, Seen()).run() == []
    assert again.started == []


@pytest.mark.parametrize("retries", [0, 2])
def test_a_failing_run_is_tried_so_many_times_again_and_listed_with_its_log(
    directory: StudyDirectory, study: Study, retries: int
) -> None:
    bad = study.runs()[0]

    def act(job: Job) -> Ending:
        if job.key != bad:
            return finishing(directory, study)(job)
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with job.log.open("a") as log:
            log.write("step 100\nadaqn: all members have diverged\n")
        return Ending(1)

    launcher = FakeLauncher(act)
    (failure,) = Execution(directory, study.runs(), launcher, retries, Seen()).run()
    assert failure == (bad, "all members have diverged", directory.log(bad), retries + 1)
    assert launcher.started.count(bad) == retries + 1
    assert directory.state(bad).status == "failed"
    # The same command begins to count anew.
    mended = FakeLauncher(finishing(directory, study))
    assert Execution(directory, study.runs(), mended, 0, Seen()).run() == []
    assert mended.started == [bad]


def test_a_process_that_dies_has_failed_with_the_reason(directory: StudyDirectory, study: Study) -> None:
    keys = study.runs()[:1]
    launcher = FakeLauncher(lambda job: Ending(None, "its process was ended by SIGKILL"))
    (failure,) = Execution(directory, keys, launcher, 0, Seen()).run()
    assert failure.reason == "its process was ended by SIGKILL"


def test_a_retry_may_succeed(directory: StudyDirectory, study: Study) -> None:
    keys = study.runs()[:1]
    endings = iter([lambda job: Ending(1), finishing(directory, study)])
    assert Execution(directory, keys, FakeLauncher(lambda job: next(endings)(job)), 1, Seen()).run() == []
    assert directory.state(keys[0]).status == "finished"


def test_a_run_that_somebody_else_executes_is_waited_for(directory: StudyDirectory, study: Study) -> None:
    keys = study.runs()
    other = keys[0]
    lock = RunLock(begin(directory, study, other))
    lock.acquire()
    launcher, seen = FakeLauncher(finishing(directory, study)), Seen()

    def on_show(progress: Progress) -> None:
        if all(directory.is_finished(key) for key in keys[1:]) and not directory.is_finished(other):
            assert progress.states[other].status == "running"
            finish(directory, study, other)
            lock.release()

    seen.on_show = on_show
    assert Execution(directory, keys, launcher, 0, seen).run() == []
    assert launcher.started == keys[1:]


def test_a_run_that_somebody_else_gave_up_is_taken_over(directory: StudyDirectory, study: Study) -> None:
    keys = study.runs()
    lock = RunLock(begin(directory, study, keys[0]))
    lock.acquire()
    launcher, seen = FakeLauncher(finishing(directory, study)), Seen()
    seen.on_show = lambda progress: lock.release() if directory.is_finished(keys[1]) else None
    assert Execution(directory, keys, launcher, 0, seen).run() == []
    assert launcher.started[0] == keys[1] and sorted(launcher.started) == sorted(keys)


def test_a_job_that_found_the_run_taken_is_no_failure(directory: StudyDirectory, study: Study) -> None:
    keys = study.runs()[:1]
    endings = iter([lambda job: Ending(BUSY), lambda job: Ending(BUSY), finishing(directory, study)])
    launcher = FakeLauncher(lambda job: next(endings)(job))
    assert Execution(directory, keys, launcher, 0, Seen()).run() == []
    assert launcher.started == keys * 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_launcher_and_leaves_all_to_be_resumed(
    directory: StudyDirectory, study: Study, number: signal.Signals
) -> None:
    keys = study.runs()
    before = signal.getsignal(number)

    def act(job: Job) -> Ending:
        if job.key == keys[1]:
            os.kill(os.getpid(), number)
            time.sleep(0.01)
        return finishing(directory, study)(job)

    launcher, seen = FakeLauncher(act), Seen()
    with pytest.raises(StudyInterrupted) as caught:
        Execution(directory, keys, launcher, 0, seen).run()
    assert caught.value.signal == number
    assert seen.last is not None and not seen.last.waiting  # what was stopped is not in a queue
    assert launcher.stopped
    assert signal.getsignal(number) == before
    assert not directory.is_finished(keys[-1])
    again = FakeLauncher(finishing(directory, study))
    assert Execution(directory, keys, again, 0, Seen()).run() == []
    assert keys[0] not in again.started


def test_a_run_that_waits_for_others_is_started_when_they_are_finished(directory: StudyDirectory, study: Study) -> None:
    first, second, third = study.runs()[:3]
    launcher = FakeLauncher(finishing(directory, study))
    ready = lambda key: key != first or directory.is_finished(third)  # noqa: E731
    assert Execution(directory, [first, second, third], launcher, 0, Seen(), is_ready=ready).run() == []
    assert launcher.started == [second, third, first]


def test_a_run_that_would_wait_for_ever_is_given_up(directory: StudyDirectory, study: Study) -> None:
    first, second = study.runs()[:2]
    launcher = FakeLauncher(finishing(directory, study))
    ready = lambda key: key != first  # noqa: E731
    (failure,) = Execution(directory, [first, second], launcher, 0, Seen(), is_ready=ready).run()
    assert failure.key == first and "waits for" in failure.reason
    assert launcher.started == [second]


def test_an_error_ends_what_was_started(directory: StudyDirectory, study: Study) -> None:
    def fail(progress: Progress) -> None:
        raise OSError("no space left on device")

    launcher, seen = FakeLauncher(finishing(directory, study)), Seen()
    seen.on_show = fail
    with pytest.raises(OSError, match="no space left"):
        Execution(directory, study.runs(), launcher, 0, seen).run()
    assert launcher.stopped


def test_checkpoints_of_finished_runs_are_discarded_if_asked(directory: StudyDirectory, study: Study) -> None:
    def act(job: Job) -> Ending:
        path = finish(directory, study, job.key)
        (path / "checkpoint").mkdir()
        return Ending(0)

    keys = study.runs()[:2]
    Execution(directory, keys[:1], FakeLauncher(act), 0, Seen(), discard_checkpoints=True).run()
    Execution(directory, keys[1:], FakeLauncher(act), 0, Seen()).run()
    assert not (directory.run(keys[0]) / "checkpoint").exists()
    assert (directory.run(keys[1]) / "checkpoint").exists()
