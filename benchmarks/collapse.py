"""Why a run in an infinite space collapses: what the chosen target member does, beside the other members.

    python -m benchmarks.collapse --seed 0 --steps 60000          # train, resumable, and draw
    python -m benchmarks.collapse --seed 0 --draw                 # only draw

For every target update of AdaDQN on Lunar Lander's infinite space it records who was chosen, by which cumulated losses,
and the largest |Q| of the new target on states of the replay buffer. Every `--evaluate-every` steps each member plays a
few short episodes greedily, with separate environments and generators, so that the run is the same as without it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from adaqn.agents.events import Event, TargetUpdate
from adaqn.exact_file import ExactFile
from adaqn.model import Model
from adaqn.runs.config import RunConfig, read_config
from adaqn.runs.labels import layers_label, number_label
from adaqn.runs.reading import whole_lines
from adaqn.training.base_callback import BaseCallback
from adaqn.training.evaluation import episode_seed
from benchmarks.isolation import ROOT

PRESET = "lunar-lander-infinite"
EPISODES, HORIZON = 4, 500
STATES = 256  # of the replay buffer, on which the values of the target are looked at


class Returns(NamedTuple):
    """Short greedy episodes of one member."""

    mean: float  # return
    length: float
    discounted: float
    promised: float  # max_a Q(s_0, a), which should be near the discounted return


def play(values: Any, seeds: list[int], gamma: float) -> Returns:
    """Greedy episodes for these seeds at the same time, cut after `HORIZON` steps."""
    envs = [gym.make("LunarLander-v3") for _ in seeds]
    observations = np.stack([env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)])
    totals, discounted, lengths = np.zeros(len(envs)), np.zeros(len(envs)), np.zeros(len(envs))
    over = np.zeros(len(envs), bool)
    promised = float(np.mean(values(observations).max(axis=-1)))
    for step in range(HORIZON):
        actions = values(observations).argmax(axis=-1)
        for index in np.flatnonzero(~over):
            observations[index], reward, terminated, truncated, _ = envs[index].step(int(actions[index]))
            totals[index] += float(reward)
            discounted[index] += gamma**step * float(reward)
            lengths[index] += 1
            over[index] = terminated or truncated
        if over.all():
            break
    for env in envs:
        env.close()
    return Returns(float(totals.mean()), float(lengths.mean()), float(discounted.mean()), promised)


class Observation(BaseCallback):
    """Writes a line for every target update, which is exact when the run is resumed."""

    def __init__(self, path: Path, every: int) -> None:
        super().__init__()
        self._file = ExactFile(path)
        self._every = every

    def exact_files(self) -> list[ExactFile]:
        return [self._file]

    def on_close(self, trainer: Any) -> None:
        del trainer
        self._file.close()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, TargetUpdate):
            self._file.append(json.dumps(self._line(event)) + "\n")

    def _line(self, event: TargetUpdate) -> dict[str, Any]:
        trainer: Any = self.trainer
        agent, state = trainer.agent, trainer.state
        programs, learning = agent.programs(state), state.learning
        states = trainer.replay.sample(np.random.default_rng(event.step), STATES).observation
        target = int(learning.selected.members[0])
        q = np.asarray(programs.members[target].values((learning.target[target],), states))
        line: dict[str, Any] = {
            "step": event.step,
            "target": event.target,
            "losses": event.cumulated_loss,
            "acted": event.acted,
            "largest_q": float(np.abs(q).max()),
            "mean_q": float(q.max(axis=-1).mean()),
            "spread_q": float(q.max(axis=-1).std()),  # over states: 0 for a constant function
            "members": [_label(member) for member in state.members],
        }
        if event.step % self._every == 0:
            seeds = [episode_seed(3_000_000 + trainer.seed, event.step, index) for index in range(EPISODES)]
            line["played"] = [
                play(lambda x, k=k: np.asarray(programs.members[k].values((learning.ensemble[k].parameters,), x)),
                     seeds, agent.settings.gamma)._asdict()
                for k in range(len(state.members))
            ]  # fmt: skip
        return line


def _label(member: Any) -> str:
    return (
        f"{layers_label(member.hidden)} {member.activation} {member.optimizer} "
        f"{number_label(member.learning_rate)} {member.loss}"
    )


def train(seed: int, steps: int, every: int, path: Path, settings: Mapping[str, Any]) -> None:
    """Train a run with its record, or go on with it."""
    record = Observation(path / "observation.jsonl", every)
    if any((path / "checkpoint").glob("step-*.zip")):
        Model.resume(path, callback=record, steps=steps)
        return
    (path / "observation.jsonl").unlink(missing_ok=True)
    values = read_config(PRESET)
    values |= {"seed": seed, "steps": steps, "settings": values["settings"] | dict(settings)}
    Model.from_config(RunConfig.from_dict(values)).learn(
        steps, record, run_dir=path, force=True, checkpoint_interval=5_000
    )


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a record."""
    return [json.loads(line) for line in whole_lines(path / "observation.jsonl")]


def main() -> None:
    """Train the run, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--evaluate-every", type=int, default=1_000, help="steps, a multiple of 200 (default 1000)")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "collapse")
    given = parser.parse_args()
    path = given.out / f"seed{given.seed}"
    train(given.seed, given.steps, given.evaluate_every, path, {})


if __name__ == "__main__":
    main()
