"""System errors are reported in one sentence, the run is kept, and it resumes exactly once the cause is gone."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from adaqn import AdaDQN, Hyperparameters
from adaqn.base.errors import CheckpointError, MemoryFault
from adaqn.cli import main
from adaqn.networks.xla.compilation import LEAST_ADDRESS_SPACE, require_address_space
from adaqn.replay.memory import available_memory
from adaqn.replay.vectors import VectorReplay
from adaqn.runs.checkpoint import CheckpointStore
from adaqn.training.trainer import Trainer
from tests.exactness.test_kill_and_resume import exact_contents
from tests.full_disk import full_disk

SETTINGS = [
    "--env", "CartPole-v1", "--steps", "400", "--learning-starts", "50", "--batch-size", "8", "--buffer-size", "200",
    "--grid", "hidden=8,6", "--target-update-interval", "20", "--log-interval", "50",
    "--eval-interval", "100", "--eval-episodes", "1", "--checkpoint-interval", "90",
]  # fmt: skip
MODEL: dict[str, Any] = {"learning_starts": 50, "batch_size": 8, "buffer_size": 200, "target_update_interval": 20}


def train(run_dir: Path) -> int:
    return main(["train", "--quiet", *SETTINGS, "--run-dir", str(run_dir)])


def resume(run_dir: Path) -> int:
    return main(["resume", "--quiet", str(run_dir)])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("whole") / "run"
    assert train(run_dir) == 0
    return run_dir


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make segments so small that even these runs write some."""
    monkeypatch.setattr(CheckpointStore.__init__, "__defaults__", (64,))


# Files that the exact results or the checkpoints need, with the number of writes before they fail: none, or about half
# of those of a run.
NEEDED = [
    (r"episodes\.csv", (0, 8)),
    (r"selection\.csv", (0, 8)),
    (r"members\.jsonl", (0,)),
    (r"\.?evaluations\.csv.*", (0, 2)),
    (r"\.step-\d+\.zip\..*", (0, 200)),
    (r"\.rows-.*", (0, 30)),
    (r"\.end\.zip\..*", (0,)),
    (r"\.best_model\.zip\..*", (0,)),
    (r"\.summary\.json\..*", (0,)),
]
CASES = [(pattern, writes) for pattern, counts in NEEDED for writes in counts]
QUICK = [CASES[1], CASES[8]]


@pytest.mark.parametrize(
    ("pattern", "writes"),
    [*QUICK, *(pytest.param(*case, marks=pytest.mark.thorough) for case in CASES if case not in QUICK)],
)
def test_a_full_disk_is_a_sentence_and_the_run_goes_on_when_there_is_room(
    pattern: str, writes: int, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = tmp_path / "run"
    with full_disk(pattern, writes) as disk:
        assert train(run_dir) == 1
    assert disk.refused >= 1
    [message] = capsys.readouterr().err.splitlines()
    assert message.startswith(f"adaqn: cannot write {run_dir}") and "No space left on device; " in message
    assert f"`adaqn resume {run_dir}`" in message
    assert not (run_dir / "summary.json").exists()
    assert resume(run_dir) == 0
    assert exact_contents(run_dir) == exact_contents(whole)
    assert not list(run_dir.rglob("*.tmp"))


def test_a_disk_that_is_full_from_the_start_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], whole: Path
) -> None:
    run_dir = tmp_path / "run"
    with full_disk(r"\.config\.yaml\..*"):
        assert train(run_dir) == 1
    assert capsys.readouterr().err == f"adaqn: cannot write {run_dir}/config.yaml: No space left on device\n"
    assert list(run_dir.iterdir()) == []
    assert train(run_dir) == 0
    assert exact_contents(run_dir) == exact_contents(whole)


@pytest.mark.filterwarnings("default:cannot write")
@pytest.mark.parametrize("pattern", [r"\.?progress\.csv.*", r"events\.out\.tfevents.*"])
def test_what_only_shows_metrics_is_done_without(
    pattern: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = tmp_path / "run"
    with full_disk(pattern, writes=2):
        assert train(run_dir) == 0
    [warning] = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"adaqn: warning: cannot write {run_dir}") and "the run goes on without it" in warning
    assert exact_contents(run_dir) == exact_contents(whole)


