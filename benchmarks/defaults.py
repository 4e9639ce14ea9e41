"""The defaults of AdaDQN and AdaSAC beside the defaults of Stable-Baselines3, at equal numbers of steps.

    python -m benchmarks.defaults            # makes the next run that is missing; again until none is
    python -m benchmarks.defaults --list     # what is missing, and about how many CPU-minutes it takes
    python -m benchmarks.defaults --page     # writes docs/results/defaults.md from the runs that there are

Every run is a process of its own on one core, and leaves one small file; a run whose file exists is not repeated. No
setting is given to either side. The default members were chosen among sets of four (`SETS`) on the first environments,
by the mean rank of the final policies; the other environments only check them. SB3 gets images as vectors
("MlpPolicy"), because its convolutions need 36 x 36 pixels. The packages are those of `make bench`'s environment.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from benchmarks.isolation import ROOT, cores, pin, run_module
from benchmarks.learning_curve import EpisodeLog

# Sets of four members to choose from, as axes of a grid.
SETS: dict[str, dict[str, Any]] = {
    "widths": {"hidden": [(64, 64), (256, 256)], "learning_rate": [3e-4, 1e-3]},
    "rates": {"hidden": [(128, 128)], "learning_rate": [1e-4, 3e-4, 1e-3, 3e-3]},
    "layer-norm": {"hidden": [(128, 128)], "learning_rate": [3e-4, 1e-3], "normalization": ["none", "layer"]},
}
SEEDS = (0, 1, 2)
RESULTS = ROOT / "benchmarks" / "results" / "defaults"
PAGE = ROOT / "docs" / "results" / "defaults.md"
EVALUATION_EPISODES = 20
LAST = 0.1  # share of the steps at the end whose training episodes are averaged


class Task(NamedTuple):
    """An environment with its number of steps."""

    environment: str
    steps: int
    continuous: bool
    chosen_by: bool  # whether the default members were chosen by it
    rates: dict[str, float]  # rough steps per second of one core, by side, for the estimate
    module: str | None = None  # that registers it
    wrapper: str | None = None  # module:Class

    @property
    def default(self) -> str:
        """The default set of AdaDQN or AdaSAC; "images", for image observations, was not chosen here."""
        if self.wrapper is not None:
            return "images"
        return "layer-norm" if self.continuous else "widths"


_OF_DQN: dict[str, float] = {"adaqn": 700.0, "sb3": 1000.0}  # SB3 updates every fourth step
_OF_SAC: dict[str, float] = {"adaqn": 110.0, "sb3": 60.0}
TASKS: dict[str, Task] = {
    "mountain-car": Task("MountainCar-v0", 60_000, False, True, _OF_DQN),
    "acrobot": Task("Acrobot-v1", 50_000, False, True, _OF_DQN),
    "pendulum": Task("Pendulum-v1", 6_000, True, True, _OF_SAC),
    "double-pendulum": Task("InvertedDoublePendulum-v5", 8_000, True, True, _OF_SAC),
    "minigrid-empty": Task(
        "MiniGrid-Empty-5x5-v0",
        20_000,
        False,
        False,
        {"adaqn": 100.0, "sb3": 600.0},
        "minigrid",
        "minigrid.wrappers:ImgObsWrapper",
    ),
    "flappy-bird": Task("FlappyBird-v0", 50_000, False, False, _OF_DQN, "flappy_bird_gymnasium"),
    "hopper": Task("Hopper-v5", 10_000, True, False, _OF_SAC),
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One run, as it is written to its file."""

    task: str
    side: str  # a set of members, or sb3
    seed: int
    steps: int
    episodes: tuple[tuple[int, float, int], ...]  # step, return and length of every training episode
    evaluation: tuple[float, ...]  # returns of the final policy without exploration
    cpu_seconds: float  # of the whole process

    @property
    def last(self) -> float:
        """The mean return of the training episodes in the last tenth of the steps, or of the very last one."""
        returns = [total for step, total, _ in self.episodes if step > (1.0 - LAST) * self.steps]
        return float(np.mean(returns)) if returns else self.episodes[-1][1] if self.episodes else float("nan")


