"""Whole studies of real runs: interrupted, shared, on a cluster that loses a node; always the same bytes."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from adaqn.base.files import Json
from adaqn.networks.xla.threads import Threads
from adaqn.runs.checkpoint import CheckpointStore, recorded_threads
from adaqn.runs.directory import EXACT_FILES
from adaqn.studies.definition import expand
from adaqn.studies.directory import StudyDirectory
from adaqn.studies.study import RunKey
from tests.studies.tiny import TINY
from tests.waiting import wait_for

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]
# Long enough to be interrupted, and with checkpoints to go on from.
WHOLE: Json = {
    **TINY,
    "name": "whole",
    "run": {"steps": 8000, "checkpoint_interval": 500},
    "seeds": 3,
    "arms": {"adadqn": {}},
}
ENVIRONMENT = {**os.environ, "RAY_worker_niceness": "0"}  # or workers get no time beside other tests
KEYS = expand(WHOLE, "whole").runs()


def start(where: Path, *arguments: str, environ: dict[str, str] = ENVIRONMENT) -> subprocess.Popen[str]:
    """`adaqn study` in a process of its own."""
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "adaqn.cli",
            "study",
            str(where / "whole.yaml"),
            "--dir",
            str(where / "study"),
            *arguments,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=environ,
    )


def ends_well(process: subprocess.Popen[str], status: int = 0) -> str:
    output, _ = process.communicate(timeout=400)
    assert process.returncode == status, output
    return output


def exact_files(where: Path) -> dict[str, bytes]:
    files = [key.path / name for key in KEYS for name in EXACT_FILES]
    return {str(file): (where / "study" / file).read_bytes() for file in files if (where / "study" / file).is_file()}


def fresh(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "whole.yaml").write_text(yaml.safe_dump(WHOLE))
    return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a study that ran through on this machine."""
    where = fresh(tmp_path_factory.mktemp("reference"))
    output = ends_well(start(where))
    assert "3 of 3 runs are finished" in output
    files = exact_files(where)
    tables = [content for name, content in files.items() if name.endswith("episodes.csv")]
    assert len(tables) == len(set(tables)) == 3  # no two runs are the same
    return files


def of_first(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files of the first run."""
    return {name: content for name, content in files.items() if name.startswith(f"{KEYS[0]}/")}


def test_ctrl_c_leaves_all_to_be_resumed_and_the_same_command_goes_on(
    tmp_path: Path, reference: dict[str, bytes]
) -> None:
    where = fresh(tmp_path)
    directory = StudyDirectory(where / "study")
    process = start(where, "--jobs", "2")
    wait_for(lambda: any(directory.state(key).step >= 500 for key in KEYS[:2]), process=process)
    process.send_signal(signal.SIGINT)
    assert "interrupted by SIGINT: the same command goes on" in ends_well(process, 130)
    states = [directory.state(key) for key in KEYS]
    assert all(state.status in ("interrupted", "missing", "finished") for state in states)  # nobody holds a lock
    assert any(state.status == "interrupted" for state in states)
    ends_well(start(where))
    assert exact_files(where) == reference


def test_a_killed_study_takes_its_runs_along_and_can_be_resumed(tmp_path: Path, reference: dict[str, bytes]) -> None:
    where = fresh(tmp_path)
    directory = StudyDirectory(where / "study")
    process = start(where, "--seeds", "0")
    wait_for(lambda: directory.state(KEYS[0]).step >= 500, process=process)
    process.kill()
    process.communicate()
    wait_for(lambda: not directory.is_locked(KEYS[0]), 60.0)
    assert directory.state(KEYS[0]).status == "interrupted"
    ends_well(start(where, "--seeds", "0"))
    assert exact_files(where) == of_first(reference)


def test_two_commands_work_on_one_study_together(tmp_path: Path, reference: dict[str, bytes]) -> None:
    where = fresh(tmp_path)
    both = [start(where, "--jobs", "1") for _ in range(2)]
    for process in both:
        assert "3 of 3 runs are finished" in ends_well(process)
    assert exact_files(where) == reference
    assert not list((where / "study" / "logs").rglob("*.failed"))


def test_a_run_that_cannot_be_made_fails_alone_and_is_listed(tmp_path: Path) -> None:
    where = fresh(tmp_path)
    broken = {
        **WHOLE,
        "environments": ["CartPole-v1", "CartPole-v99"],
        "seeds": 1,
        "arms": {"dqn": {"algo": "dqn", "member": 0}},
    }
    (where / "whole.yaml").write_text(yaml.safe_dump(broken))
    output = ends_well(start(where, "--retries", "1"), 1)
    assert "failed: dqn/CartPole-v99/0 after 2 attempts:" in output
    log = where / "study" / "logs" / "dqn" / "CartPole-v99" / "0.log"
    assert f"its log: {log}" in output and "CartPole-v99" in log.read_text()
    assert StudyDirectory(where / "study").is_finished(RunKey("dqn", "CartPole-v1", 0))


needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra ray is not installed")
needs_submitit = pytest.mark.skipif(
    importlib.util.find_spec("submitit") is None, reason="the extra slurm is not installed"
)


def interrupted_run(module: str, where: Path) -> RunKey:
    """Run a study by a script that interrupts one of its runs, and return which."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.studies.{module}", str(where / "whole.yaml"), str(where / "study")],
        capture_output=True,
        text=True,
        timeout=400,
        cwd=ROOT,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return RunKey.parse(done.stdout.splitlines()[-1].partition(": ")[2])


