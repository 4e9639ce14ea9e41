"""`make demo`: train AdaDQN on Lunar Lander with the paper's four architectures, evaluate it, plot the run."""

from __future__ import annotations

import sys
from pathlib import Path

from adaqn.cli import main as adaqn

STEPS = 200_000
EVERY = 10_000  # steps between evaluations, the best of which gives the policy that is evaluated in the end
EPISODES = 20


def main() -> int:
    """Run the commands that a user would type, in the next free directory."""
    run_dir = next(path for n in range(1, sys.maxsize) if not (path := Path("runs") / f"demo-{n}").exists())
    train = ["train", "--config", "lunar-lander", "--steps", str(STEPS), "--eval-interval", str(EVERY)]
    commands = (
        [*train, "--run-dir", str(run_dir)],
        ["evaluate", str(run_dir), "--best", "--episodes", str(EPISODES)],
        ["picture", str(run_dir)],
    )
    for command in commands:
        print(f"\n$ adaqn {' '.join(command)}", flush=True)
        if status := adaqn(command):
            return status
    print(f"\nThe run is in {run_dir}, its picture in {run_dir / 'picture.png'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
