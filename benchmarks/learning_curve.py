"""One training run of `versus_sb3`: a side and a seed in, every training episode out as JSON."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import gymnasium as gym

from benchmarks.contenders import ENVIRONMENT, EQUAL, Contender, Settings, build
from benchmarks.isolation import pin

Side = Literal["ours", "sb3"]
SIDES: tuple[Side, ...] = get_args(Side)

# SB3 always clips gradients and ours never does; at this norm its clipping does nothing.
UNCLIPPED = dataclasses.replace(Settings(), max_grad_norm=1e9)


class Episode(NamedTuple):
    """A finished training episode."""

    step: int  # environment steps taken when it ended
    total: float  # undiscounted return
    length: int


@dataclasses.dataclass(frozen=True)
class Curve:
    """All training episodes of one run."""

    side: Side
    seed: int
    steps: int
    episodes: tuple[Episode, ...]


def curve_path(out: Path, side: Side, seed: int) -> Path:
    """Where the run of this side and seed is kept."""
    return out / f"{side}-seed{seed}.json"


def read_curve(path: Path) -> Curve:
    """The run that `write_curve` was given."""
    data = json.loads(path.read_text())
    episodes = tuple(Episode(int(step), float(total), int(length)) for step, total, length in data["episodes"])
    return Curve(data["side"], data["seed"], data["steps"], episodes)


def write_curve(path: Path, curve: Curve) -> None:
    """Write the run whole or not at all: a file that exists is never rerun."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(dataclasses.asdict(curve)) + "\n")
    os.replace(partial, path)


def train(side: Side, seed: int, steps: int) -> Curve:
    """Train one side from start to end."""
    episodes = _train_sb3(seed, steps) if side == "sb3" else _train_ours(seed, steps)
    return Curve(side, seed, steps, tuple(episodes))


def _train_sb3(seed: int, steps: int) -> list[Episode]:
    env = _Episodes(gym.make(ENVIRONMENT))
    learner: Any = build(Contender("sb3", "sb3", (EQUAL,)), env, UNCLIPPED, steps, seed)

    # SB3 acts at random until learning starts, where the paper and ours decay ε from the first step. What was seen in
    # those first 1,000 steps stays in the buffer for a tenth of the run, so the two must explore alike.
    def by_schedule(*_: Any, **__: Any) -> tuple[Any, Any]:
        action, _state = learner.predict(learner._last_obs, deterministic=False)
        return action, action

    learner._sample_action = by_schedule
    learner.learn(steps)
    return env.finished


def _train_ours(seed: int, steps: int) -> list[Episode]:
    from adaqn import DQN, Hyperparameters

    agent = DQN(
        ENVIRONMENT,
        members=[Hyperparameters(hidden=EQUAL, optimizer="adam", loss="huber", learning_rate=UNCLIPPED.learning_rate)],
        seed=seed,
        gamma=UNCLIPPED.gamma,
        learning_starts=UNCLIPPED.learning_starts,
        buffer_size=UNCLIPPED.buffer_size,
        batch_size=UNCLIPPED.batch_size,
        train_freq=UNCLIPPED.train_freq,
        target_update_interval=UNCLIPPED.target_update_interval,
        exploration_initial_eps=UNCLIPPED.exploration_initial_eps,
        exploration_final_eps=UNCLIPPED.exploration_final_eps,
        exploration_steps=UNCLIPPED.exploration_steps,
    )
    with tempfile.TemporaryDirectory() as scratch:
        run_dir = Path(scratch) / "run"
        agent.learn(steps, run_dir=run_dir)
        with (run_dir / "episodes.csv").open(newline="") as rows:
            return [Episode(int(row["step"]), float(row["return"]), int(row["length"])) for row in csv.DictReader(rows)]


class _Episodes(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps step, return and length of every finished episode, as `episodes.csv` does on our side."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.finished: list[Episode] = []
        self._step = self._length = 0
        self._total = 0.0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self._length, self._total = 0, 0.0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        outcome = self.env.step(action)
        _, reward, terminated, truncated, _ = outcome
        self._step += 1
        self._length += 1
        self._total += float(reward)
        if terminated or truncated:
            self.finished.append(Episode(self._step, self._total, self._length))
        return outcome


def main() -> None:
    """Train one run and write its curve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", choices=SIDES, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--core", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    pin(given.core)
    write_curve(curve_path(given.out, given.side, given.seed), train(given.side, given.seed, given.steps))


if __name__ == "__main__":
    main()