class Run(NamedTuple):
    """One entry of the schedule."""

    task: str
    side: str
    seed: int

    def path(self, results: Path) -> Path:
        """The file of this run."""
        return results / f"{self.task}-{self.side}-{self.seed}.json"

    @property
    def cpu_minutes(self) -> float:
        """A rough estimate of the time that it takes."""
        task = TASKS[self.task]
        return task.steps / task.rates.get(self.side, task.rates["adaqn"]) / 60.0


def every_run(tasks: Sequence[str] = tuple(TASKS), seeds: Sequence[int] = SEEDS) -> list[Run]:
    """All runs; each seed of all tasks before the next seed, so that a table can be looked at early."""
    return [Run(task, side, seed) for seed in seeds for task in tasks for side in sides_of(TASKS[task])]


def sides_of(task: Task) -> tuple[str, ...]:
    """The default members and SB3; all sets where the default is chosen, and elsewhere the set of AdaDQN beside it."""
    compared = tuple(SETS) if task.chosen_by else ("widths",) if task.continuous else ()
    return (task.default, "sb3", *(name for name in compared if name != task.default))


def make_environment(task: Task) -> gym.Env[Any, Any]:
    """A new environment of a task."""
    if task.module is not None:
        importlib.import_module(task.module)
    env = gym.make(task.environment)
    if task.wrapper is not None:
        module, _, name = task.wrapper.partition(":")
        env = getattr(importlib.import_module(module), name)(env)
    return env


def train(run: Run, steps: int) -> Outcome:
    """Train one side, and evaluate its final policy."""
    task = TASKS[run.task]
    log = EpisodeLog(make_environment(task))
    learner = _sb3(task, log, run.seed) if run.side == "sb3" else _adaqn(task, log, run.seed, run.side)
    learner.learn(steps)
    episodes = tuple((episode.step, episode.total, episode.length) for episode in log.finished)
    evaluation = evaluated(lambda seen: learner.predict(seen, deterministic=True)[0], make_environment(task))
    return Outcome(run.task, run.side, run.seed, steps, episodes, evaluation, round(time.process_time(), 1))


def _adaqn(task: Task, env: gym.Env[Any, Any], seed: int, side: str) -> Any:
    import adaqn

    members = None if side == task.default else adaqn.grid(**SETS[side])
    return (adaqn.AdaSAC if task.continuous else adaqn.AdaDQN)(env, members, seed=seed)


def _sb3(task: Task, env: gym.Env[Any, Any], seed: int) -> Any:
    import stable_baselines3  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    make = stable_baselines3.SAC if task.continuous else stable_baselines3.DQN
    return make("MlpPolicy", env, seed=seed, device="cpu")


def evaluated(policy: Callable[[Any], Any], env: gym.Env[Any, Any]) -> tuple[float, ...]:
    """The returns of a policy over episodes with fixed seeds."""
    returns = []
    for seed in range(EVALUATION_EPISODES):
        observation, _ = env.reset(seed=10_000 + seed)
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(policy(observation))
            total += float(reward)
            over = terminated or truncated
        returns.append(total)
    return tuple(returns)


def write(path: Path, outcome: Outcome) -> None:
    """Write a run atomically, because a run whose file exists is never repeated."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(dataclasses.asdict(outcome)) + "\n")
    os.replace(partial, path)


def read(path: Path) -> Outcome:
    """Read a run that `write` wrote."""
    values = json.loads(path.read_text())
    episodes = tuple((int(step), float(total), int(length)) for step, total, length in values["episodes"])
    return Outcome(**{**values, "episodes": episodes, "evaluation": tuple(map(float, values["evaluation"]))})


def page_text(outcomes: Sequence[Outcome]) -> str:
    """The page in Markdown: both sides on all environments, then the candidates where the defaults were chosen."""
    sets = "\n".join(f"- **{name}**: {_in_words(axes)}" for name, axes in SETS.items())
    compared = {name: tuple(side for side in SETS if side in sides_of(task)) for name, task in TASKS.items()}
    return f"""# Defaults beside Stable-Baselines3's

