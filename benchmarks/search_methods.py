"""AdaDQN in an infinite space compared with random search, SEARL and DEHB, with equal samples on one environment.

Every run has the same number of environment steps, search space and settings, except that SEARL acts greedily and so
has no exploration settings. Compared are the training return over the run (AUC) and in its last fifth, and for the
searches also the best trial.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from adaqn.runs.reading import Episodes, read_episodes, whole_lines
from benchmarks.isolation import ROOT
from benchmarks.training import train_all

SHARED = {"batch-size": 32, "buffer-size": 10_000, "target-update-interval": 200, "learning-starts": 1_000}
EXPLORING = {"exploration-steps": 1_000}
METHODS: dict[str, list[str]] = {
    "adadqn": ["--generation-interval", "10000", "--population", "5"],
    "searl": ["--generation-interval", "10000", "--population", "5"],
    "random-search": ["--trial-steps", "20000"],
    "dehb": ["--min-trial-steps", "5000", "--max-trial-steps", "20000", "--eta", "2"],
}
PARTS = 20


def arguments(method: str, env: str, space: str, steps: int, seed: int) -> list[str]:
    """The command line of one run."""
    settings = SHARED if method == "searl" else SHARED | EXPLORING
    flags = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    base = ["--env", env, "--algo", method, "--space", space, "--steps", str(steps), "--seed", str(seed)]
    return [*base, *flags, *METHODS[method]]


def part_means(episodes: Episodes, steps: int) -> np.ndarray:
    """The mean return of the episodes that end in each twentieth of the run; nan where none does."""
    part = (episodes.step - 1) * PARTS // steps
    return np.array([episodes.total[part == p].mean() if (part == p).any() else np.nan for p in range(PARTS)])


def best_trial(path: Path) -> float | None:
    """The best fitness among the finished trials of a search."""
    found = [json.loads(line)["fitness"] for line in whole_lines(path / "trials.jsonl")]
    return max((fitness for fitness in found if fitness is not None), default=None)


def main() -> None:
    """Train the missing runs, then compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="LunarLander-v3")
    parser.add_argument("--space", default="vectors")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "search-methods")
    given = parser.parse_args()
    runs = [
        (given.out / f"{method}-seed{seed}", arguments(method, given.env, given.space, given.steps, seed))
        for seed in range(given.seeds)
        for method in given.methods
    ]
    train_all(runs, given.jobs)
    print(f"{given.env}, {given.steps} steps, {given.seeds} seeds: mean (worst seed)")
    for method in given.methods:
        paths = [given.out / f"{method}-seed{seed}" for seed in range(given.seeds)]
        means = np.array([part_means(read_episodes(path / "episodes.csv"), given.steps) for path in paths])
        auc, final = np.nanmean(means, axis=1), np.nanmean(means[:, -PARTS // 5 :], axis=1)
        line = f"{method:<14} AUC {auc.mean():8.1f} ({auc.min():8.1f})"
        line += f"   last fifth {final.mean():8.1f} ({final.min():8.1f})"
        trials = [best for best in map(best_trial, paths) if best is not None]
        print(line + (f"   best trial {np.mean(trials):8.1f}" if trials else ""))


if __name__ == "__main__":
    main()
