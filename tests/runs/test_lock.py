"""One process per run directory, by a lock that ends with its process."""

from __future__ import annotations

import errno
import fcntl
import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from adaqn.base.errors import UserError
from adaqn.runs.lock import RunLock

HOLDER = """
import sys
from pathlib import Path
from adaqn.runs.lock import RunLock
lock = RunLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
sys.stdin.read()
lock.release()
"""


@contextmanager
def held_elsewhere(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until its input ends or it is killed."""
    command = [sys.executable, "-c", HOLDER, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        if process.poll() is None:
            process.communicate("")


def taken(directory: Path) -> bool:
    lock = RunLock(directory)
    try:
        lock.acquire()
    except UserError:
        return True
    lock.release()
    return False


def test_another_process_is_named_and_nothing_changes(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process:
        before = (tmp_path / ".lock").read_bytes()
        for attempt in (RunLock(tmp_path).acquire, RunLock(tmp_path).require_free):
            with pytest.raises(UserError) as caught:
                attempt()
            holder = json.loads(before)
            expected = f"is being written by process {process.pid} on {os.uname().nodename} (since {holder['since']})"
            assert expected in str(caught.value) and str(tmp_path) in str(caught.value)
        assert (tmp_path / ".lock").read_bytes() == before
    assert os.listdir(tmp_path) == []
    assert not taken(tmp_path)


def test_it_dies_with_a_process_that_is_killed(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process:
        process.kill()
        process.wait()
        assert (tmp_path / ".lock").exists(), "nobody could remove it"
        RunLock(tmp_path).require_free()
        lock = RunLock(tmp_path)
        lock.acquire()
        assert json.loads((tmp_path / ".lock").read_text())["process"] == os.getpid()
        lock.release()
    assert os.listdir(tmp_path) == []


def test_the_same_process_has_it_once(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    lock.acquire()
    with pytest.raises(UserError, match="is being written by another run of this process"):
        RunLock(tmp_path).acquire()
    # Neither that attempt nor reading or copying the directory releases it.
    shutil.copytree(tmp_path, tmp_path.with_name("copy"))
    assert taken(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    assert taken(tmp_path / "link"), "it is the directory that counts, and not its name"
    lock.release()
    lock.release()
    assert not taken(tmp_path)


def test_who_forgets_it_gives_it_up(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    lock.acquire()
    del lock
    gc.collect()
    assert not taken(tmp_path)


def test_a_forked_child_does_not_keep_it(tmp_path: Path) -> None:
    """Runs in a separate process, because JAX's threads and `fork` are incompatible."""
    program = """
import os, sys, time
from pathlib import Path
from adaqn.runs.lock import RunLock
lock = RunLock(Path(sys.argv[1]))
lock.acquire()
child = os.fork()
if child == 0:
    lock.release()  # not its own: nothing happens
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            assert taken(tmp_path)
            process.kill()
            process.wait()
            os.kill(child, 0)  # it is still there
            assert not taken(tmp_path)
        finally:
            os.kill(child, 9)


def test_what_the_holder_left_unsaid_is_not_invented(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path):
        (tmp_path / ".lock").write_text("[]")
        with pytest.raises(UserError, match="is being written by another process, and nothing was changed"):
            RunLock(tmp_path).acquire()


def test_a_lock_that_was_deleted_between_opening_and_locking_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, calls = fcntl.flock, []

    def after_a_deletion(descriptor: int, kind: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            os.unlink(tmp_path / ".lock")  # as its last holder does when it is done
        flock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", after_a_deletion)
    lock = RunLock(tmp_path)
    lock.acquire()
    assert len(calls) == 2 and (tmp_path / ".lock").exists()
    assert taken(tmp_path)
    lock.release()


def test_the_lock_of_another_directory_that_took_the_place_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    first = RunLock(tmp_path / "run")
    first.acquire()
    (tmp_path / "run").rename(tmp_path / "old")
    (tmp_path / "run").mkdir()
    second = RunLock(tmp_path / "run")
    second.acquire()
    first.release()
    assert taken(tmp_path / "run") and not taken(tmp_path / "old")
    second.release()


def raising(number: int) -> Callable[..., Any]:
    def flock(descriptor: int, kind: int) -> None:
        raise OSError(number, os.strerror(number))

    return flock


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_locks_it_is_said_that_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(fcntl, "flock", raising(number))
    lock = RunLock(tmp_path)
    lock.require_free()
    with pytest.warns(RuntimeWarning, match=r"does not support locks \(.*\): nothing prevents a second process"):
        lock.acquire()
    lock.release()
    assert os.listdir(tmp_path) == []


def test_other_faults_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"cannot lock .*nowhere with .*\.lock: No such file or directory"):
        RunLock(tmp_path / "nowhere").acquire()
    RunLock(tmp_path / "nowhere").require_free()
    (tmp_path / "target").write_text("precious")
    (tmp_path / ".lock").symlink_to(tmp_path / "target")
    with pytest.raises(UserError, match=r"cannot lock .*: Too many levels of symbolic links"):
        RunLock(tmp_path).acquire()
    assert (tmp_path / "target").read_text() == "precious"
    (tmp_path / ".lock").unlink()
    monkeypatch.setattr(fcntl, "flock", raising(errno.EIO))
    with pytest.raises(UserError, match=r"cannot lock .*: Input/output error"):
        RunLock(tmp_path).acquire()