<!-- Generated by `python -m benchmarks.defaults --page` from benchmarks/results/defaults: edit that file, not this. -->

AdaDQN and AdaSAC with no argument but the environment, beside Stable-Baselines3's DQN and SAC ("MlpPolicy") with none,
at equal numbers of environment steps. The final policy is played without exploration in {EVALUATION_EPISODES} new
episodes; each number is the mean over seeds, with the seeds in brackets. Stable-Baselines3's DQN makes an update every
fourth step, AdaDQN every step. Times are processor minutes on one core, with the {EVALUATION_EPISODES} episodes.

{table(outcomes, {name: (task.default, "sb3") for name, task in TASKS.items()})}

## Which default members

On the environments that are marked "choose", sets of four members were compared, with everything else at its default,
and two of the sets on one of the others:

{sets}

{table(outcomes, {name: sides for name, sides in compared.items() if len(sides) > 1})}

Where all sets were run, the final policies are ranked within each environment and seed, 1 being the best, and the ranks
averaged:

{_ranks_table(outcomes)}

By this, AdaDQN has the set {TASKS["acrobot"].default} by default, and AdaSAC {TASKS["pendulum"].default}; with three
seeds on two environments each, it is a choice, not a proof. InvertedDoublePendulum-v5 and the rule of the mean rank
were added after two seeds of Pendulum-v1 had been seen, on which widths was the last of the three sets. The other
environments had no part in the choice.
{_where_another_is_better(outcomes)}AdaDQN's default members for images are three learning rates of one network, and
were not chosen here; AdaTD3's are the set widths, and were not compared with others.
"""


def _where_another_is_better(outcomes: Sequence[Outcome]) -> str:
    """A sentence for each environment without a part in the choice on which another set had better final policies."""
    sentences = []
    for name, task in TASKS.items():
        means = {
            side: float(np.mean([np.mean(o.evaluation) for o in outcomes if (o.task, o.side) == (name, side)]))
            for side in SETS
            if any((o.task, o.side) == (name, side) for o in outcomes)
        }
        best = max(means, key=lambda side: means[side], default=task.default)
        if not task.chosen_by and task.default in means and best != task.default:
            sentences.append(
                f"On {task.environment} the set {best} did better ({means[best]:.3g}) than {task.default} "
                f"({means[task.default]:.3g}), so the choice did not carry over to it.\n"
            )
    return "".join(sentences)


def mean_ranks(outcomes: Sequence[Outcome], continuous: bool) -> dict[str, float]:
    """The mean rank of each set by its final policy, 1 being the best, where all sets were run."""
    tasks = [name for name, task in TASKS.items() if task.chosen_by and task.continuous == continuous]
    found = {(o.task, o.seed, o.side): float(np.mean(o.evaluation)) for o in outcomes}
    ranks = []
    for task in tasks:
        for seed in sorted({o.seed for o in outcomes}):
            values = [found[task, seed, side] for side in SETS if (task, seed, side) in found]
            if len(values) == len(SETS):
                ranks.append([1 + sum(other > own for other in values) for own in values])
    return dict(zip(SETS, np.mean(ranks, axis=0).tolist(), strict=True)) if ranks else {}


def _ranks_table(outcomes: Sequence[Outcome]) -> str:
    lines = [f"| | {' | '.join(SETS)} |", "|---" * (1 + len(SETS)) + "|"]
    for label, continuous in (("AdaDQN", False), ("AdaSAC", True)):
        ranks = mean_ranks(outcomes, continuous)
        if ranks:
            lines.append(f"| {label} | {' | '.join(f'{ranks[side]:.2f}' for side in SETS)} |")
    return "\n".join(lines)


def _in_words(axes: Mapping[str, Sequence[Any]]) -> str:
    """The axes of a grid, such as "learning_rate 0.001, 0.003"."""
    return "; ".join(
        f"{name} " + ", ".join("x".join(map(str, v)) if isinstance(v, tuple) else f"{v}" for v in values)
        for name, values in axes.items()
    )


def table(outcomes: Sequence[Outcome], shown: Mapping[str, Sequence[str]]) -> str:
    """The runs as a table in Markdown: mean and every seed, of the final policies and of the last training episodes.

    `shown`: the sides of each task that are rows.
    """
    lines = [
        "| environment | steps | used to | side | final policy: mean (seeds) | last tenth of training: mean (seeds) "
        "| CPU-minutes |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, task in TASKS.items():
        for side in shown.get(name, ()):
            own = sorted((o for o in outcomes if (o.task, o.side) == (name, side)), key=lambda o: o.seed)
            if not own:
                continue
            steps = "/".join(f"{n:,}" for n in sorted({o.steps for o in own}))
            final, last = ([float(np.mean(o.evaluation)) for o in own], [o.last for o in own])
            minutes = float(np.mean([o.cpu_seconds for o in own])) / 60.0
            lines.append(
                f"| {task.environment} | {steps} | {'choose' if task.chosen_by else 'check'} | {side} | "
                f"{_with_seeds(final)} | {_with_seeds(last)} | {minutes:.1f} |"
            )
    return "\n".join(lines)


def _with_seeds(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3g} ({', '.join(f'{value:.3g}' for value in values)})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the next missing run, list what is missing, or write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.defaults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--steps", type=int, help="of every run, for a trial of this script (default: the task's)")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--core", type=int, help="core to run on (default: the last one)")
    parser.add_argument("--list", action="store_true", help="list the missing runs and estimate their CPU-minutes")
    parser.add_argument("--page", nargs="?", type=Path, const=PAGE, help="only write the page (default: of the docs)")
    parser.add_argument("--run", nargs=3, metavar=("TASK", "SIDE", "SEED"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.run is not None:
        pin(given.core)
        run = Run(given.run[0], given.run[1], int(given.run[2]))
        write(run.path(given.results), train(run, given.steps))
        return 0
    runs = every_run(given.tasks, given.seeds)
    missing = [run for run in runs if not run.path(given.results).exists()]
    if given.page is not None:
        given.page.write_text(page_text([read(run.path(given.results)) for run in runs if run not in missing]))
        print(given.page)
        return 0
    if given.list or not missing:
        for run in missing:
            print(f"{run.task} {run.side} seed {run.seed}: about {run.cpu_minutes:.0f} CPU-minutes")
        total = sum(run.cpu_minutes for run in missing)
        print(f"{len(missing)} of {len(runs)} runs are missing: about {total:.0f} CPU-minutes")
        return 0
    run = missing[0]
    steps = given.steps or TASKS[run.task].steps
    core = cores()[-1] if given.core is None else given.core
    began = time.monotonic()
    own = ["--run", run.task, run.side, str(run.seed), "--steps", str(steps), "--core", str(core)]
    run_module("benchmarks.defaults", [*own, "--results", str(given.results.resolve())])
    outcome = read(run.path(given.results))
    print(
        f"{run.task} {run.side} seed {run.seed}, {steps:,} steps: final policy {np.mean(outcome.evaluation):.3g}, last "
        f"tenth of training {outcome.last:.3g}; {outcome.cpu_seconds / 60:.1f} CPU-minutes, "
        f"{(time.monotonic() - began) / 60:.1f} minutes; {len(missing) - 1} runs are missing"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
