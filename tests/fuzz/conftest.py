"""One tiny run of AdaDQN for the whole suite, and what can be made of it: a saved agent and an exported policy."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adaqn import AdaDQN, AdaSAC, Hyperparameters
from adaqn.training.trainer import Trainer

STEPS = 4260
MEMBERS = [Hyperparameters(hidden=(8,)), Hyperparameters(hidden=(6, 4), optimizer="rmsprop", activation="tanh")]
# Long enough that its replay buffer is more than one segment, most of it before anything is learned.
SETTINGS: dict[str, Any] = {"learning_starts": 4150, "target_update_interval": 20, "train_freq": 4, "batch_size": 8}


def _interrupted_before_the_end(trainer: Trainer) -> None:
    if trainer.clock.step == STEPS - 20:
        trainer.interrupt("SIGTERM")


@pytest.fixture(autouse=True)
def no_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged configuration may name a W&B project; nothing is sent anywhere."""
    monkeypatch.setenv("WANDB_MODE", "disabled")


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted shortly before its end; no test changes it."""
    path = tmp_path_factory.mktemp("fuzz") / "run"
    model = AdaDQN("CartPole-v1", MEMBERS, buffer_size=4250, **SETTINGS)
    with contextlib.suppress(SystemExit):  # how SIGTERM ends a program
        model.learn(STEPS, _interrupted_before_the_end, run_dir=path, checkpoint_interval=4100)
    return path


@pytest.fixture(scope="session")
def resumed_run(whole_run: Path) -> Path:
    """That run at its end."""
    path = shutil.copytree(whole_run, whole_run.parent / "resumed")
    AdaDQN.resume(path)
    return path


@pytest.fixture(scope="session")
def agent_file(whole_run: Path) -> Path:
    """The agent of that run as `save` writes it."""
    return AdaDQN.from_run(whole_run).save(whole_run.parent / "agent")


@pytest.fixture(scope="session")
def sac_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent with continuous actions."""
    members = [Hyperparameters(hidden=(4,)), Hyperparameters(hidden=(3,))]
    agent = AdaSAC("Pendulum-v1", members, actor_hidden="4", batch_size=4)
    return agent.save(tmp_path_factory.mktemp("fuzz") / "sac")


@pytest.fixture(scope="session")
def policy_file(agent_file: Path) -> Path:
    """Its policy as `export` writes it."""
    return AdaDQN.load(agent_file).export(agent_file.parent / "policy")


@pytest.fixture
def fresh_run(whole_run: Path, tmp_path: Path) -> Callable[[], Path]:
    """A copy of the run for each example of a test."""

    def copied() -> Path:
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(whole_run, tmp_path / "run")
        return tmp_path / "run"

    return copied
