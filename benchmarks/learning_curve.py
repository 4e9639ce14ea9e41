"""One training run of `versus`: trains a side of a task with a seed and writes every training episode as JSON."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from pathlib import Path
from typing import Any, NamedTuple, get_args

import gymnasium as gym

from benchmarks.contenders import DQNSettings, build
from benchmarks.duels import DUELS, Duel, Side
from benchmarks.isolation import pin


class Episode(NamedTuple):
    """A finished training episode."""

    step: int  # environment steps taken when it ended
    total: float  # undiscounted return
    length: int


@dataclasses.dataclass(frozen=True)
class Curve:
    """All training episodes of one run."""

    task: str
    side: Side
    seed: int
    steps: int
    episodes: tuple[Episode, ...]


def curve_path(out: Path, side: Side, seed: int) -> Path:
    """The file of the run of a side and seed."""
    return out / f"{side}-seed{seed}.json"


def read_curve(path: Path) -> Curve:
    """Read a run that `write_curve` wrote."""
    data = json.loads(path.read_text())
    episodes = tuple(Episode(int(step), float(total), int(length)) for step, total, length in data["episodes"])
    # Old files, from when there was only one task, do not name it.
    return Curve(data.get("task", "lunar-lander"), data["side"], data["seed"], data["steps"], episodes)


def write_curve(path: Path, curve: Curve) -> None:
    """Write the run atomically, because a run whose file exists is never repeated."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(dataclasses.asdict(curve)) + "\n")
    os.replace(partial, path)


def train(duel: Duel, side: Side, seed: int, steps: int) -> Curve:
    """Train one side from start to end."""
    env = EpisodeLog(gym.make(duel.environment))
    learner: Any = build(duel.contender(side), lambda: env, duel.settings, steps, seed)
    if side == "sb3" and isinstance(duel.settings, DQNSettings):
        _explore_by_schedule(learner)
    learner.learn(steps)
    return Curve(duel.name, side, seed, steps, tuple(env.finished))


def _explore_by_schedule(learner: Any) -> None:
    """Make SB3's DQN follow its ε schedule from the first step.

    SB3 acts uniformly at random until learning starts, while the paper and ours decay ε from the first step. The first
    1,000 transitions stay in the buffer for a tenth of the run, so both must explore alike.
    """

    def by_schedule(*_: Any, **__: Any) -> tuple[Any, Any]:
        action, _state = learner.predict(learner._last_obs, deterministic=False)
        return action, action

    learner._sample_action = by_schedule


class EpisodeLog(gym.Wrapper[Any, Any, Any, Any]):
    """Records step, return and length of every finished episode."""

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
    parser.add_argument("--task", choices=DUELS, required=True)
    parser.add_argument("--side", choices=get_args(Side), required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--core", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    pin(given.core)
    curve = train(DUELS[given.task], given.side, given.seed, given.steps)
    write_curve(curve_path(given.out, given.side, given.seed), curve)


if __name__ == "__main__":
    main()
