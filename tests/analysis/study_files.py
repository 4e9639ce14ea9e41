"""Synthetic studies on disk: the small files of runs whose numbers are known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adaqn.base.files import yaml_text
from adaqn.members.hyperparameters import Hyperparameters, grid

THREE = grid(hidden=[(8, 8), (32, 32), (64, 64)])
SETTINGS = {"gamma": 0.99, "selection": "lowest", "target_update_interval": 50, "generation_interval": 500}


def write_run(
    study: Path,
    arm: str,
    environment: str,
    seed: int,
    returns: Sequence[float],
    epoch: int = 100,
    *,
    algo: str = "adadqn",
    members: Sequence[Hyperparameters] = THREE,
    settings: dict[str, Any] | None = None,
    space: str | None = None,
    generations: int = 1,
    env: str | None = None,
    finished: bool = True,
    seconds: float | None = 60.0,
    progress: bool = False,
    evaluations: Sequence[tuple[int, int, int, float]] = (),
    trials: Sequence[dict[str, Any]] = (),
) -> Path:
    """A run with two episodes in each epoch, whose mean is the given return, and a target update each 50 steps."""
    path = study / arm / environment / str(seed)
    path.mkdir(parents=True)
    steps = epoch * len(returns)
    entries = [member.to_dict() for member in members]
    config = {
        "algo": algo, "env": env or environment, "seed": seed, "steps": steps, "n_envs": 1, "members": entries,
        "space": space, "schedule": [], "settings": SETTINGS | (settings or {}),
    }  # fmt: skip
    path.joinpath("config.yaml").write_text(yaml_text(config))
    rows = [
        f"{number * epoch + part * epoch // 2},{value + (1.0 if part == 1 else -1.0)},{epoch // 2}"
        for number, value in enumerate(returns)
        for part in (1, 2)
    ]
    path.joinpath("episodes.csv").write_text("\n".join(["step,return,length", *rows]) + "\n")
    k = len(members)
    header = ["step", "target", *(f"loss_{i}" for i in range(k)), *(f"acted_{i}" for i in range(k))]
    rows = [",".join(header)]
    for step in range(50, steps + 1, 50):
        target = (step // 50 + seed) % k
        losses = [2.0 - (i == target) for i in range(k)]
        acted = [50 // k] * k
        acted[target] += 50 - sum(acted)
        rows.append(",".join(map(str, [step, target, *losses, *acted])))
    path.joinpath("selection.csv").write_text("\n".join(rows) + "\n")
    lines = []
    for generation in range(generations):
        rate = 1e-3 * 0.8**generation
        changed = [entry | {"learning_rate": rate * (1 + i), "parent": None} for i, entry in enumerate(entries)]
        shown = changed if generations > 1 else [entry | {"parent": None} for entry in entries]
        lines.append(
            json.dumps({"step": generation * steps // generations, "generation": generation, "members": shown})
        )
    path.joinpath("members.jsonl").write_text("\n".join(lines) + "\n")
    if evaluations:
        rows = ["step,generation,member,return,length", *(f"{s},{g},{m},{r},10" for s, g, m, r in evaluations)]
        path.joinpath("evaluations.csv").write_text("\n".join(rows) + "\n")
    if trials:
        path.joinpath("trials.jsonl").write_text("".join(json.dumps(trial) + "\n" for trial in trials))
    if progress:
        rows = ["time/total_timesteps,time/time_elapsed", f"{steps // 2},10.0", f"{steps},40.0"]
        path.joinpath("progress.csv").write_text("\n".join(rows) + "\n")
    if finished:
        time = {} if seconds is None else {"time": {"elapsed": seconds}}
        path.joinpath("summary.json").write_text(json.dumps({"steps": steps} | time))
    return path


def rising(level: float, seed: int, epochs: int = 10) -> list[float]:
    """Returns that rise to a level, with some noise by seed."""
    rng = np.random.default_rng([seed, int(abs(level) * 1000)])
    return (level * np.linspace(0.1, 1.0, epochs) + rng.normal(0.0, 0.05 * abs(level), epochs)).tolist()


def write_study(root: Path, environments: Sequence[str] = ("CartPole-v1",), seeds: Sequence[int] = (0, 1, 2)) -> Path:
    """An adaptive arm, a random one and three single sets."""
    for environment in environments:
        for seed in seeds:
            write_run(root, "adadqn", environment, seed, rising(200.0, seed))
            write_run(
                root,
                "randdqn",
                environment,
                seed,
                rising(120.0, seed),
                algo="randdqn",
                settings={"selection": "random"},
            )
            for member, level in zip(THREE, (40.0, 90.0, 150.0), strict=True):
                label = "x".join(map(str, member.hidden))
                write_run(root, f"dqn-{label}", environment, seed, rising(level, seed), algo="dqn", members=[member])
    return root
