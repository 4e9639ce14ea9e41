"""Tests of `--best` on the command line, which uses the best model of a run instead of the last."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from adaqn import DQN
from adaqn.cli import main
from adaqn.exported_policy import ExportedPolicy

TRAIN = ["train", "--env", "CartPole-v1", "--steps", "120", "--learning-starts", "50", "--grid", "hidden=8", "--quiet"]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run whose best model differs from its last."""
    path = tmp_path / "run"
    assert main([*TRAIN, "--algo", "dqn", "--run-dir", str(path)]) == 0
    other = DQN("CartPole-v1", [{"hidden": [8]}], seed=9)
    other.save(path / "best_model.zip")
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 1
    [line] = capsys.readouterr().err.strip().splitlines()
    return line


def test_evaluate_plays_the_best_model(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for source in ([str(run_dir)], [str(run_dir), "--best"], [str(run_dir / "best_model.zip")]):
        assert main(["evaluate", *source, "--episodes", "5"]) == 0
        shown.append(capsys.readouterr().out)
    last, best, file = shown
    assert best == file != last


def test_export_writes_the_best_policy_beside_the_last(run_dir: Path) -> None:
    assert main(["export", str(run_dir)]) == 0
    assert main(["export", str(run_dir), "--best"]) == 0
    observations = np.random.default_rng(0).normal(0, 1, (200, 4)).astype(np.float32)
    of_best = DQN.load(run_dir / "best_model.zip").predict(observations, deterministic=True)[0]
    np.testing.assert_array_equal(ExportedPolicy.load(run_dir / "best_policy.npz")(observations), of_best)
    assert (ExportedPolicy.load(run_dir / "policy.npz")(observations) != of_best).any()


def test_mistakes_get_one_sentence(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = run_dir / "best_model.zip"
    assert f"--best is for a run's directory, but {file} is not one" in refused(capsys, "evaluate", str(file), "--best")
    file.unlink()
    for command in ("evaluate", "export"):
        message = refused(capsys, command, str(run_dir), "--best")
        assert message == f"adaqn: {run_dir} has no best model yet: best_model.zip is written during training"
