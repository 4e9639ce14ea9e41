"""A run in a space that was killed around, in or after a generation is the run that was not, to the byte."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adaqn.runs.reading import member_of, read_members
from tests.exactness.test_kill_and_resume import adaqn, exact_contents

pytestmark = pytest.mark.thorough

SPACE = """
activation: [relu, tanh]
optimizer: [noisy_sgd, adam]
loss: [l2, huber]
learning_rate: [1.0e-3, 1.0e-1]
hidden: {layers: [0, 1], neurons: [2, 4]}
"""
DISCRETE = {
    "algo": "adadqn",
    "env": "CartPole-v1",
    "steps": "100",
    "learning-starts": "15",
    "target-update-interval": "10",
    "generation-interval": "20",
    "exploration-steps": "50",
    "buffer-size": "60",
}
CONTINUOUS = {
    "algo": "adasac",
    "env": "Pendulum-v1",
    "steps": "70",
    "learning-starts": "15",
    "selection-interval": "10",
    "generation-interval": "25",
    "actor-hidden": "3",
    "buffer-size": "60",
}


def arguments(run_dir: Path, settings: dict[str, str], n_envs: int = 1, **changes: str) -> list[str]:
    space = run_dir.with_name("space.yaml")
    space.write_text(SPACE)
    flags = settings | {
        "seed": "3",
        "n-envs": str(n_envs),
        "space": str(space),
        "population": "3",
        "batch-size": "4",
        "checkpoint-interval": "13",
        "eval-interval": "50",
        "eval-episodes": "1",
        "run-dir": str(run_dir),
    }
    flags |= {name.replace("_", "-"): value for name, value in changes.items()}
    return ["train", "--quiet", *(part for name, value in flags.items() for part in (f"--{name}", value))]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("uninterrupted") / "run"
    done = adaqn(*arguments(run_dir, DISCRETE))
    assert done.returncode == 0, done.stderr
    generations = architectures(run_dir)
    assert len(generations) == 6
    assert any(set(new) - set(generations[0]) for new in generations[1:]), "no architecture changed: try another seed"
    return run_dir


def architectures(run_dir: Path) -> list[list[Any]]:
    """Those of the members in every generation."""
    return [
        [member_of(member).architecture for member in line["members"]]
        for line in read_members(run_dir / "members.jsonl")
    ]


def killed_and_resumed(run_dir: Path, given: list[str], *points: tuple[str, str]) -> dict[str, object]:
    """What the run left that was killed at these points, one after the other, and then resumed."""
    for number, point in enumerate(points):
        again = ["resume", str(run_dir), "--quiet"] if number else given
        killed = adaqn(*again, before=list(point))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert not (run_dir / "summary.json").exists()
    resumed = adaqn("resume", str(run_dir), "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    return exact_contents(run_dir)


# Generations are at 20, 40, ..., checkpoints at multiples of 13, so that most are gone through again.
@pytest.mark.parametrize(
    "point", [("step", "39"), ("step", "40"), ("generation", "2"), ("step", "41"), ("update", "26")]
)
def test_killed_around_a_generation(point: tuple[str, str], uninterrupted: Path, tmp_path: Path) -> None:
    contents = killed_and_resumed(tmp_path / "run", arguments(tmp_path / "run", DISCRETE), point)
    assert contents == exact_contents(uninterrupted)


def test_killed_with_a_checkpoint_right_at_the_generation(uninterrupted: Path, tmp_path: Path) -> None:
    given = arguments(tmp_path / "run", DISCRETE, checkpoint_interval="20")
    contents, expected = killed_and_resumed(tmp_path / "run", given, ("step", "41")), exact_contents(uninterrupted)
    del contents["config.yaml"], expected["config.yaml"]  # which say how often a checkpoint is made
    assert contents == expected


def test_killed_while_a_childs_program_is_compiled(uninterrupted: Path, tmp_path: Path) -> None:
    # Equal architectures share a program, so the first of a child comes after those of the first members.
    first = len(set(architectures(uninterrupted)[0]))
    point = ("compiling", str(first + 1))
    contents = killed_and_resumed(tmp_path / "run", arguments(tmp_path / "run", DISCRETE), point)
    assert contents == exact_contents(uninterrupted)


def test_killed_again_and_again_in_several_environments(tmp_path: Path) -> None:
    whole, run_dir = tmp_path / "whole", tmp_path / "run"
    done = adaqn(*arguments(whole, DISCRETE, n_envs=3))
    assert done.returncode == 0, done.stderr
    points = ("generation", "1"), ("step", "42"), ("generation", "2")
    assert killed_and_resumed(run_dir, arguments(run_dir, DISCRETE, n_envs=3), *points) == exact_contents(whole)


def test_sac_killed_in_a_generation_and_after_it(tmp_path: Path) -> None:
    whole, run_dir = tmp_path / "whole", tmp_path / "run"
    done = adaqn(*arguments(whole, CONTINUOUS))
    assert done.returncode == 0, done.stderr
    assert len(read_members(whole / "members.jsonl")) == 3
    points = ("generation", "1"), ("step", "57")
    assert killed_and_resumed(run_dir, arguments(run_dir, CONTINUOUS), *points) == exact_contents(whole)


def test_a_scheduled_run_killed_after_its_member_changed(tmp_path: Path) -> None:
    schedule = tmp_path / "schedule.yaml"
    entries = [
        {"step": step, "hyperparameters": {"hidden": [width], "learning_rate": 0.01}}
        for step, width in ((0, 2), (20, 4), (60, 3))
    ]
    schedule.write_text(json.dumps({"schedule": entries}))
    flags = {name: value for name, value in DISCRETE.items() if name != "generation-interval"} | {
        "algo": "dqn", "schedule": str(schedule), "batch-size": "4", "checkpoint-interval": "13",
        "eval-interval": "50", "eval-episodes": "1",
    }  # fmt: skip
    given = ["train", "--quiet", *(part for name, value in flags.items() for part in (f"--{name}", value))]
    whole, run_dir = tmp_path / "whole", tmp_path / "run"
    done = adaqn(*given, "--run-dir", str(whole))
    assert done.returncode == 0, done.stderr
    assert [line["step"] for line in read_members(whole / "members.jsonl")] == [0, 20, 60]
    points = ("step", "33"), ("generation", "1")
    assert killed_and_resumed(run_dir, [*given, "--run-dir", str(run_dir)], *points) == exact_contents(whole)


def test_a_warm_cache_of_programs_changes_no_byte(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    environment = {
        name: value for name, value in os.environ.items() if name not in ("JAX_COMPILATION_CACHE_DIR", "XLA_FLAGS")
    }
    contents, kept = [], []
    for name in ("cold", "warm"):
        run_dir = tmp_path / name
        done = subprocess.run(
            [sys.executable, "-m", "adaqn.cli", *arguments(run_dir, DISCRETE, steps="50")],
            env=environment | {"ADAQN_CACHE_DIR": str(cache)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        contents.append(exact_contents(run_dir))
        kept.append({path.name for path in cache.iterdir() if path.name.endswith("-cache")})
    assert kept[0] and kept[0] == kept[1]  # all that the second needed was there
    assert contents[0] == contents[1]
