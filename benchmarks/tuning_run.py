"""One run of `cost_of_tuning` with a method of adaqn: trains until a check succeeds or the cap on samples is reached.

    python -m benchmarks.tuning_run --method searl --seed 0 --cap 400000 --every 20000 --core 0 --work DIR --out DIR

It is resumed from its last checkpoint if it was interrupted, and extended if the cap was raised.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np

from adaqn.base.errors import UserError
from adaqn.model.model import Model
from adaqn.runs.config import RunConfig
from adaqn.studies.definition import read_study
from adaqn.studies.study import RunKey
from adaqn.training.callbacks import BaseCallback, crossed
from adaqn.training.observers import LATEST
from benchmarks.isolation import ROOT, pin
from benchmarks.tuning_check import ENVIRONMENT, Meter
from benchmarks.tuning_record import TuningRecord, read_record, record_path, write_record

STUDY = ROOT / "benchmarks" / "cost_of_tuning.yaml"


def config_of(method: str, seed: int, cap: int) -> RunConfig:
    """The configuration of a method's run."""
    study = read_study(STUDY)
    return dataclasses.replace(study.config(RunKey(method, ENVIRONMENT, seed)), steps=cap)


class Checks(BaseCallback):
    """Checks the policy every `every` steps, and stops the run at the first success."""

    def __init__(self, meter: Meter, every: int, path: Path) -> None:
        super().__init__()
        self.meter = meter
        self.every = every
        self._path = path
        self._seen = 0

    @property
    def _ends(self) -> bool:
        """Whether the run was successful, and ends with that."""
        return self.meter.record.success is not None and not self.meter.record.through

    def _on_training_start(self) -> None:
        step = self._seen = self.num_timesteps
        self.meter.resume(step)
        checks = self.meter.record.checks
        if step and step % self.every == 0 and (not checks or checks[-1].samples < step):
            self._check()  # the process was killed between the checkpoint of this step and its check

    def _on_step(self) -> bool:
        due = crossed(self.every, self._seen, self.num_timesteps)
        self._seen = self.num_timesteps
        if due:
            self._check()
        return not self._ends

    def _check(self) -> None:
        trainer: Any = self.trainer
        latest = [episode.total for episode in trainer.recent_episodes][-LATEST:]
        report = trainer.report()
        name = f"member {report.target} of generation {report.generation}" if report.target is not None else ""
        self.meter.check(self.model, self.num_timesteps, float(np.mean(latest)) if latest else None, name)
        write_record(self._path, self.meter.record)

    def on_close(self, trainer: Any) -> None:
        if not self._ends:
            self.meter.note(trainer.clock.step)
            write_record(self._path, self.meter.record)


def run(
    method: str, seed: int, cap: int, every: int, work: Path, started: float, through: bool = False
) -> TuningRecord:
    """Start, resume or extend the run in its directory, and return its record."""
    directory = work / f"{method}-seed{seed}"
    path = directory / "record.json"
    record = TuningRecord(method, seed, cap, through=through)
    if path.exists():
        record = dataclasses.replace(read_record(path), cap=cap)
    if record.is_over:
        return record
    checks = Checks(Meter(record, started), every, path)
    run_dir = directory / "run"
    if any((run_dir / "checkpoint").glob("step-*.zip")):
        Model.resume(run_dir, callback=checks, steps=cap)
    else:
        directory.mkdir(parents=True, exist_ok=True)
        config = config_of(method, seed, cap)
        model = Model.from_config(config)
        model.learn(
            cap,
            checks,
            run_dir=run_dir,
            force=True,
            horizon=config.horizon,
            checkpoint_interval=every,
            log_interval=every,
        )
    return checks.meter.record


def main() -> None:
    """Make the run that the arguments describe, and write its record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", required=True)
    for name in ("seed", "cap", "every", "core"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("work", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--started", type=float, default=time.time(), help="time.time() when the process was started")
    parser.add_argument("--through", action="store_true", help="go on to the cap after a success, as a part of a sweep")
    given = parser.parse_args()
    pin(given.core)
    record = run(given.method, given.seed, given.cap, given.every, given.work, given.started, given.through)
    write_record(record_path(given.out, given.method, given.seed), record)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        raise SystemExit(str(error)) from error
