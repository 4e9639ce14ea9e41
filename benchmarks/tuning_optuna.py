"""Optuna over Stable-Baselines3's DQN: TPE and a median pruner in the usual range (RL Zoo's for DQN).

    python -m benchmarks.tuning_optuna --seed 0 --cap 400000 --every 20000 --core 0 --work DIR --out DIR

A trial trains for 100,000 steps, which is RL Zoo's length of a DQN run on Lunar Lander. It is evaluated every 20,000
steps in five episodes, by which the pruner decides, and the last evaluation is its value; these episodes are samples
like any other. What is handed over is the policy of the best finished trial at its end, without training it anew.
Sampler and pruner start with five random trials instead of ten, since a cap of some hundred thousand samples holds few.

Finished trials are kept as JSON, from which the study is built again: it is continued after an interruption, and trial
n proposes the same, because the sampler is seeded with the seed and n.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np

from adaqn.training.evaluation import episode_seed
from benchmarks.isolation import pin
from benchmarks.tuning_check import ENVIRONMENT, Meter, play
from benchmarks.tuning_record import TuningRecord, read_record, record_path, write_record

METHOD = "optuna"
TRIAL_STEPS = 100_000
EVALUATIONS = 5
EPISODES = 5
STARTUP_TRIALS = 5
WARMUP_EVALUATIONS = EVALUATIONS // 3  # as RL Zoo has it

CHOICES: dict[str, tuple[Any, ...]] = {
    "gamma": (0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999),
    "batch_size": (16, 32, 64, 100, 128, 256, 512),
    "buffer_size": (10_000, 50_000, 100_000, 1_000_000),
    "target_update_interval": (1, 1_000, 5_000, 10_000, 15_000, 20_000),
    "learning_starts": (0, 1_000, 5_000, 10_000, 20_000),
    "train_freq": (1, 4, 8, 16, 128, 256, 1_000),
    "subsample_steps": (1, 2, 4, 8),
    "net_arch": ("tiny", "small", "medium"),
}
LEARNING_RATE = (1e-5, 1.0)  # logarithmic
EXPLORATION = {"exploration_final_eps": (0.0, 0.2), "exploration_fraction": (0.0, 0.5)}
LAYERS = {"tiny": [64], "small": [64, 64], "medium": [256, 256]}


class Trial(NamedTuple):
    """A trial that has ended."""

    params: dict[str, Any]
    values: dict[str, float]  # mean return of each evaluation, by its number
    state: Literal["COMPLETE", "PRUNED"]


class Progress(NamedTuple):
    """The tuning between two trials."""

    trials: tuple[Trial, ...] = ()
    samples: int = 0

    @property
    def best(self) -> int | None:
        """The number of the best finished trial."""
        finished = {
            n: trial.values[str(EVALUATIONS)] for n, trial in enumerate(self.trials) if trial.state == "COMPLETE"
        }
        return max(finished, key=lambda n: finished[n]) if finished else None


def suggest(trial: Any) -> dict[str, Any]:
    """Hyperparameters of a trial, drawn from the range."""
    drawn = {name: trial.suggest_categorical(name, list(values)) for name, values in CHOICES.items()}
    drawn["learning_rate"] = trial.suggest_float("learning_rate", *LEARNING_RATE, log=True)
    return drawn | {name: trial.suggest_float(name, *bounds) for name, bounds in EXPLORATION.items()}


def arguments_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of Stable-Baselines3's DQN for drawn hyperparameters."""
    arguments = dict(params)
    arguments["gradient_steps"] = max(arguments["train_freq"] // arguments.pop("subsample_steps"), 1)
    arguments["policy_kwargs"] = {"net_arch": LAYERS[arguments.pop("net_arch")]}
    return arguments


class OutOfSamples(Exception):
    """The cap was reached within a trial."""


class Tuning:
    """The study of one seed."""

    def __init__(self, meter: Meter, cap: int, work: Path, trial_steps: int = TRIAL_STEPS) -> None:
        import torch  # pyright: ignore[reportMissingImports]

        torch.set_num_threads(1)
        self.meter = meter
        self._cap = cap
        self._work = work
        self._trial_steps = trial_steps
        self.progress = _read_progress(work / "trials.json")
        self._samples = self.progress.samples
        meter.resume(self.progress.samples)

    def run(self) -> None:
        """Run trials until a check succeeds or the cap is reached."""
        while self._samples < self._cap and self.meter.record.success is None:
            try:
                model, trial = self._trial()
            except OutOfSamples:
                break
            number = len(self.progress.trials)
            trials = (*self.progress.trials, trial)
            self.progress = Progress(trials, self._samples)
            if self.progress.best == number:
                self.meter.check(model, self._samples, trial.values[str(EVALUATIONS)], f"trial {number}")
            else:
                self.meter.note(self._samples)
            self._save()
        if self.meter.record.success is None:
            self.meter.note(self._samples)

    def _trial(self) -> tuple[Any, Trial]:
        """Train with the next proposal, and evaluate on the way."""
        import optuna  # pyright: ignore[reportMissingImports]
        import stable_baselines3 as sb3  # pyright: ignore[reportMissingImports]

        number, seed = len(self.progress.trials), self.meter.record.seed
        study = self._study(number)
        trial = study.ask()
        params = suggest(trial)
        env = gym.make(ENVIRONMENT)
        model = sb3.DQN("MlpPolicy", env, seed=1_000 * seed + number, device="cpu", **arguments_of(params))
        values: dict[str, float] = {}
        pruned = False

        def after_step(_locals: object, _globals: object) -> bool:
            nonlocal pruned
            self._samples += 1
            if self._samples >= self._cap:
                return False
            if model.num_timesteps % (self._trial_steps // EVALUATIONS) == 0:
                step = len(values) + 1
                seeds = [episode_seed(2_000_000 + seed, number, step, index) for index in range(EPISODES)]
                played = play(model, seeds)
                self._samples += played.steps
                values[str(step)] = float(np.mean(played.returns))
                trial.report(values[str(step)], step)
                pruned = step < EVALUATIONS and trial.should_prune()
            return not pruned

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        model.learn(self._trial_steps, callback=after_step)
        env.close()
        if not pruned and str(EVALUATIONS) not in values:
            raise OutOfSamples
        return model, Trial(params, values, "PRUNED" if pruned else "COMPLETE")

    def _study(self, number: int) -> Any:
        """The study with all ended trials, ready to propose trial `number`."""
        import optuna  # pyright: ignore[reportMissingImports]

        own = int(np.random.SeedSequence((self.meter.record.seed, number)).generate_state(1)[0])
        sampler = optuna.samplers.TPESampler(n_startup_trials=STARTUP_TRIALS, multivariate=True, seed=own)
        pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=WARMUP_EVALUATIONS)
        study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
        # The range belongs to each trial: drawing from a fixed one gives its distributions.
        for ended in self.progress.trials:
            fixed = optuna.trial.FixedTrial(ended.params)
            suggest(fixed)
            study.add_trial(
                optuna.trial.create_trial(
                    params=ended.params,
                    distributions=fixed.distributions,
                    intermediate_values={int(step): value for step, value in ended.values.items()},
                    value=list(ended.values.values())[-1],
                    state=optuna.trial.TrialState[ended.state],
                )
            )
        return study

    def _save(self) -> None:
        # The record first: a check whose trial is not in the file is dropped and made again.
        write_record(self._work / "record.json", self.meter.record)
        partial = self._work / "trials.partial"
        partial.write_text(json.dumps(self.progress._asdict(), indent=1) + "\n")
        os.replace(partial, self._work / "trials.json")


def _read_progress(path: Path) -> Progress:
    if not path.exists():
        return Progress()
    data = json.loads(path.read_text())
    trials = tuple(Trial(params, values, state) for params, values, state in data.pop("trials"))
    return Progress(trials, **data)


def run(seed: int, cap: int, work: Path, started: float, trial_steps: int = TRIAL_STEPS) -> TuningRecord:
    """Start or continue the tuning of a seed, and return its record."""
    directory = work / f"{METHOD}-seed{seed}"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "record.json"
    record = dataclasses.replace(read_record(path), cap=cap) if path.exists() else TuningRecord(METHOD, seed, cap)
    if not record.is_over:
        tuning = Tuning(Meter(record, started), cap, directory, trial_steps)
        tuning.run()
        record = tuning.meter.record
    return record


def main() -> None:
    """Make the run that the arguments describe, and write its record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", choices=[METHOD], default=METHOD)
    for name in ("seed", "cap", "core"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--every", type=int, help="not used: a policy is handed over only when a trial ends")
    for name in ("work", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--started", type=float, default=time.time(), help="time.time() when the process was started")
    parser.add_argument("--trial-steps", type=int, default=TRIAL_STEPS)
    given = parser.parse_args()
    pin(given.core)
    record = run(given.seed, given.cap, given.work, given.started, given.trial_steps)
    write_record(record_path(given.out, METHOD, given.seed), record)


if __name__ == "__main__":
    main()
