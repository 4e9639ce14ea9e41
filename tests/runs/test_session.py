"""A run that is refused for lack of memory leaves no files behind, and removes none."""

from __future__ import annotations

from pathlib import Path

import pytest

from adaqn import AdaDQN, Hyperparameters
from adaqn.base.errors import UserError
from adaqn.cli import main

TRAIN = ["train", "--quiet", "--env", "CartPole-v1", "--steps", "120", "--learning-starts", "50", "--grid", "hidden=8"]
TRAIN += ["--buffer-size", "200", "--batch-size", "4"]
AVAILABLE = 3_000  # bytes: enough for the network and a batch, not for what 120 steps fill of the buffer


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Makes almost no memory available until it is undone."""
    monkeypatch.setattr("adaqn.replay.memory.available_memory", lambda: AVAILABLE)
    return monkeypatch


def model() -> AdaDQN:
    return AdaDQN("CartPole-v1", [Hyperparameters(hidden=(8,))], learning_starts=50, buffer_size=200, batch_size=4)


def test_a_refused_run_in_python_has_no_directory(tmp_path: Path, no_memory: pytest.MonkeyPatch) -> None:
    run_dir = tmp_path / "runs" / "one"
    with pytest.raises(UserError, match="memory are available: lower buffer_size"):
        model().learn(120, run_dir=run_dir)
    assert list(tmp_path.iterdir()) == []
    no_memory.undo()
    assert model().learn(120, run_dir=run_dir).num_timesteps == 120  # a second attempt works


def test_a_refused_run_on_the_command_line_has_no_directory(
    tmp_path: Path, no_memory: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = tmp_path / "run"
    assert main([*TRAIN, "--run-dir", str(run_dir)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "memory are available: lower buffer_size" in line
    assert list(tmp_path.iterdir()) == []
    no_memory.undo()
    assert main([*TRAIN, "--run-dir", str(run_dir)]) == 0


def test_a_run_is_not_given_up_for_one_that_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = tmp_path / "run"
    assert main([*TRAIN, "--run-dir", str(run_dir)]) == 0
    before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    monkeypatch.setattr("adaqn.replay.memory.available_memory", lambda: AVAILABLE)
    assert main([*TRAIN, "--run-dir", str(run_dir), "--force"]) == 1
    with pytest.raises(UserError, match="memory are available"):
        model().learn(120, run_dir=run_dir, force=True)
    assert {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()} == before


def test_without_a_directory_it_is_refused_before_the_first_step(no_memory: pytest.MonkeyPatch) -> None:
    refused = model()
    with pytest.raises(UserError, match="memory are available"):
        refused.learn(120)
    assert refused.num_timesteps == 0
