"""A run directory has one writer at a time, and any number of readers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adaqn import AdaDQN
from adaqn.base.errors import UserError
from adaqn.cli import main
from adaqn.runs.lock import RunLock
from adaqn.training.callbacks import EvalCallback
from tests.runs.killed import MEMBERS, SETTINGS, Killed, contents, kill_at, train
from tests.waiting import wait_for

TRAIN = [
    "train", "--quiet", "--env", "CartPole-v1", "--learning-starts", "50", "--target-update-interval", "20",
    "--batch-size", "8", "--grid", "hidden=8",
]  # fmt: skip


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("killed") / "run"
    with pytest.raises(Killed):
        train(run_dir, kill_at(150))
    return run_dir


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("finished") / "run"
    train(run_dir)
    return run_dir


@pytest.fixture
def locked(killed: Path, finished: Path) -> Iterator[None]:
    """Both are being written by another process."""
    locks = [RunLock(killed), RunLock(finished)]
    for lock in locks:
        lock.acquire()
    yield
    for lock in locks:
        lock.release()


@pytest.mark.usefixtures("locked")
def test_whoever_would_write_gets_one_sentence_and_changes_nothing(
    killed: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run_dir in (killed, finished):
        before = contents(run_dir)
        for arguments in (
            ["resume", str(run_dir), "--quiet"],
            [*TRAIN, "--steps", "300", "--run-dir", str(run_dir)],
            [*TRAIN, "--steps", "300", "--run-dir", str(run_dir), "--force"],
        ):
            assert main(arguments) == 1
            (line,) = capsys.readouterr().err.splitlines()
            assert f"{run_dir} is being written by another run of this process (since 20" in line
        with pytest.raises(UserError, match="is being written by"):
            AdaDQN.resume(run_dir)
        for force in (False, True):
            with pytest.raises(UserError, match="is being written by"):
                AdaDQN("CartPole-v1", MEMBERS, **SETTINGS).learn(300, run_dir=run_dir, force=force)
        assert contents(run_dir) == before


@pytest.mark.usefixtures("locked")
def test_reading_needs_no_lock(killed: Path, tmp_path: Path) -> None:
    assert AdaDQN.from_run(killed).num_timesteps == 100
    assert main(["evaluate", str(killed), "--episodes", "1"]) == 0
    for command, name in (("export", "policy.npz"), ("picture", "picture.png"), ("schedule", "schedule.yaml")):
        assert main([command, str(killed), "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).exists()


def test_the_lock_is_held_to_the_end_and_given_back(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    seen: list[str] = []

    def try_again(trainer: Any) -> None:
        if trainer.clock.step in (60, 300):
            with pytest.raises(UserError, match="another run of this process"):
                AdaDQN.resume(run_dir)
            with pytest.raises(UserError, match="another run of this process"):
                AdaDQN("CartPole-v1", MEMBERS, **SETTINGS).learn(300, run_dir=run_dir, force=True)
            seen.append("refused")

    class Closing(EvalCallback):
        def on_close(self, trainer: Any) -> None:
            super().on_close(trainer)
            if (run_dir / "summary.json").exists():
                assert main(["resume", str(run_dir)]) == 1
                seen.append("finished, but still being written")

    train(run_dir, try_again, Closing())
    assert seen == ["refused", "refused", "finished, but still being written"]
    assert not (run_dir / ".lock").exists()
    assert AdaDQN.resume(run_dir).num_timesteps == 400


def test_an_error_gives_it_back(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with pytest.raises(UserError, match="is not empty"):
        (run_dir / "plots").mkdir(parents=True)
        train(run_dir)
    assert os.listdir(run_dir) == ["plots"], "nothing is put into a directory that is none of ours"
    (run_dir / "plots").rmdir()
    with pytest.raises(Killed):
        train(run_dir, kill_at(130))
    assert not (run_dir / ".lock").exists()
    (run_dir / "episodes.csv").rename(run_dir / "moved")
    with pytest.raises(UserError, match="is missing"):
        AdaDQN.resume(run_dir)
    (run_dir / "moved").rename(run_dir / "episodes.csv")
    assert AdaDQN.resume(run_dir).num_timesteps == 400


def adaqn(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "adaqn.cli", *arguments], capture_output=True, text=True, timeout=300)


def wait_for_rows(process: subprocess.Popen[Any], path: Path, rows: int) -> None:
    wait_for(lambda: path.exists() and path.read_text().count("\n") > rows, process=process)


@pytest.mark.thorough
def test_a_killed_process_leaves_the_run_to_the_next(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    command = [*TRAIN, "--steps", "1500", "--checkpoint-interval", "100", "--run-dir", str(run_dir)]
    with subprocess.Popen([sys.executable, "-m", "adaqn.cli", *command]) as process:
        wait_for_rows(process, run_dir / "selection.csv", 10)
        os.kill(process.pid, signal.SIGSTOP)  # it is suspended, and still holds the lock
        before = contents(run_dir)
        second = adaqn("resume", str(run_dir))
        assert second.returncode == 1
        assert f"is being written by process {process.pid} on {os.uname().nodename} (since " in second.stderr
        assert len(second.stderr.splitlines()) == 1
        assert contents(run_dir) == before
        os.kill(process.pid, signal.SIGKILL)
    assert (run_dir / ".lock").exists() and not (run_dir / "summary.json").exists()
    resumed = adaqn("resume", str(run_dir), "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert (run_dir / "summary.json").exists() and not (run_dir / ".lock").exists()


@pytest.mark.thorough
def test_of_many_that_begin_at_once_one_goes_through(tmp_path: Path) -> None:
    run_dir, whole = tmp_path / "run", tmp_path / "whole"
    command = [*TRAIN, "--steps", "600", "--checkpoint-interval", "100", "--run-dir"]
    assert adaqn(*command, str(whole)).returncode == 0
    crowd = [
        subprocess.Popen([sys.executable, "-m", "adaqn.cli", *command, str(run_dir)], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    errors = [process.communicate(timeout=300)[1] for process in crowd]
    statuses = [process.returncode for process in crowd]
    assert sorted(statuses) == [0, 1, 1, 1], errors
    for status, error in zip(statuses, errors, strict=True):
        assert status == 0 or "is being written by" in error or "is not empty" in error
    for name in ("episodes.csv", "selection.csv", "members.jsonl"):
        assert (run_dir / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.thorough
@pytest.mark.parametrize("force", [False, True])
def test_a_second_training_is_refused_while_one_goes_on(force: bool, tmp_path: Path) -> None:
    run_dir, whole = tmp_path / "run", tmp_path / "whole"
    command = [*TRAIN, "--steps", "15000", "--checkpoint-interval", "500", "--run-dir"]
    assert adaqn(*command, str(whole)).returncode == 0
    with subprocess.Popen([sys.executable, "-m", "adaqn.cli", *command, str(run_dir)]) as process:
        wait_for_rows(process, run_dir / "selection.csv", 3)
        second = adaqn(*command, str(run_dir), *(["--force"] if force else []))
        assert process.poll() is None, "it was over too soon to show anything"
        assert second.returncode == 1 and f"is being written by process {process.pid} on" in second.stderr
        assert process.wait(timeout=300) == 0
    for name in ("episodes.csv", "selection.csv", "members.jsonl"):
        assert (run_dir / name).read_bytes() == (whole / name).read_bytes()
