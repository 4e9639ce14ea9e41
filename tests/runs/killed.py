"""A small run that is killed before its end, and a snapshot of all bytes of a directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from adaqn import AdaDQN, Hyperparameters
from adaqn.training.callbacks import EvalCallback
from adaqn.training.trainer import Trainer

MEMBERS = [Hyperparameters(hidden=(8,)), Hyperparameters(hidden=(12,))]
SETTINGS: dict[str, Any] = {"learning_starts": 50, "target_update_interval": 20, "buffer_size": 150, "batch_size": 8}
STEPS = 400


class Killed(BaseException):
    """The process is gone."""


def kill_at(step: int) -> Any:
    """A callback."""

    def kill(trainer: Trainer) -> None:
        if trainer.clock.step >= step:
            raise Killed

    return kill


def evaluation(run_dir: Path) -> EvalCallback:
    """What `--eval-interval 30` would do."""
    return EvalCallback(eval_freq=30, n_eval_episodes=1, log_path=run_dir, best_model_save_path=run_dir, verbose=0)


def train(run_dir: Path, *callbacks: Any, **options: Any) -> None:
    """Train with checkpoints every 100 steps and evaluations every 30."""
    model = AdaDQN("CartPole-v1", MEMBERS, seed=3, **SETTINGS)
    model.learn(STEPS, [evaluation(run_dir), *callbacks], run_dir=run_dir, checkpoint_interval=100, **options)


def contents(directory: Path) -> dict[str, Any]:
    """Everything in a directory: bytes of files, targets of links."""
    found: dict[str, Any] = {}
    for folder, names, files in os.walk(directory):
        for path in [Path(folder) / name for name in names + files]:
            key = str(path.relative_to(directory))
            found[key] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found
