"""Train AdaDQN in an environment of your own, and see which of four candidates it used.

A tank has to be kept at half its height: water flows in at random, and a valve lets it out in three steps.

    python examples/own_environment.py [--steps 15000]
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np

from adaqn import AdaDQN, evaluate_policy, grid


class Tank(gymnasium.Env[np.ndarray, int]):
    """Keep the level at 0.5; the reward is minus the distance to it."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)  # level and inflow
    action_space = gymnasium.spaces.Discrete(3)  # valve closed, half open, open

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Start at a random level. All randomness comes from `np_random`, so that runs repeat."""
        super().reset(seed=seed)
        self.level, self.inflow = self.np_random.uniform(size=2)
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Let water in and out for one second; an overflow ends the episode."""
        self.level = max(0.0, self.level + 0.1 * self.inflow - 0.05 * int(action))
        self.inflow = float(np.clip(self.inflow + self.np_random.normal(0.0, 0.1), 0.0, 1.0))
        overflow = self.level > 1.0
        reward = -abs(self.level - 0.5) - (5.0 if overflow else 0.0)
        return self._observation(), float(reward), bool(overflow), False, {}

    def _observation(self) -> np.ndarray:
        return np.array([min(self.level, 1.0), self.inflow], np.float32)


def make() -> gymnasium.Env:
    """The environment with a time limit, which truncates an episode instead of terminating it."""
    return gymnasium.wrappers.TimeLimit(Tank(), max_episode_steps=100)


def main() -> None:
    """Train, evaluate, and print the members."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=15_000)
    given = parser.parse_args()
    members = grid(hidden=[(16,), (64, 64)], learning_rate=[3e-4, 3e-3])
    agent = AdaDQN(make, members=members, learning_starts=500, exploration_steps=3_000, seed=0)
    before = evaluate_policy(agent, make(), n_eval_episodes=20)
    agent.learn(given.steps)
    after = evaluate_policy(agent, make(), n_eval_episodes=20)
    print(f"mean return before training {before.mean:.1f}, after {given.steps:,} steps {after.mean:.1f}")
    for member in agent.members:
        chosen = member.hyperparameters
        print(f"hidden {chosen.hidden!s:<9} learning rate {chosen.learning_rate:g}: selected {member.selected:.0%}")


if __name__ == "__main__":
    main()
