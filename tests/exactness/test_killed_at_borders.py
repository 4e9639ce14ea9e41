"""Runs that are killed at the border of a generation or trial, or while compiling with a cold cache, are exact."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.exactness import test_killed_generations as generations
from tests.exactness import test_killed_trials as trials
from tests.exactness import test_searl as searl
from tests.exactness.test_kill_and_resume import adaqn, arguments, exact_contents

RUNS = {
    "adadqn": lambda run_dir: generations.arguments(run_dir, generations.DISCRETE),
    "adasac": lambda run_dir: generations.arguments(run_dir, generations.CONTINUOUS),
    "searl": lambda run_dir: searl.arguments(run_dir, checkpoint_interval=37),
    **{name: lambda run_dir, name=name: trials.arguments(name, run_dir) for name in trials.SEARCHES},
}
# How many borders each run has at least; a trial has two, its end and the next one's start.
BORDERS = {"adadqn": 5, "adasac": 2, "searl": 3, "random-search": 8, "cleared": 8, "dehb": 8, "at borders": 8}


def contents(run_dir: Path) -> dict[str, object]:
    others = {path.name: path.read_bytes() for path in run_dir.glob("*.jsonl")}
    return exact_contents(run_dir) | others


def assert_exact_after(kills: list[tuple[str, int]], given: list[str], run_dir: Path, whole: Path) -> None:
    """A run that is killed at these points, one after the other, comes to what the whole one came to."""
    for index, (point, number) in enumerate(kills):
        again = ["resume", str(run_dir), "--quiet"] if index else given
        killed = adaqn(*again, before=[point, str(number)])
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert not (run_dir / "summary.json").exists()
    resumed = adaqn("resume", str(run_dir), "--quiet")
    assert (resumed.returncode, resumed.stderr) == (0, "")
    found, expected = contents(run_dir), contents(whole)
    assert [name for name in expected if found[name] != expected[name]] == []


@pytest.mark.thorough
@pytest.mark.parametrize("name", RUNS)
def test_killed_twice_at_borders_drawn_at_random(name: str, tmp_path: Path) -> None:
    whole, run_dir = tmp_path / "whole", tmp_path / "run"
    done = adaqn(*RUNS[name](whole))
    assert done.returncode == 0, done.stderr
    drawn = random.Random(name)
    # After a resume, a process counts the borders that are still ahead, so the second kill is at one of the first.
    kills = [("border", drawn.randint(1, BORDERS[name])), ("border", 1)]
    if kills[0][1] == BORDERS[name]:
        kills.pop()
    assert_exact_after(kills, RUNS[name](run_dir), run_dir, whole)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("point", "number"),
    [("any-compiling", 1), ("any-compiling", 3), ("any-compiling", 5), ("caching", 1), ("caching", 3), ("caching", 4)],
)
def test_killed_while_compiling_with_a_cold_cache(
    point: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADAQN_CACHE_DIR", str(tmp_path / "cache"))
    whole, run_dir = tmp_path / "whole", tmp_path / "run"
    given = arguments("CartPole-v1", 1, run_dir, steps="260")
    killed = adaqn(*given, before=[point, str(number)])
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    # It may have been killed before there was a run to resume.
    again = adaqn(*(["resume", str(run_dir), "--quiet"] if (run_dir / "config.yaml").exists() else given))
    assert (again.returncode, again.stderr) == (0, "")
    monkeypatch.setenv("ADAQN_CACHE_DIR", str(tmp_path / "another cache"))
    assert adaqn(*arguments("CartPole-v1", 1, whole, steps="260")).returncode == 0
    assert contents(run_dir) == contents(whole)


@pytest.mark.thorough
def test_killed_again_and_again_with_a_cold_cache_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, run_dir = tmp_path / "whole", tmp_path / "run"
    assert adaqn(*RUNS["adadqn"](whole)).returncode == 0
    drawn = random.Random(5)
    for attempt in range(3):
        monkeypatch.setenv("ADAQN_CACHE_DIR", str(tmp_path / f"cache-{attempt}"))
        given = ["resume", str(run_dir), "--quiet"] if attempt else RUNS["adadqn"](run_dir)
        # A process compiles some forty programs, of which the first dozen make the members.
        killed = adaqn(*given, before=["any-compiling", str(drawn.randint(20, 28))])
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = adaqn("resume", str(run_dir), "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert contents(run_dir) == contents(whole)
