from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from adaqn.runs.config import RunConfig
from adaqn.runs.directory import RunDirectory
from adaqn.runs.recorders.composition import recorders_for
from adaqn.training.observers import Observer


def test_a_run_leaves_the_files_of_its_directory(tmp_path: Path, trainer: Any) -> None:
    run = recorders_for(RunDirectory.create(tmp_path), log_interval=50, checkpoint_interval=50)
    trainer.run(100, run.observers())
    names = {"episodes.csv", "selection.csv", "members.jsonl", "best_model.csv", "progress.csv", "summary.json"}
    assert {path.name for path in tmp_path.iterdir()} == names | {"tensorboard", "checkpoint"}
    # All of them are known to be a run's own.
    config = RunConfig.from_dict({"env": "CartPole-v1", "steps": 5_000})
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    RunDirectory.create(tmp_path, force=True)
    assert list(tmp_path.iterdir()) == []


def test_metrics_and_checkpoints_come_after_callbacks_and_the_summary_is_last(tmp_path: Path) -> None:
    run = recorders_for(RunDirectory(tmp_path), log_interval=50, checkpoint_interval=50)
    callback = Observer()
    assert run.observers([callback])[-4:] == [callback, run.progress, run.checkpointer, run.summary]
    assert run.observers()[:-3] == list(run.recorders)


def test_wandb_is_told_the_project_the_directory_and_the_configuration(
    tmp_path: Path, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[dict[str, Any]] = []

    def init(**options: Any) -> Any:
        begun.append(options)
        return SimpleNamespace(log=lambda metrics, step: None, finish=lambda: None)

    setup = lambda: SimpleNamespace(settings=SimpleNamespace(mode="offline"))  # noqa: E731
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init, setup=setup, login=lambda: True))
    config = RunConfig.from_dict({"env": "CartPole-v1", "steps": 5_000, "seed": 3})
    run = recorders_for(
        RunDirectory.create(tmp_path / "lander"),
        log_interval=50,
        checkpoint_interval=50,
        wandb_project="moon",
        config=config,
    )
    trainer.run(100, run.observers())
    [options] = begun
    assert (options["project"], options["name"], options["config"]) == ("moon", "lander", config.to_dict())
    assert options["dir"] == str(tmp_path / "lander")