def starts(where: Path, key: RunKey) -> int:
    """How often a run was begun or gone on with, by its log."""
    return StudyDirectory(where / "study").log(key).read_text().count("algorithm ")


@needs_ray
def test_a_ray_cluster_that_loses_a_node_finishes_all_with_the_same_bytes(
    tmp_path: Path, reference: dict[str, bytes]
) -> None:
    where = fresh(tmp_path)
    lost = interrupted_run("lost_node", where)
    assert exact_files(where) == reference
    assert starts(where, lost) == 2


@needs_ray
def test_the_command_line_starts_a_ray_of_its_own(tmp_path: Path, reference: dict[str, bytes]) -> None:
    where = fresh(tmp_path)
    assert "1 of 1 runs are finished" in ends_well(start(where, "--seeds", "0", "--launcher", "ray", "--jobs", "1"))
    assert exact_files(where) == of_first(reference)


@needs_submitit
def test_a_preempted_job_of_submitit_is_queued_again_and_goes_on(tmp_path: Path, reference: dict[str, bytes]) -> None:
    where = fresh(tmp_path)
    preempted = interrupted_run("preempted", where)
    assert exact_files(where) == reference
    assert starts(where, preempted) == 2
    output = "".join(file.read_text() for file in (where / "study" / "logs" / "slurm").glob("*.out"))
    assert "this job is preempted" in output and "Requeued job" in output


@needs_submitit
def test_the_command_line_runs_a_study_through_submitit(tmp_path: Path, reference: dict[str, bytes]) -> None:
    where = fresh(tmp_path)
    output = ends_well(start(where, "--seeds", "0", "--launcher", "slurm", "--resource", "cluster=local"))
    assert "1 of 1 runs are finished" in output
    assert exact_files(where) == of_first(reference)


def test_a_run_has_one_thread_or_those_of_its_arm(tmp_path: Path) -> None:
    arms = {"one": {}, "three": {"threads": 3}}
    (tmp_path / "whole.yaml").write_text(yaml.safe_dump({**TINY, "seeds": 1, "arms": arms}))
    environ = {name: value for name, value in ENVIRONMENT.items() if name != "PJRT_NPROC"}
    ends_well(start(tmp_path, "--no-calibration", environ=environ))
    directory = StudyDirectory(tmp_path / "study")
    runs = [directory.run(RunKey(arm, "CartPole-v1", 0)) for arm in arms]
    assert [recorded_threads(CheckpointStore(run / "checkpoint")) for run in runs] == [Threads(1), Threads(1, 2)]
