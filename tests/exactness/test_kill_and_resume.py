"""A run that was killed at any point and resumed is, to the byte, the run that was not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from adaqn.cli import main
from adaqn.networks.xla.threads import Threads
from adaqn.runs.checkpoint import CheckpointStore, recorded_threads

KILLED_RUN = Path(__file__).with_name("killed_run.py")
DISCRETE = {
    "algo": "adadqn",
    "steps": "900",
    "learning-starts": "100",
    "buffer-size": "400",
    "target-update-interval": "50",
    "exploration-steps": "200",
    "checkpoint-interval": "200",
    "eval-interval": "300",
    "grid": "hidden=8x8,12",
}
CONTINUOUS = {
    "algo": "adasac",
    "steps": "450",
    "learning-starts": "60",
    "buffer-size": "200",
    "batch-size": "8",
    "actor-hidden": "8",
    "selection-interval": "50",
    "checkpoint-interval": "100",
    "eval-interval": "200",
    "grid": "learning_rate=1e-3,1e-2,3e-3 hidden=8",
}
IMAGES = {
    "algo": "dqn",
    "steps": "450",
    "learning-starts": "60",
    "buffer-size": "200",
    "batch-size": "8",
    "train-freq": "4",
    "target-update-interval": "40",
    "exploration-steps": "100",
    "checkpoint-interval": "100",
    "eval-interval": "200",
    "env-kwargs": "{'max_episode_steps':90}",
}
WATCHING = {"log-interval": "100", "eval-episodes": "2"}
SETTINGS = {
    "CartPole-v1": DISCRETE,
    "LunarLander-v3": DISCRETE,
    "Pendulum-v1": CONTINUOUS,
    "Hopper-v5": CONTINUOUS,
    "MinAtar/Breakout": IMAGES,
    "Atari/Pong": IMAGES,
}


def arguments(env: str, n_envs: int, run_dir: Path, **changes: str) -> list[str]:
    flags = SETTINGS[env] | {"env": env, "n-envs": str(n_envs), "seed": "7"} | WATCHING | changes
    parts = (part for name, value in flags.items() for part in (f"--{name}", *value.split()))
    return ["train", "--quiet", "--run-dir", str(run_dir), *parts]


def adaqn(*given: str, before: list[str] | None = None, as_here: bool = False) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: optimized as users have it, or `as_here`, so that both can be compared."""
    program = [str(KILLED_RUN), *before, "--"] if before else ["-m", "adaqn.cli"]
    environment = {name: value for name, value in os.environ.items() if as_here or name != "XLA_FLAGS"}
    return subprocess.run(
        [sys.executable, *program, *given], env=environment, capture_output=True, text=True, timeout=300
    )


OBSERVATION_FILES = ("evaluations.csv", "best_model.csv", "best_model.zip")


def exact_contents(run_dir: Path) -> dict[str, object]:
    names = ("config.yaml", "episodes.csv", "selection.csv", "members.jsonl", *OBSERVATION_FILES)
    contents: dict[str, object] = {name: (run_dir / name).read_bytes() for name in names}
    summary = json.loads((run_dir / "summary.json").read_text())
    del summary["time"]
    return contents | {"summary.json": summary}


