"""A run of SEARL that was killed in a member's turn, in the burst or between two of them is the run that was not.

So is one that was interrupted in the burst, which leaves a checkpoint of what it had still to do.
"""

from __future__ import annotations

import csv
import itertools
import json
import signal
import zipfile
from pathlib import Path

import pytest

from tests.exactness.test_kill_and_resume import adaqn, exact_contents

pytestmark = pytest.mark.thorough

SPACE = """
activation: [relu, tanh]
optimizer: [noisy_sgd, adam]
loss: [l2, huber]
learning_rate: [1.0e-3, 1.0e-1]
hidden: {layers: [0, 1], neurons: [2, 4]}
"""


def arguments(run_dir: Path, checkpoint_interval: int) -> list[str]:
    space = run_dir.with_name("space.yaml")
    space.write_text(SPACE)
    flags = {
        "algo": "searl",
        "env": "CartPole-v1",
        "seed": "1",
        "space": str(space),
        "steps": "190",
        "population": "3",
        "generation-interval": "45",
        "batch-size": "8",
        "train-freq": "2",
        "target-update-interval": "6",
        "buffer-size": "100",
        "n-steps": "2",
        "checkpoint-interval": str(checkpoint_interval),
        "eval-interval": "20",
        "eval-episodes": "1",
        "run-dir": str(run_dir),
    }
    return ["train", "--quiet", *(part for name, value in flags.items() for part in (f"--{name}", value))]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("uninterrupted") / "run"
    done = adaqn(*arguments(run_dir, checkpoint_interval=100))
    assert done.returncode == 0, done.stderr
    with (run_dir / "policy_evaluations.csv").open() as file:
        returns = {int(row["step"]): float(row["return"]) for row in csv.DictReader(file)}
    _, first_kill, _ = point("in a turn", run_dir)
    # Otherwise a resumed run that has forgotten the best would come to the same model.
    assert max(returns, key=returns.__getitem__) < first_kill, "the best comes too late: try another seed"
    return run_dir


def contents_of(run_dir: Path) -> dict[str, object]:
    """What must be the same; `config.yaml` says how often a checkpoint is made."""
    contents = exact_contents(run_dir)
    del contents["config.yaml"]
    return contents | {name: (run_dir / name).read_bytes() for name in ("policy_evaluations.csv", "best_model.zip")}


def borders_of(run_dir: Path) -> list[int]:
    """The steps at which generations end."""
    with (run_dir / "selection.csv").open() as file:
        return [int(row["step"]) for row in csv.DictReader(file)]


def point(where: str, run_dir: Path) -> tuple[str, int, int]:
    """Where to kill a run that goes the way of this one, and from which step it is to go on."""
    with (run_dir / "evaluations.csv").open() as file:
        episodes = [(int(row["step"]), int(row["generation"]), int(row["member"])) for row in csv.DictReader(file)]
    ends = [now[0] for now, after in itertools.pairwise(episodes) if now[1] == after[1] == 1 and now[2] != after[2]]
    borders = borders_of(run_dir)
    assert len(ends) == 2 and len(borders) >= 2
    if where == "in the burst":
        return "update", borders[0] // 2 + 7, borders[1]  # of the second one; one update for two samples
    steps = {
        "in a turn": ends[0] - 3,
        "at the end of a turn": ends[0],
        "just after it": ends[0] + 1,
        "before the burst": borders[1],
        "after the generation": borders[1] + 1,
    }
    return "step", steps[where], steps[where]


@pytest.mark.parametrize("where", [
    "in a turn", "at the end of a turn", "just after it", "before the burst", "in the burst", "after the generation",
])  # fmt: skip
def test_killed_and_resumed_is_uninterrupted(where: str, uninterrupted: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    kind, number, checkpoint = point(where, uninterrupted)
    killed = adaqn(*arguments(run_dir, checkpoint), before=[kind, str(number)])
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (run_dir / "summary.json").exists()
    newest = max((run_dir / "checkpoint").glob("step-*.zip"))
    assert int(newest.stem.removeprefix("step-")) == checkpoint
    resumed = adaqn("resume", str(run_dir), "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    contents, expected = contents_of(run_dir), contents_of(uninterrupted)
    assert contents.keys() == expected.keys()
    assert [name for name in expected if contents[name] != expected[name]] == []


@pytest.mark.parametrize(("later", "pending"), [
    (0, ["TARGET_UPDATE", "UPDATE"]), (1, ["UPDATE", "UPDATE"]),
])  # fmt: skip
def test_interrupted_around_a_renewal_and_resumed_is_uninterrupted(
    later: int, pending: list[str], uninterrupted: Path, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    first, second, *_ = borders_of(uninterrupted)
    renewal = next(step for step in range(first + 2, second) if step % 6 == 0)
    update = first // 2 + (renewal - first) // 2  # the last one before it
    stopped = adaqn(*arguments(run_dir, checkpoint_interval=100), before=["interrupt", str(update + later)])
    assert stopped.returncode == 128 + signal.SIGTERM, stopped.stderr
    newest = max((run_dir / "checkpoint").glob("step-*.zip"))
    with zipfile.ZipFile(newest) as archive:
        left = json.loads(archive.read("meta.json"))["meta"]["snapshot"]["pending"]
    assert (int(newest.stem.removeprefix("step-")), left[:2]) == (second, pending)
    resumed = adaqn("resume", str(run_dir), "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    contents, expected = contents_of(run_dir), contents_of(uninterrupted)
    assert [name for name in expected if contents.get(name) != expected[name]] == []
