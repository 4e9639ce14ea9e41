"""Final training return of a convolutional DQN on a MinAtar game, compared with a random policy."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from adaqn.envs.making import make_environment
from adaqn.runs.reading import read_episodes
from benchmarks.isolation import ROOT
from benchmarks.training import train_all

SETTINGS = {
    "buffer-size": 100_000,
    "batch-size": 32,
    "learning-starts": 1_000,
    "target-update-interval": 1_000,
    "exploration-steps": 10_000,
}


def random_return(game: str, episodes: int) -> float:
    """The mean return of uniformly random actions."""
    env = make_environment(game, {})
    env.action_space.seed(0)
    totals = []
    for episode in range(episodes):
        env.reset(seed=episode)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, over = total + float(reward), terminated or truncated
        totals.append(total)
    return float(np.mean(totals))


def main() -> None:
    """Train the missing runs, then compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--game", default="MinAtar/Breakout")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "minatar")
    given = parser.parse_args()
    flags = [part for name, value in SETTINGS.items() for part in (f"--{name}", str(value))]
    runs = []
    for seed in range(given.seeds):
        path = given.out / f"{given.game.replace('/', '-')}-seed{seed}"
        arguments = ["--env", given.game, "--algo", "dqn", "--steps", str(given.steps), "--seed", str(seed), *flags]
        runs.append((path, arguments))
    train_all(runs, given.jobs)
    baseline = random_return(given.game, 500)
    print(f"random policy, 500 episodes: {baseline:.2f}")
    for path, _ in runs:
        episodes = read_episodes(path / "episodes.csv")
        last = episodes.total[episodes.step > 0.8 * given.steps]
        times = last.mean() / baseline
        print(f"{path.name}: {last.mean():.2f} over the last fifth of {given.steps} steps, {times:.1f} x random")


if __name__ == "__main__":
    main()