@contextmanager
def limited(kind: int, limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


@pytest.mark.filterwarnings("ignore:compiled programs are not kept", "ignore:cannot write")
@pytest.mark.parametrize("limit", [100, pytest.param(4_000, marks=pytest.mark.thorough), 15_000])
def test_a_limit_for_files_of_the_system_itself(
    limit: int, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = tmp_path / "run"
    with limited(resource.RLIMIT_FSIZE, limit):
        status = train(run_dir)
    message = capsys.readouterr().err.splitlines()[-1]
    assert status == 1 and "File too large" in message
    assert (resume if (run_dir / "config.yaml").exists() else train)(run_dir) == 0
    assert exact_contents(run_dir) == exact_contents(whole)


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.EIO])
def test_other_refusals_are_told_by_their_names(error: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with full_disk(r"selection\.csv", 3, error):
        assert train(tmp_path / "run") == 1
    [message] = capsys.readouterr().err.splitlines()
    assert f"selection.csv: {os.strerror(error)}; the run so far is kept" in message


def test_a_place_where_nothing_can_be_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert train(Path("/proc/run")) == 1
    [message] = capsys.readouterr().err.splitlines()
    assert message.startswith("adaqn: cannot make the run directory /proc/run: ")


def agent() -> AdaDQN:
    return AdaDQN("CartPole-v1", [Hyperparameters(hidden=(8,)), Hyperparameters(hidden=(6,))], **MODEL)


def test_a_directory_that_is_removed_meanwhile_is_not_made_again(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"

    def remove(trainer: Trainer) -> None:
        if trainer.clock.step == 130:
            shutil.rmtree(run_dir)

    with pytest.raises(CheckpointError, match=r"removed or replaced while .*; the run directory .* is gone"):
        agent().learn(400, callback=remove, run_dir=run_dir, checkpoint_interval=50, log_interval=1000)
    assert not run_dir.exists()


def test_a_directory_that_is_replaced_meanwhile_is_left_alone_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    whole, run_dir, moved = tmp_path / "whole", tmp_path / "run", tmp_path / "moved"
    agent().learn(400, run_dir=whole)

    def replace(trainer: Trainer) -> None:
        if trainer.clock.step == 130:
            run_dir.rename(moved)
            run_dir.mkdir()
            (run_dir / "notes.txt").write_text("mine")

    with pytest.raises(CheckpointError, match=r"removed or replaced while .*; the run directory .* is gone"):
        agent().learn(400, callback=replace, run_dir=run_dir, checkpoint_interval=50, log_interval=1000)
    assert [path.name for path in run_dir.iterdir()] == ["notes.txt"]
    AdaDQN.resume(moved)
    for name in ("episodes.csv", "selection.csv"):
        assert (moved / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize("error", [MemoryError("Unable to allocate 7 GiB"), MemoryError()])
def test_memory_that_is_not_given_is_a_sentence_and_the_run_is_kept(
    error: MemoryError, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = tmp_path / "run"
    add, calls = VectorReplay.add, []

    def refused(self: VectorReplay, transitions: Any) -> None:
        calls.append(1)
        if len(calls) == 230:
            raise error
        add(self, transitions)

    monkeypatch.setattr(VectorReplay, "add", refused)
    assert train(run_dir) == 1
    [message] = capsys.readouterr().err.splitlines()
    assert (
        message.startswith("adaqn: there is not enough memory (") and f"`adaqn resume {run_dir}` continues" in message
    )
    assert str(error) in message
    assert resume(run_dir) == 0
    assert exact_contents(run_dir) == exact_contents(whole)
    calls.clear()
    with pytest.raises(MemoryFault):
        agent().learn(400)


def test_the_limit_of_the_address_space_counts_as_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    used = pages * resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (used + 50_000_000, resource.RLIM_INFINITY))
    available = available_memory()
    assert available is not None and available <= 50_000_000 + 10_000_000
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    unlimited = available_memory()
    assert unlimited is None or unlimited > 100_000_000


def test_an_address_space_that_jax_cannot_start_in_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1_000_000_000, resource.RLIM_INFINITY))
    with pytest.raises(MemoryFault, match=r"limited to 1\.00 GB, but JAX needs 1\.6 GB to start: .* \(ulimit -v\)"):
        require_address_space()
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (LEAST_ADDRESS_SPACE, resource.RLIM_INFINITY))
    require_address_space()


@pytest.mark.thorough
@pytest.mark.parametrize(("limit", "status"), [(1_000_000_000, 1), (LEAST_ADDRESS_SPACE + 100_000_000, 0)])
def test_a_limit_of_the_address_space_itself(limit: int, status: int, tmp_path: Path) -> None:
    code = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))"
    done = process(code, "train", "--quiet", *SETTINGS, ADAQN_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == status, done.stderr
    assert len(done.stderr.splitlines()) == status


def test_no_semaphores_of_the_system_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a system without /dev/shm."""
    import multiprocessing.synchronize

    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(multiprocessing.synchronize.SemLock, "__init__", missing)
    AdaDQN("CartPole-v1", [Hyperparameters(hidden=(8,))], n_envs=2, **MODEL).learn(120, run_dir=tmp_path / "run")
    assert (tmp_path / "run" / "summary.json").exists()


def process(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `adaqn` in a separate process, without a home or cache directory unless given."""
    removed = ("HOME", "XDG_CACHE_HOME", "ADAQN_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR")
    known = {name: value for name, value in os.environ.items() if name not in removed}
    return subprocess.run(
        [sys.executable, "-c", f"{code}\nfrom adaqn.cli import main\nraise SystemExit(main())", *arguments],
        env=known | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


NO_ENTRY = """
import pwd
def missing(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")
pwd.getpwuid = missing
"""


@pytest.mark.thorough
def test_a_user_without_a_home_or_an_entry(whole: Path, tmp_path: Path) -> None:
    done = process(NO_ENTRY, "train", "--quiet", *SETTINGS, "--run-dir", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    [warning] = done.stderr.splitlines()
    assert warning.startswith("adaqn: warning: compiled programs are not cached for the next start: there is no home")
    assert exact_contents(tmp_path / "run") == exact_contents(whole)


@pytest.mark.thorough
def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    done = process("", "train", "--quiet", *SETTINGS, "--run-dir", str(tmp_path / "run"), HOME="/proc/home")
    assert done.returncode == 0
    [warning] = done.stderr.splitlines()
    assert "compiled programs are not cached for the next start: cannot make /proc/home/.cache/adaqn" in warning


@pytest.mark.thorough
@pytest.mark.parametrize("descriptors", [5, 6, 7, 8, 12])
def test_few_file_descriptors(descriptors: int, whole: Path, tmp_path: Path) -> None:
    run_dir, cache = tmp_path / "run", str(tmp_path / "cache")
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({descriptors}, {descriptors}))"
    done = process(limit, "train", "--quiet", *SETTINGS, "--run-dir", str(run_dir), ADAQN_CACHE_DIR=cache)
    assert "Traceback" not in done.stderr
    if done.returncode != 0:
        assert done.returncode == 1
        assert "Too many open files" in done.stderr.splitlines()[-1]
        assert (resume if (run_dir / "config.yaml").exists() else train)(run_dir) == 0
    assert exact_contents(run_dir) == exact_contents(whole)
