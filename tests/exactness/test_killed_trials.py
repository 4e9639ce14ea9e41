"""A search that was killed, in the midst of a trial or at its border, and resumed is to the byte one that was not."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.exactness.test_kill_and_resume import adaqn

pytestmark = pytest.mark.thorough

SPACE = """
activation: relu
optimizer: [sgd, adam]
loss: l2
learning_rate: [1.0e-4, 1.0e-2]
hidden: {layers: 0, neurons: 1}
"""
SETTINGS = {
    "env": "CartPole-v1",
    "steps": "750",
    "seed": "7",
    "learning-starts": "50",
    "buffer-size": "300",
    "target-update-interval": "40",
    "exploration-steps": "100",
    "epoch-steps": "100",
    "checkpoint-interval": "70",
    "log-interval": "100",
    "eval-interval": "250",
    "eval-episodes": "1",
}
# Random search has trials of 150 steps; DEHB of 100, 100 and 200 steps, and then two of 200. Checkpoints are at
# multiples of 70: so the one of step 210 is in the midst of a trial, and the kill makes it go back over a border.
SEARCHES = {
    "random-search": {"algo": "random-search", "trial-steps": "150"},
    "cleared": {"algo": "random-search", "trial-steps": "150", "keep-replay": "false", "n-envs": "3"},
    "dehb": {"algo": "dehb", "min-trial-steps": "100", "max-trial-steps": "200", "eta": "2"},
    # Now there is a checkpoint right at every border, when the next trial has not begun.
    "at borders": {"algo": "random-search", "trial-steps": "150", "checkpoint-interval": "150"},
}
OBSERVATION_FILES = ("evaluations.csv", "best_model.csv", "best_model.zip")
NAMES = ("config.yaml", "episodes.csv", "selection.csv", "members.jsonl", "trials.jsonl", *OBSERVATION_FILES)


def arguments(search: str, run_dir: Path) -> list[str]:
    space = run_dir.with_name("space.yaml")
    space.write_text(SPACE)
    flags = SETTINGS | SEARCHES[search] | {"space": str(space), "run-dir": str(run_dir)}
    return ["train", *(part for name, value in flags.items() for part in (f"--{name}", value)), "--quiet"]


def exact_contents(run_dir: Path) -> dict[str, object]:
    summary = json.loads((run_dir / "summary.json").read_text())
    del summary["time"]
    contents: dict[str, object] = {name: (run_dir / name).read_bytes() for name in NAMES}
    return contents | {"summary.json": summary}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, object]]:
    """What a run holds that nothing disturbed; each is made once."""

    @cache
    def contents(search: str) -> dict[str, object]:
        run_dir = tmp_path_factory.mktemp("uninterrupted") / "run"
        done = adaqn(*arguments(search, run_dir))
        assert done.returncode == 0, done.stderr
        assert (run_dir / "trials.jsonl").read_text().count("\n") >= 4
        return exact_contents(run_dir)

    return contents


@pytest.mark.parametrize(
    ("search", "point", "number"),
    [
        ("random-search", "step", "225"),
        ("random-search", "step", "150"),
        ("cleared", "step", "330"),
        ("dehb", "step", "401"),
        ("dehb", "replace", "5"),
        ("at borders", "step", "150"),
    ],
)
def test_killed_and_resumed_is_uninterrupted(
    search: str, point: str, number: str, uninterrupted: Callable[[str], dict[str, object]], tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    killed = adaqn(*arguments(search, run_dir), before=[point, number])
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (run_dir / "summary.json").exists()
    resumed = adaqn("resume", str(run_dir), "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert exact_contents(run_dir) == uninterrupted(search)


def test_watching_changes_no_byte(uninterrupted: Callable[[str], dict[str, object]], tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    given = [
        *arguments("dehb", run_dir),
        "--log-interval",
        "37",
        "--checkpoint-interval",
        "41",
        "--eval-interval",
        "99",
    ]
    assert adaqn(*given).returncode == 0
    seen, expected = exact_contents(run_dir), dict(uninterrupted("dehb"))
    for contents in (seen, expected):
        for name in ("config.yaml", *OBSERVATION_FILES):  # these say how it was watched
            del contents[name]
    assert seen == expected
