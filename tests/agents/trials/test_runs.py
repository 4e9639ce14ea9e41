"""Searches as a user sees them: on the command line, in a run directory, and as a class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from adaqn import DEHB, RandomSearch
from adaqn.cli import main
from tests.agents.trials.cases import TINY

FLAGS = {
    "random-search": ["--trial-steps", "100"],
    "dehb": ["--min-trial-steps", "50", "--max-trial-steps", "100", "--eta", "2"],
}
FIDELITIES = {"random-search": [100, 100, 100], "dehb": [50, 50, 100, 100]}
SETTINGS: dict[str, Any] = {"learning_starts": 30, "epoch_steps": 60, "target_update_interval": 20}


def train(folder: Path, algo: str, *more: str) -> list[str]:
    space = folder / "tiny.yaml"
    space.write_text(yaml.safe_dump(TINY.to_dict()))
    shared = [part for name, value in SETTINGS.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    return ["train", "--env", "CartPole-v1", "--algo", algo, "--space", str(space), "--steps", "330", *shared, *more]


def trials(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "trials.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("algo", ["random-search", "dehb"])
def test_a_run_on_the_command_line(algo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir, again = tmp_path / "run", tmp_path / "again"
    assert main([*train(tmp_path, algo, *FLAGS[algo]), "--run-dir", str(run_dir)]) == 0
    output = capsys.readouterr().out
    header, progress = output.split("member", 1)
    if algo == "dehb":
        assert "bracket 0: 2 x 50, 1 x 100 steps" in header and "bracket 1: 2 x 100 steps" in header
    else:
        assert "Random search: every trial takes 100 steps." in header
    told = trials(run_dir)
    assert [trial["fidelity"] for trial in told] == FIDELITIES[algo]
    ends = np.cumsum(FIDELITIES[algo]).tolist()
    assert [(trial["first_step"], trial["last_step"]) for trial in told] == list(zip([0, *ends], ends, strict=False))
    # The fitness is what episodes.csv says about the last 60 steps of a trial.
    episodes = np.loadtxt(run_dir / "episodes.csv", delimiter=",", skiprows=1, ndmin=2)
    for trial in told:
        last = trial["last_step"]
        of_epoch = episodes[(episodes[:, 0] > max(last - 60, trial["first_step"])) & (episodes[:, 0] <= last), 1]
        assert trial["fitness"] == pytest.approx(of_epoch.mean())
    best = max(told, key=lambda trial: (trial["fidelity"], trial["fitness"]))
    assert f"Best trial: {best['number']}, with a mean return of {best['fitness']:,.1f}" in progress
    assert progress.count(": trial ") == len(told)
    members = [json.loads(line) for line in (run_dir / "members.jsonl").read_text().splitlines()]
    assert [line["generation"] for line in members] == list(range(len(told) + 1))
    assert [line["members"][0]["learning_rate"] for line in members[:-1]] == [
        trial["hyperparameters"]["learning_rate"] for trial in told
    ]
    targets = np.loadtxt(run_dir / "selection.csv", delimiter=",", skiprows=1, ndmin=2)[:, 0].astype(int).tolist()
    # Every 20 steps of a trial once it learns; the trial that is not finished does not.
    assert targets == [t["first_step"] + step for t in told for step in (40, 60, 80, 100) if step <= t["fidelity"]]
    header_of_progress = (run_dir / "progress.csv").read_text().splitlines()[0]
    assert "search/trial" in header_of_progress and "search/best_return" in header_of_progress
    # The configuration repeats the run.
    config = str(run_dir / "config.yaml")
    assert main(["train", "--config", config, "--run-dir", str(again), "--quiet"]) == 0
    for name in ("config.yaml", "episodes.csv", "selection.csv", "members.jsonl", "trials.jsonl"):
        assert (again / name).read_bytes() == (run_dir / name).read_bytes(), name
    assert main(["evaluate", str(run_dir), "--episodes", "1"]) == 0
    assert main(["picture", str(run_dir)]) == 0


def test_mistakes_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def error(*arguments: str) -> str:
        assert main(arguments) == 1
        (line,) = capsys.readouterr().err.splitlines()
        return line

    assert "would never learn, because learning_starts is 30" in error(
        *train(tmp_path, "random-search", "--trial-steps", "30")
    )
    too_long = train(tmp_path, "random-search", "--trial-steps", "5000")
    assert "too short: its first trial takes 5000 steps; use more steps or shorter trials" in error(*too_long)
    assert "takes no members, but got 2" in error(
        *train(tmp_path, "dehb", "--grid", "hidden=8,16", "--min-trial-steps", "100", "--max-trial-steps", "100")
    )
    assert "unknown argument '--population'" in error(*train(tmp_path, "dehb", "--population", "3"))


@pytest.mark.parametrize(("kind", "settings"), [(RandomSearch, {"trial_steps": 60}), (DEHB, {"max_trial_steps": 100})])
def test_the_classes_learn_save_and_load(kind: Any, settings: dict[str, Any], tmp_path: Path) -> None:
    settings |= {"min_trial_steps": 50} if kind is DEHB else {}
    agent = kind("CartPole-v1", space=TINY.to_dict(), seed=1, **SETTINGS, **settings)
    assert agent.best_trial is None
    agent.learn(150)
    best = agent.best_trial
    assert best is not None and best.fitness > 0 and best.fidelity == settings.get("trial_steps", 100)
    observations = np.random.default_rng(0).standard_normal((100, 4)).astype(np.float32)
    actions, _ = agent.predict(observations, deterministic=True)
    loaded: Any = kind.load(agent.save(tmp_path / "search"))
    assert loaded.best_trial == best and loaded.members == agent.members
    assert loaded.predict(observations, deterministic=True)[0].tolist() == actions.tolist()
    # It continues in the middle of its trial, and waits until there is enough to learn from.
    before = loaded.trainer.updates
    loaded.learn(30, reset_num_timesteps=False)
    assert (loaded.num_timesteps, loaded.trainer.updates) == (180, before)
    loaded.learn(40, reset_num_timesteps=False)
    assert loaded.trainer.updates > before
    loaded.learn(100)
    assert loaded.num_timesteps == 100
