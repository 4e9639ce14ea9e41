"""Where runs execute: processes of this machine here; all launchers in the contract below."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from adaqn.base.errors import UserError
from adaqn.studies import processes
from adaqn.studies.launchers import LAUNCHERS, Ending, Job, Options, open_launcher
from adaqn.studies.launchers.local import LocalLauncher
from adaqn.studies.study import RunKey
from tests.waiting import wait_for

STUBBORN = """
import signal, sys, time
def end(*_):
    print("checkpoint", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
print("begun", flush=True)
time.sleep(60)
"""


def job(tmp_path: Path, seed: int, memory: int = 0) -> Job:
    key = RunKey("arm", "env", seed)
    return Job(tmp_path, key, tmp_path / "logs" / f"{key.path}.log", memory)


def executing(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Execute this program instead of runs."""
    monkeypatch.setattr(processes, "command", lambda job: [sys.executable, "-S", "-c", program, str(job.key.seed)])


def ended(launcher: LocalLauncher, handle: subprocess.Popen[bytes]) -> Ending:
    wait_for(lambda: handle.poll() is not None)
    ending = launcher.ending(handle)
    assert ending is not None
    return ending


def test_there_is_a_launcher_for_each_file() -> None:
    assert {"local", "ray", "slurm"} <= set(LAUNCHERS.names())
    with pytest.raises(UserError, match="unknown launcher 'slrum'; did you mean 'slurm'"):
        open_launcher("slrum", Options(Path("x")))


def test_so_many_run_at_a_time_and_the_exit_status_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executing(monkeypatch, "import sys; print('seed', sys.argv[1]); sys.exit(3 * int(sys.argv[1]))")
    launcher = LocalLauncher(2, None)
    jobs = [job(tmp_path, seed) for seed in range(3)]
    handles = launcher.start(iter(jobs))
    assert list(handles) == [each.key for each in jobs[:2]]
    assert launcher.start(iter(jobs[2:])) == {}
    assert [ended(launcher, handle) for handle in handles.values()] == [Ending(0), Ending(3)]
    assert jobs[1].log.read_text() == "seed 1\n"
    (handle,) = launcher.start(iter(jobs[2:])).values()
    assert ended(launcher, handle) == Ending(6)


def test_no_more_are_started_than_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executing(monkeypatch, STUBBORN)
    launcher = LocalLauncher(8, memory=100)
    jobs = [job(tmp_path, seed, memory) for seed, memory in enumerate((60, 40, 1))]
    assert list(launcher.start(iter(jobs))) == [jobs[0].key, jobs[1].key]
    launcher.stop()
    # One that is too large for the machine is for itself to refuse.
    assert list(launcher.start(iter([job(tmp_path, 7, 500), job(tmp_path, 8, 0)]))) == [RunKey("arm", "env", 7)]
    launcher.stop()


def test_a_killed_process_says_by_which_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executing(monkeypatch, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    launcher = LocalLauncher(1, None)
    (handle,) = launcher.start(iter([job(tmp_path, 0)])).values()
    assert ended(launcher, handle) == Ending(None, "its process was ended by SIGKILL")


def test_stopping_lets_every_run_make_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executing(monkeypatch, STUBBORN)
    launcher = LocalLauncher(2, None)
    jobs = [job(tmp_path, seed) for seed in range(2)]
    handles = launcher.start(iter(jobs))
    wait_for(lambda: all(each.log.is_file() and each.log.read_text() == "begun\n" for each in jobs))
    launcher.stop()
    assert [handle.returncode for handle in handles.values()] == [143, 143]
    assert [each.log.read_text() for each in jobs] == ["begun\ncheckpoint\n"] * 2


def test_waiting_can_be_interrupted_by_a_signal_that_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a preemption does: the handler runs in the middle of the waiting, and waits for the process itself."""
    executing(monkeypatch, STUBBORN)
    stubborn = job(tmp_path, 0)
    attempt = processes.Attempt(stubborn)
    seen: list[str] = []

    def preempted(*_: object) -> None:
        attempt.stop()
        seen.append(stubborn.log.read_text())

    before = signal.signal(signal.SIGUSR2, preempted)
    try:
        wait_for(lambda: stubborn.log.read_text() == "begun\n")
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGUSR2)).start()
        assert attempt.wait() == Ending(143)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert seen == ["begun\ncheckpoint\n"]


def test_a_run_that_does_not_end_when_asked_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE", 0.2)
    executing(monkeypatch, STUBBORN.replace("sys.exit(143)", "pass"))
    stubborn = job(tmp_path, 0)
    attempt = processes.Attempt(stubborn)
    wait_for(lambda: stubborn.log.read_text() == "begun\n")
    attempt.stop()
    assert attempt.wait() == Ending(None, "its process was ended by SIGKILL")


def test_a_run_takes_one_thread_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in processes.ONE_THREAD:
        monkeypatch.delenv(name, raising=False)
    assert processes.process_environment()["OMP_NUM_THREADS"] == "1"
    assert processes.process_environment()["PJRT_NPROC"] == "1"
    assert processes.process_environment()["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"  # several may share a GPU
    for name in ("PJRT_NPROC", "ADAQN_PJRT_NPROC"):
        monkeypatch.setenv(name, "2")  # chosen by adaqn for an agent of this process
    assert processes.process_environment()["PJRT_NPROC"] == "1"
    monkeypatch.setenv("PJRT_NPROC", "3")
    assert processes.process_environment()["PJRT_NPROC"] == "3"
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert processes.process_environment()["OMP_NUM_THREADS"] == "4"


def test_a_tied_process_ends_as_by_a_signal_when_its_parent_is_gone() -> None:
    program = (
        "import signal, sys, time\n"
        "from adaqn.studies.work import end_with_parent\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit('checkpoint'))\n"
        "end_with_parent()\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin and process.stdout and process.stderr
    with process:
        assert process.stdout.readline() == b"ready\n"
        process.stdin.close()
        assert process.wait(30) == 1
        assert process.stderr.read() == b"checkpoint\n"


@pytest.mark.parametrize(("launcher", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_missing_extra_is_one_sentence(
    launcher: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf'needs the package {package}.*pip install "adaqn\[{launcher}\]"'):
        open_launcher(launcher, Options(tmp_path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(Path("x"), address="auto"), "--address is for a cluster of Ray"),
        (Options(Path("x"), resources={"gpu": "1"}), "no resources to set, but got 'gpu'"),
        (Options(Path("x"), jobs=0), "--jobs must be a whole number of at least 1"),
    ],
)
def test_the_local_launcher_refuses_what_it_cannot_use(options: Options, message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_launcher("local", options)


def test_runs_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """Also when that is killed: the pipe to their standard input is closed by the system."""
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from adaqn.studies import processes\n"
        "from adaqn.studies.launchers import Job\n"
        "from adaqn.studies.study import RunKey\n"
        'tied = \'import sys; print("begun", flush=True); sys.stdin.read(); print("over", flush=True)\'\n'
        "processes.command = lambda job: [sys.executable, '-S', '-c', tied]\n"
        f"job = Job(Path({str(tmp_path)!r}), RunKey('a', 'e', 0), Path({str(tmp_path / 'log')!r}), 0)\n"
        "process = processes.start_process(job)\n"
        "time.sleep(60)\n"
    )
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        wait_for(lambda: log.is_file() and log.read_text() == "begun\n")
        parent.kill()
    wait_for(lambda: log.read_text() == "begun\nover\n")
