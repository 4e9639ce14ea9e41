"""Why a run in an infinite space collapses: what the chosen target member does, beside the other members.

    python -m benchmarks.collapse --seed 0 --steps 100000                      # train, or go on, and draw
    python -m benchmarks.collapse --draw RUN_DIR --figure collapse.png         # any run in an infinite space

For every target update of AdaDQN on Lunar Lander's infinite space it records who was chosen, by which cumulated losses,
and the largest |Q| of the new target on states of the replay buffer. Every `--evaluate-every` steps each member plays a
few short episodes greedily, with separate environments and generators, so that the run is the same as without it.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import matplotlib
import numpy as np

from adaqn.agents.protocol import Event, TargetUpdate
from adaqn.analysis.style import RC, metadata
from adaqn.base.exact_file import ExactFile
from adaqn.base.files import make_parent, replacing
from adaqn.model.model import Model
from adaqn.runs.config import RunConfig, read_config
from adaqn.runs.display.labels import layers_label, number_label
from adaqn.training.callbacks import BaseCallback
from adaqn.training.evaluation import episode_seed
from benchmarks.collapse_figure import OBSERVATION, draw
from benchmarks.collapse_table import table
from benchmarks.isolation import ROOT

PRESET = "lunar-lander-infinite"
EPISODES, HORIZON = 4, 500
BATCH = 32  # of the preset
STATES = 256  # of the replay buffer, on which the values of the target are looked at


class Returns(NamedTuple):
    """Short greedy episodes of one member."""

    mean: float  # return
    length: float
    discounted: float
    promised: float  # max_a Q(s_0, a), which should be near the discounted return


def q_values(programs: Any, parameters: Any, observations: np.ndarray) -> np.ndarray:
    """The values of one member, a batch at a time: there is a compiled program for that size already. [n, A]"""
    parts = []
    for first in range(0, len(observations), BATCH):
        part = observations[first : first + BATCH]
        rows = np.zeros((BATCH, *part.shape[1:]), part.dtype)
        rows[: len(part)] = part
        parts.append(np.asarray(programs.values(parameters, rows))[: len(part)])
    return np.concatenate(parts)


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
        q = q_values(programs.members[target], learning.target[target], states)
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
            gamma = agent.settings.gamma
            seeds = [episode_seed(3_000_000 + trainer.seed, event.step, index) for index in range(EPISODES)]
            line["played"] = [
                play(partial(q_values, programs.members[k], learning.ensemble[k].parameters), seeds, gamma)._asdict()
                for k in range(len(state.members))
            ]
        return line


def _label(member: Any) -> str:
    return (
        f"{layers_label(member.hidden)} {member.activation} {member.optimizer} "
        f"{number_label(member.learning_rate)} {member.loss}"
    )


def train(seed: int, steps: int, every: int, path: Path) -> None:
    """Train a run with its record, or go on with it."""
    record = Observation(path / OBSERVATION, every)
    if any((path / "checkpoint").glob("step-*.zip")):
        Model.resume(path, callback=record, steps=steps)
        return
    (path / OBSERVATION).unlink(missing_ok=True)
    values = read_config(PRESET)
    values |= {"seed": seed, "steps": steps}
    Model.from_config(RunConfig.from_dict(values)).learn(
        steps, record, run_dir=path, force=True, checkpoint_interval=5_000
    )


def save_figure(path: Path, figure: Path) -> None:
    """Draw a run, as PNG or PDF by the name of the file."""
    kind = figure.suffix.lstrip(".")
    make_parent(figure)
    with matplotlib.rc_context(RC), replacing(figure) as file:
        draw(path).savefig(file, format=kind, metadata=metadata(kind))


def main() -> None:
    """Train the run, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--evaluate-every", type=int, default=1_000, help="steps, a multiple of 200 (default 1000)")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "collapse")
    parser.add_argument("--draw", type=Path, help="only draw this run")
    parser.add_argument("--figure", type=Path, help="PNG or PDF (default collapse.png in the run's directory)")
    given = parser.parse_args()
    path = given.draw or given.out / f"seed{given.seed}"
    if given.draw is None:
        train(given.seed, given.steps, given.evaluate_every, path)
    save_figure(path, given.figure or path / "collapse.png")
    print(table(path))


if __name__ == "__main__":
    main()
