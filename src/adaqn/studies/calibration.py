"""How fast an arm learns on this machine, and what memory and disk it takes, from a few seconds of training.

Each arm is measured in a process of its own, as its runs will be, which reads a configuration from standard input.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from adaqn.agents.registry import algorithm
from adaqn.base.errors import UserError
from adaqn.base.files import Json, json_value
from adaqn.studies.processes import process_environment

if TYPE_CHECKING:
    from adaqn.runs.config import RunConfig

SECONDS = 5.0  # of learning that are measured
LIMIT = 120.0  # seconds after which the measurement ends even if the programs are still being compiled
WARM_UP = 200  # steps of learning before them, in which the programs are compiled
_BURST = 500  # steps of a generation, of an algorithm that learns only when one ends


class Measurement(NamedTuple):
    """What one run of an arm takes."""

    steps_per_second: float
    memory: int  # bytes, with its replay buffer as full as it becomes
    disk: int  # bytes of its checkpoints, which hold the replay buffer


def calibrate(arms: Mapping[str, Json], jobs: int, told: Callable[[int], None]) -> dict[str, Measurement]:
    """Measure complete configurations, so many at a time as runs will execute; `told` is given how many are done."""

    def measured(arm: str) -> Measurement:
        result = _measure_apart(arm, arms[arm])
        done.append(arm)
        told(len(done))
        return result

    done: list[str] = []
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        return dict(zip(arms, pool.map(measured, arms), strict=True))


def _measure_apart(arm: str, values: Json) -> Measurement:
    done = subprocess.run(
        [sys.executable, "-m", "adaqn.studies.calibration"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        env=process_environment(),
    )
    lines = done.stdout.strip().splitlines()
    result = json_value("what the calibration printed", lines[-1]) if lines else {}
    if "steps_per_second" not in result:
        reason = result.get("error") or f"its process ended with status {done.returncode}: {done.stderr.strip()[-500:]}"
        raise UserError(f"the arm {arm} cannot be calibrated (--no-calibration does without): {reason}")
    return Measurement(**result)


def measure(config: RunConfig) -> Measurement:
    """Train for a few seconds."""
    from adaqn.api import Model

    model = Model.from_config(_soon_learning(config), threads=config.threads)
    watch = _Stopwatch()
    model.learn(config.steps, watch)
    replay = int(model.trainer.replay.nbytes * min(1.0, config.steps / config.settings.buffer_size))
    parameters = model.trainer.agent.parameter_bytes
    return Measurement(watch.steps_per_second, _peak_memory() + replay, replay + 2 * parameters)


def _soon_learning(config: RunConfig) -> RunConfig:
    """The same learning, without the steps that are only waited for."""
    changes: Json = {"learning_starts": min(config.settings.learning_starts, 4 * config.settings.batch_size)}
    if "evaluations" in algorithm(config.algo, config.base).traits.tables:
        changes["generation_interval"] = min(config.settings.generation_interval, _BURST)
    return dataclasses.replace(config, settings=dataclasses.replace(config.settings, **changes))


class _Stopwatch:
    """A callback that measures the speed once the programs are compiled, and then ends the training."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._from: tuple[float, int] | None = None  # time and step at which the measurement began
        self._last = (self._began, 0)

    def __call__(self, trainer: object) -> bool:
        now, step = time.perf_counter(), trainer.clock.step  # type: ignore[attr-defined]
        updates = trainer.updates  # type: ignore[attr-defined]
        if self._from is None and updates >= WARM_UP:
            self._from = (now, step)
        self._last = (now, step)
        measured = self._from is not None and now >= self._from[0] + SECONDS
        return not measured and now < self._began + LIMIT

    @property
    def steps_per_second(self) -> float:
        """Since the programs were compiled, or since the start if that never happened."""
        began, first = self._from or (self._began, 0)
        last, step = self._last
        return (step - first) / max(last - began, 1e-9)


def _peak_memory() -> int:
    """Bytes that this process has taken at most."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024


def _answer(text: str) -> Sequence[str]:
    from adaqn.runs.config import RunConfig

    try:
        config = RunConfig.as_given(json_value("the configuration", text))
        return (json.dumps(measure(config)._asdict()),)
    except UserError as error:
        return (json.dumps({"error": str(error)}),)


if __name__ == "__main__":
    print(*_answer(sys.stdin.read()))
