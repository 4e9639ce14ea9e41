"""The plug-ins in examples/extending work from outside the package, installed with their real entry points."""

from __future__ import annotations

import csv
import itertools
import json
import os
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.protocol import Operation
from adaqn.agents.registry import algorithm, algorithm_names
from adaqn.api import model_class
from adaqn.base.plugins import forget_plugins
from adaqn.cli import main
from adaqn.exported_policy import ExportedPolicy
from adaqn.members.evolution import mutation
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.selection import target_rule
from adaqn.members.space import SearchSpace
from adaqn.replay.protocol import Batch
from tests.envs.suite_contract import check_environment, check_names

EXAMPLE = Path(__file__).parents[2] / "examples" / "extending"
SMALL = ("--learning-starts", "40", "--batch-size", "4", "--quiet")


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the example into a directory on the path, as pip would, also for the processes that tests start."""
    site = tmp_path / "site-packages"
    shutil.copytree(EXAMPLE / "adaqn_extras", site / "adaqn_extras", ignore=shutil.ignore_patterns("__pycache__"))
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    lines: list[str] = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    about = site / f"adaqn_extras-{project['version']}.dist-info"
    about.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (about / "METADATA").write_text(metadata)
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), *sys.path[1:]]))
    forget_plugins()
    algorithm.__globals__["_load"].cache_clear()
    yield
    monkeypatch.undo()
    for name in [name for name in sys.modules if name.startswith("adaqn_extras")]:
        del sys.modules[name]
    forget_plugins()
    algorithm.__globals__["_load"].cache_clear()


def train(run_dir: Path, *flags: str) -> Path:
    assert main(["train", *flags, *SMALL, "--run-dir", str(run_dir)]) == 0
    return run_dir


def test_the_selection_rule_takes_the_middle_of_the_ranking() -> None:
    select = target_rule("median").select
    losses, nobody = jnp.array([5.0, 1.0, 3.0, 9.0, jnp.nan]), jnp.zeros(5)
    alive = jnp.array([True, True, True, True, False])
    assert select(nobody, losses, alive, 1).members.tolist() == [2]  # 1, 3, 5, 9: the lower of the two in the middle
    pair = select(nobody, losses, alive, 2)
    assert pair.members.tolist() == [2, 0] and pair.weights.tolist() == [0.5, 0.5]
    alone = jnp.array([False, False, False, True, False])
    assert select(nobody, losses, alone, 1).members.tolist() == [3]


@pytest.mark.thorough
def test_a_run_follows_the_selection_rule(tmp_path: Path) -> None:
    run = train(
        tmp_path / "run",
        *("--env", "CartPole-v1", "--steps", "100", "--selection", "median", "--target-update-interval", "10"),
        *("--grid", "hidden=2,4,8"),
    )
    rows = list(csv.DictReader((run / "selection.csv").read_text().splitlines()))
    losses = [[float(row[f"loss_{k}"]) for k in range(3)] for row in rows]
    assert len(rows) == 6
    assert [int(row["target"]) for row in rows] == [int(np.argsort(row)[1]) for row in losses]


def test_the_mutation_halves_layers_within_the_space() -> None:
    halve, rng = mutation("halve"), np.random.default_rng(0)
    space = SearchSpace.from_dict({"hidden": {"layers": [1, 2], "neurons": [20, 200]}})
    wide, narrow = Hyperparameters(hidden=(100, 30)), Hyperparameters(hidden=(39,))
    assert halve.applies(space, wide) and not halve.applies(space, narrow)
    assert halve.mutate(rng, space, wide).hidden == (50, 20)


@pytest.mark.thorough
def test_a_run_mutates_members_with_it(tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    space.write_text("{activation: relu, optimizer: sgd, loss: l2, hidden: {layers: 1, neurons: [1, 64]}}")
    run = train(
        tmp_path / "run",
        *("--env", "CartPole-v1", "--steps", "100", "--space", str(space), "--mutations", "halve"),
        *("--population", "3", "--generation-interval", "30", "--target-update-interval", "10"),
    )
    generations = [json.loads(line)["members"] for line in (run / "members.jsonl").read_text().splitlines()]
    children = 0
    for parents, members in itertools.pairwise(generations):
        for member in (member for member in members if member["mutation"] is not None):
            assert member["mutation"] == "halve"
            assert member["hidden"] == [max(1, parents[member["parent"]]["hidden"][0] // 2)]
            children += 1
    assert children > 0


def test_the_suite_fulfils_the_contract_of_suites() -> None:
    from adaqn_extras import corridor  # pyright: ignore[reportMissingImports] (installed by the fixture)

    check_names("Corridor", corridor)
    for name in corridor.NAMES:
        check_environment(name)


def test_the_agent_learns_the_values_of_a_corridor() -> None:
    """In a corridor of 5 cells with γ = 0.9, the best values of going right are 0.9³, 0.9², 0.9 and 1."""
    agent = model_class("linear-q")("Corridor/Short", gamma=0.9, learning_starts=100, seed=1)
    agent.learn(4_000)
    weights = agent.trainer.state.weights
    values = weights[:-1] + weights[-1]  # [5, 2]
    np.testing.assert_allclose(values[:4, 1], [0.729, 0.81, 0.9, 1.0], atol=0.03)
    assert (values[:4, 1] > values[:4, 0] + 0.05).all()


def test_one_update_of_the_agent_is_the_one_worked_out_by_hand() -> None:
    agent = model_class("linear-q")("Corridor/Short", gamma=0.5)
    trainer = agent.trainer
    state = trainer.state._replace(weights=np.arange(12, dtype=np.float32).reshape(6, 2))
    here, there = np.eye(5, dtype=np.float32)[[1, 2]], np.eye(5, dtype=np.float32)[[2, 4]]
    batch = Batch(here, np.array([0, 1]), np.array([[1.0], [2.0]]), there, np.array([0.0, 1.0]), np.array([1, 1]))
    updated, actions = trainer.agent.update(state, Operation.UPDATE, batch, trainer.clock, np.random.default_rng(0))
    # Q(s1, 0) = 2 + 10 = 12, y = 1 + 0.5 (5 + 11) = 9; Q(s2, 1) = 5 + 11 = 16, y = 2; learning rate 0.1, a batch of 2.
    change = updated.weights - state.weights
    expected = np.zeros((6, 2))
    expected[1, 0] = expected[5, 0] = 0.1 * (9 - 12) / 2
    expected[2, 1] = expected[5, 1] = 0.1 * (2 - 16) / 2
    np.testing.assert_allclose(change, expected, atol=1e-5)
    assert actions is None and updated.loss == pytest.approx((3**2 + 14**2) / 4)


def test_the_agent_resumes_exactly_and_is_exported(tmp_path: Path) -> None:
    assert "linear-q" in algorithm_names()
    flags = ("--algo", "linear-q", "--env", "Corridor/Short", "--seed", "2")
    whole = train(tmp_path / "whole", *flags, "--steps", "400")
    parts = train(tmp_path / "parts", *flags, "--steps", "200", "--horizon", "400")
    assert main(["resume", str(parts), "--steps", "400", "--quiet"]) == 0
    assert (whole / "episodes.csv").read_bytes() == (parts / "episodes.csv").read_bytes()
    assert main(["export", str(whole), "-o", str(tmp_path / "policy.npz")]) == 0
    agent = model_class("linear-q").from_run(whole)
    observations = np.eye(5, dtype=np.float32)
    expected, _ = agent.predict(observations, deterministic=True)
    assert ExportedPolicy.load(tmp_path / "policy.npz")(observations).tolist() == expected.tolist()


@pytest.mark.thorough
def test_a_study_runs_with_the_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = ["study", str(EXAMPLE / "study.yaml"), "--dir", "corridors", "--launcher", "polite", "--no-calibration"]
    assert main(study) == 0
    summary = json.loads((tmp_path / "corridors/linear/Corridor-Short/0/summary.json").read_text())
    assert summary["steps"] == 1500 and summary["final_return"] > 0.9