@pytest.fixture(autouse=True)
def in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo writes its warnings to a file in the directory that it runs in."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """The directory of a run that nothing disturbed; each is made once."""

    @cache
    def run(env: str, n_envs: int) -> Path:
        run_dir = tmp_path_factory.mktemp("uninterrupted") / "run"
        done = adaqn(*arguments(env, n_envs, run_dir))
        assert done.returncode == 0, done.stderr
        return run_dir

    return run


# Before the first update, between two checkpoints, right after one; while one is renamed into place, and while one is
# being written. The first checkpoint is that of step 0, and the third has another behind it.
POINTS = [("step", "60"), ("step", "437"), ("step", "601"), ("renaming", "3"), ("writing", "2")]
# Each starts two processes; the contract of the algorithms has many more points, within one process.
CASES = [("CartPole-v1", 1, *POINTS[k]) for k in (1, 3, 4)]
MORE_CASES = [
    *(("CartPole-v1", 1, *POINTS[k]) for k in (0, 2)),
    *(("CartPole-v1", 3, *POINTS[k]) for k in (1, 3)),
    *(("LunarLander-v3", n_envs, *point) for n_envs in (1, 3) for point in (POINTS[1], POINTS[3])),
    ("Pendulum-v1", 1, "step", "317"),
    ("Pendulum-v1", 1, "writing", "3"),
    ("Pendulum-v1", 3, "renaming", "3"),
    ("Hopper-v5", 1, "renaming", "3"),
    ("Hopper-v5", 3, "step", "317"),
    ("MinAtar/Breakout", 1, "step", "317"),
    ("MinAtar/Breakout", 3, "writing", "3"),
    ("Atari/Pong", 1, "step", "317"),
]


@pytest.mark.parametrize(
    ("env", "n_envs", "point", "number"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.thorough) for case in MORE_CASES)],
)
def test_killed_and_resumed_is_uninterrupted(
    env: str, n_envs: int, point: str, number: str, uninterrupted: Callable[[str, int], Path], tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    killed = adaqn(*arguments(env, n_envs, run_dir), before=[point, number])
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (run_dir / "summary.json").exists()
    resumed = adaqn("resume", str(run_dir), "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert exact_contents(run_dir) == exact_contents(uninterrupted(env, n_envs))


@pytest.mark.thorough
def test_killed_with_segments_n_steps_and_a_diverged_member(tmp_path: Path) -> None:
    # Enough rows for a full segment of the replay buffer; few updates, so that it is quick.
    changes = {"steps": "4800", "buffer-size": "4500", "train-freq": "20", "n-steps": "3", "checkpoint-interval": "600"}
    whole, run_dir = tmp_path / "whole", tmp_path / "run"
    grid = ["--grid", "hidden=8", "optimizer=sgd", "learning_rate=1e30,1e-3"]
    assert adaqn(*arguments("CartPole-v1", 1, whole, **changes), *grid).returncode == 0
    assert '"diverged": [\n    0\n  ]' in (whole / "summary.json").read_text()
    killed = adaqn(*arguments("CartPole-v1", 1, run_dir, **changes), *grid, before=["step", "4470"])
    assert killed.returncode == -signal.SIGKILL
    assert list((run_dir / "checkpoint" / "segments").glob("rows-*.zip"))
    assert adaqn("resume", str(run_dir), "--quiet").returncode == 0
    assert exact_contents(run_dir) == exact_contents(whole)


@pytest.mark.thorough
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_killed_with_normalized_observations(
    env: str, uninterrupted: Callable[[str, int], Path], tmp_path: Path
) -> None:
    whole, run_dir = tmp_path / "whole", tmp_path / "run"
    assert adaqn(*arguments(env, 3, whole, **{"normalize-observations": "true"})).returncode == 0
    killed = adaqn(*arguments(env, 3, run_dir, **{"normalize-observations": "true"}), before=["step", "317"])
    assert killed.returncode == -signal.SIGKILL
    assert adaqn("resume", str(run_dir), "--quiet").returncode == 0
    assert exact_contents(run_dir) == exact_contents(whole)
    assert exact_contents(run_dir)["selection.csv"] != exact_contents(uninterrupted(env, 3))["selection.csv"]


@pytest.mark.thorough
def test_killed_with_two_threads_and_resumed_with_as_many(tmp_path: Path) -> None:
    # The layers and batches of SAC, whose products are large enough to be divided.
    sizes = {"batch-size": "128", "actor-hidden": "256x256", "grid": "learning_rate=1e-3,3e-3 hidden=256x256"}
    changes = {"steps": "260", "threads": "2", **sizes}
    whole, run_dir = tmp_path / "whole", tmp_path / "run"
    assert adaqn(*arguments("Pendulum-v1", 1, whole, **changes)).returncode == 0
    assert adaqn(*arguments("Pendulum-v1", 1, run_dir, **changes), before=["step", "217"]).returncode == -signal.SIGKILL
    resumed = adaqn("resume", str(run_dir), "--quiet")  # in an environment that asks for one thread
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert recorded_threads(CheckpointStore(run_dir / "checkpoint")) == Threads(1, 2)
    assert exact_contents(run_dir) == exact_contents(whole)


@pytest.mark.thorough
def test_killed_again_and_again(uninterrupted: Callable[[str, int], Path], tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    adaqn(*arguments("LunarLander-v3", 3, run_dir), before=["step", "230"])
    for step in ("410", "640"):
        assert adaqn("resume", str(run_dir), "--quiet", before=["step", step]).returncode == -signal.SIGKILL
    assert adaqn("resume", str(run_dir), "--quiet").returncode == 0
    assert exact_contents(run_dir) == exact_contents(uninterrupted("LunarLander-v3", 3))


@pytest.mark.thorough
def test_torn_checkpoint_falls_back_to_the_one_before(
    uninterrupted: Callable[[str, int], Path], tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    adaqn(*arguments("CartPole-v1", 1, run_dir), before=["step", "750"])
    newest = max((run_dir / "checkpoint").glob("step-*.zip"))
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    resumed = adaqn("resume", str(run_dir), "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert "warning" in resumed.stderr and newest.name in resumed.stderr
    assert exact_contents(run_dir) == exact_contents(uninterrupted("CartPole-v1", 1))


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_leave_a_resumable_run(number: signal.Signals, tmp_path: Path) -> None:
    run_dir, whole = tmp_path / "run", tmp_path / "whole"
    adaqn(*arguments("CartPole-v1", 1, whole, steps="6000"))
    process = subprocess.Popen(
        [sys.executable, "-m", "adaqn.cli", *arguments("CartPole-v1", 1, run_dir, steps="6000")],
        env={name: value for name, value in os.environ.items() if name != "XLA_FLAGS"},
        stdout=subprocess.PIPE,
        text=True,
    )
    # Some rows of target updates are there: it is in the middle of learning.
    deadline = time.monotonic() + 120
    selection = run_dir / "selection.csv"
    while not (selection.exists() and selection.read_text().count("\n") > 8):
        assert time.monotonic() < deadline and process.poll() is None, "it never began to learn"
        time.sleep(0.01)
    os.kill(process.pid, number)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert f"adaqn resume {run_dir}" in output
    assert not (run_dir / "summary.json").exists()
    assert adaqn("resume", str(run_dir), "--quiet").returncode == 0
    assert exact_contents(run_dir) == exact_contents(whole)


def test_watching_changes_no_byte(tmp_path: Path) -> None:
    runs = []
    for index, interval in enumerate(("37", "300")):
        run_dir = tmp_path / str(index)
        changes = {"log-interval": interval, "checkpoint-interval": interval, "eval-interval": interval}
        assert main(arguments("CartPole-v1", 1, run_dir, **changes)) == 0
        contents = exact_contents(run_dir)
        for name in ("config.yaml", *OBSERVATION_FILES):  # these say how it was watched
            del contents[name]
        runs.append(contents)
    assert runs[0] == runs[1]
