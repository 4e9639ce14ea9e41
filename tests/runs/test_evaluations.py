"""Rows of evaluations: the generation of the evaluated policy, as numbered in `members.jsonl`."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from adaqn import SEARL, AdaDQN, RandomSearch
from adaqn.base.errors import UserError
from adaqn.cli import main
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.reading import member_of, read_members, read_run, read_selection
from adaqn.training.callbacks import EvalCallback
from adaqn.training.trainer import Trainer
from tests.agents.trials.cases import TINY, TRIAL, WILD, Scripted

# Linear networks; members differ only in the learning rate.
SPACE = TINY.to_dict() | {"learning_rate": [1e-4, 1e-1]}
QUICK: dict[str, Any] = {
    "population": 3, "generation_interval": 20, "target_update_interval": 10, "learning_starts": 15, "batch_size": 4,
    "buffer_size": 100,
}  # fmt: skip
SEARCH: dict[str, Any] = {**TRIAL, "buffer_size": 100}  # trials of 40 steps


def evaluations(path: Path) -> list[tuple[int, int, int]]:
    """Step, generation and member of each evaluation."""
    with path.open() as file:
        rows = [(int(row["step"]), int(row["generation"]), int(row["member"])) for row in csv.DictReader(file)]
    return list(dict.fromkeys(rows))


def every_ten_steps(run_dir: Path, **given: Any) -> EvalCallback:
    return EvalCallback(eval_freq=10, n_eval_episodes=1, log_path=run_dir, verbose=0, **given)


def before(run_dir: Path, step: int) -> tuple[int, int]:
    """Generation and target member at each step, before its due operations, which come after its evaluation."""
    generation = [line["generation"] for line in read_members(run_dir / "members.jsonl") if line["step"] < step][-1]
    selection = read_selection(run_dir / "selection.csv")
    targets = selection.target[selection.step < step].tolist()
    return generation, targets[-1] if targets else 0


@pytest.mark.parametrize("n_envs", [1, 3])
def test_the_generation_is_that_of_the_members_who_were_there(n_envs: int, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    members: dict[int, list[Hyperparameters]] = {}

    def look(trainer: Trainer) -> None:
        members[trainer.clock.step] = [member.hyperparameters for member in trainer.report().members]

    model = AdaDQN("CartPole-v1", space=SPACE, seed=2, n_envs=n_envs, **QUICK)
    model.learn(150, callback=[every_ten_steps(run_dir), look], run_dir=run_dir)
    lines = read_run(run_dir).members
    logged = evaluations(run_dir / "evaluations.csv")
    assert len(logged) == 15
    for step, generation, member in logged:
        assert (generation, member) == before(run_dir, step), step
        assert [member_of(values) for values in lines[generation]["members"]] == members[step], step
    assert {generation for _, generation, _ in logged} == set(range(len(lines) - (lines[-1]["step"] == 150)))
    assert {line["step"] for line in lines} & {step for step, *_ in logged}, "some are evaluated where others are due"
    assert len({member for *_, member in logged}) > 1


def test_a_search_writes_the_number_of_its_best_trial(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    # Eight episodes are a trial: the second is worse than the first, the third is the best.
    env = Scripted(5, lambda n: [5.0, 1.0, 9.0, 2.0][n // 8])
    callback = every_ten_steps(run_dir, eval_env=Scripted(5))
    RandomSearch(env, space=TINY, **SEARCH).learn(160, callback=callback, run_dir=run_dir)
    # At step 40 the first trial is still under way; at 120 the best of the two that are finished is the first.
    expected = [(step, 0 if step <= 120 else 2, 0) for step in range(10, 170, 10)]
    assert evaluations(run_dir / "evaluations.csv") == expected


def test_where_no_trial_came_to_a_good_end_it_is_the_one_under_way(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    callback = every_ten_steps(run_dir, eval_env=Scripted(5))
    search = RandomSearch(Scripted(5), space=WILD, **SEARCH)
    search.learn(160, callback=callback, run_dir=run_dir)
    assert search.best_trial is None
    logged = evaluations(run_dir / "evaluations.csv")
    assert [(step, generation) for step, generation, _ in logged] == [
        (step, before(run_dir, step)[0]) for step in range(10, 170, 10)
    ]
    assert len({generation for _, generation, _ in logged}) > 3


def test_a_callback_does_not_write_the_table_of_searl(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    model = SEARL("CartPole-v1", space=SPACE, population=3, generation_interval=40)
    with pytest.raises(UserError, match=r"evaluations.csv would have two writers"):
        model.learn(220, callback=every_ten_steps(run_dir, log_name="evaluations.csv"), run_dir=run_dir)
    assert not run_dir.exists(), "nothing is in the way of a second try"


def test_searl_logs_its_policy_beside_its_members(tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    space.write_text(yaml.safe_dump(SPACE))
    flags = {
        "algo": "searl", "env": "CartPole-v1", "space": str(space), "steps": "220", "seed": "2", "population": "3",
        "generation-interval": "40", "batch-size": "8", "train-freq": "4", "env-kwargs": "{max_episode_steps: 30}",
    }  # fmt: skip
    arguments = ["train", "--quiet", *(part for name, value in flags.items() for part in (f"--{name}", value))]
    watched, alone = tmp_path / "watched", tmp_path / "alone"
    assert main([*arguments, "--eval-interval", "20", "--eval-episodes", "2", "--run-dir", str(watched)]) == 0
    assert main([*arguments, "--run-dir", str(alone)]) == 0
    assert (watched / "evaluations.csv").read_bytes() == (alone / "evaluations.csv").read_bytes()
    assert not (alone / "policy_evaluations.csv").exists()
    path = watched / "policy_evaluations.csv"
    logged = evaluations(path)
    assert [step for step, *_ in logged] == list(range(20, 240, 20))
    assert all((generation, elite) == before(watched, step) for step, generation, elite in logged)
    assert len({generation for _, generation, _ in logged}) > 2
    # A callback that a program gives is kept apart in the same way.
    own = tmp_path / "own"
    names = ("population", "generation-interval", "batch-size", "train-freq")
    settings: dict[str, Any] = {name.replace("-", "_"): int(flags[name]) for name in names}
    model = SEARL("CartPole-v1", space=SPACE, seed=2, env_kwargs={"max_episode_steps": 30}, **settings)
    callback = EvalCallback(eval_freq=20, n_eval_episodes=2, log_path=own, seed=2, verbose=0)
    model.learn(220, callback=callback, run_dir=own)
    assert (own / "evaluations.csv").read_bytes() == (alone / "evaluations.csv").read_bytes()
    assert (own / path.name).read_bytes() == path.read_bytes()
    # The saved model is the first one with the highest return.
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    means = rows[:, 3].reshape(-1, 2).mean(axis=1)
    assert SEARL.load(watched / "best_model.zip").num_timesteps == logged[int(means.argmax())][0]
