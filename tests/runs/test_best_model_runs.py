"""The best model of real runs: the same after a kill and a resume, for every way in which a policy is judged."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adaqn import SEARL, AdaDQN, RandomSearch
from adaqn.cli import main
from adaqn.runs.reading import read_best_model, read_members, read_run
from adaqn.training.trainer import Trainer
from tests.agents.trials.cases import TINY, TRIAL, Scripted

QUICK: dict[str, Any] = {
    "learning_starts": 100, "batch_size": 8, "target_update_interval": 50, "exploration_steps": 500, "train_freq": 4,
    "buffer_size": 500,
}  # fmt: skip


@pytest.mark.thorough
def test_killed_and_resumed_the_best_model_is_the_same(tmp_path: Path) -> None:
    def killed(trainer: Trainer) -> None:
        if trainer.clock.step == 2_900:
            raise RuntimeError("killed")

    def new() -> AdaDQN:
        members = [{"hidden": [32], "learning_rate": 1e-3}] * 2
        settings: dict[str, Any] = {**QUICK, "batch_size": 32, "train_freq": 1, "buffer_size": 5_000}
        return AdaDQN("CartPole-v1", members, seed=1, **settings)

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    new().learn(3_500, run_dir=whole, checkpoint_interval=1_500, log_interval=77)
    with pytest.raises(RuntimeError):
        new().learn(3_500, run_dir=cut, checkpoint_interval=1_500, callback=killed)
    torn = [(cut / name).read_bytes() for name in ("best_model.csv", "best_model.zip")]
    AdaDQN.resume(cut)
    expected = [(whole / name).read_bytes() for name in ("best_model.csv", "best_model.zip")]
    assert [(cut / name).read_bytes() for name in ("best_model.csv", "best_model.zip")] == expected
    assert torn != expected and b"\n2000," in torn[0], "a model was kept after the checkpoint"
    best = read_best_model(whole / "best_model.csv")
    assert best is not None
    # The return is the mean of the last ten episodes at that step, and the model is the one of that step.
    episodes = read_run(whole).episodes
    assert best.total == np.mean(episodes.total[episodes.step <= best.step][-10:])
    assert AdaDQN.load(whole / "best_model.zip").num_timesteps == best.step


def test_what_is_kept_does_not_change_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, interval in (("often", 20), ("never", 10**9)):
        monkeypatch.setattr("adaqn.runs.recorders.best_model.INTERVAL", interval)
        AdaDQN("CartPole-v1", [{"hidden": [4]}], **QUICK).learn(700, run_dir=tmp_path / name)
    for table in ("episodes.csv", "selection.csv", "members.jsonl"):
        assert (tmp_path / "often" / table).read_bytes() == (tmp_path / "never" / table).read_bytes()
    assert (tmp_path / "often" / "best_model.csv").read_text() != (tmp_path / "never" / "best_model.csv").read_text()


def test_a_search_keeps_its_best_trial(tmp_path: Path) -> None:
    # Eight episodes are a trial; the third is the best, and the training returns at the end are those of the fourth.
    env = Scripted(5, lambda n: [5.0, 1.0, 9.0, 2.0, 2.0][n // 8])
    search: dict[str, Any] = {**TRIAL, "buffer_size": 100}
    RandomSearch(env, space=TINY, **search).learn(170, run_dir=tmp_path / "run")
    assert read_best_model(tmp_path / "run" / "best_model.csv") == (170, 9.0, "training")
    loaded = RandomSearch.load(tmp_path / "run" / "best_model.zip", env=Scripted(5))
    assert isinstance(loaded, RandomSearch) and loaded.best_trial is not None
    assert loaded.best_trial.number == 2


def test_searl_judges_its_elite_by_its_own_episodes(tmp_path: Path) -> None:
    space = TINY.to_dict() | {"learning_rate": [1e-4, 1e-1]}
    settings: dict[str, Any] = {"population": 3, "generation_interval": 40, "batch_size": 8, "train_freq": 4}
    run_dir = tmp_path / "run"
    model = SEARL("CartPole-v1", space=space, seed=2, env_kwargs={"max_episode_steps": 30}, **settings)
    model.learn(220, run_dir=run_dir)
    run = read_run(run_dir)
    elite, generation = int(run.selection.target[-1]), read_members(run_dir / "members.jsonl")[-1]["generation"]
    assert run.member_evaluations is not None
    played = run.member_evaluations
    own = played.total[(played.generation == generation - 1) & (played.member == elite)]
    assert run.best_model == (model.num_timesteps, own.mean(), "training")
    assert len(own) and own.mean() != played.total[-10:].mean()


def test_evaluations_are_in_the_logs_and_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = tmp_path / "run"
    flags = ["--env", "CartPole-v1", "--steps", "300", "--learning-starts", "50", "--grid", "hidden=4"]
    evaluating = ["--eval-interval", "100", "--eval-episodes", "2", "--log-interval", "100"]
    assert main(["train", *flags, *evaluating, "--run-dir", str(run_dir)]) == 0
    shown = capsys.readouterr().out
    with (run_dir / "evaluations.csv").open() as file:
        means = np.array([float(row["return"]) for row in csv.DictReader(file)]).reshape(3, 2).mean(axis=1)
    with (run_dir / "progress.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["eval/mean_reward"]]
    assert [int(row["time/total_timesteps"]) for row in rows] == [100, 200, 300]
    assert [float(row["eval/mean_reward"]) for row in rows] == means.tolist()
    assert [float(row["eval/mean_ep_length"]) for row in rows] == means.tolist(), "one reward per step"
    best = read_best_model(run_dir / "best_model.csv")
    assert best is not None and best == (100 * (1 + int(means.argmax())), means.max(), "evaluation")
    assert f"step 200: evaluation return {means[1]:,.1f}" in shown
    assert f"best model     step {best.step:,}, evaluation return {best.total:,.1f}" in shown
    assert b"eval/mean_reward" in b"".join(file.read_bytes() for file in (run_dir / "tensorboard").iterdir())
