"""progress.csv: wall-clock values and scalars of the logs, and the clock that measures them."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from adaqn.agents.protocol import Event, PolicyEvaluation
from adaqn.base.errors import OutputFault
from adaqn.networks.xla.compilation import compile_seconds
from adaqn.replay.memory import resident_memory
from adaqn.training.callbacks import crossed, next_multiple
from adaqn.training.observers import Observer, RunView


class Stopwatch:
    """Wall-clock time since its creation, plus the time the run took before it was resumed."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self._began

    def set(self, elapsed: float) -> None:
        """Continue from this many seconds."""
        self._began = time.perf_counter() - elapsed


Metrics = Mapping[str, float | None]  # by tag; None if there is no value yet


class Sink(Protocol):
    """A destination of metrics. If a method raises an OutputFault, the run continues without the sink."""

    def open(self, step: int) -> None:
        """Start at this step; values already written for later steps are from before a resume, and are obsolete."""
        ...

    def write(self, step: int, metrics: Metrics) -> None:
        """Write the metrics of one step; steps increase."""
        ...

    def close(self) -> None:
        """Close the sink; also called after an error, and if it was never opened."""
        ...


class ProgressRecorder(Observer[RunView]):
    """Logs the metrics whenever a multiple of `interval` environment steps was crossed, and at the end.

    An evaluation is logged at its own step, as Stable-Baselines3 does.
    """

    def __init__(self, interval: int, sinks: Sequence[Sink], stopwatch: Stopwatch | None = None) -> None:
        self._interval = interval
        self._sinks = list(sinks)
        self._stopwatch = stopwatch or Stopwatch()
        self._seen = 0  # step of the last call
        self._logged = 0
        self._opened = False
        self._start = (0, 0.0)  # step and elapsed time at which this process started

    def on_start(self, trainer: RunView) -> None:
        """Open the sinks."""
        step = trainer.clock.step
        self._seen = self._logged = step
        self._start = (step, self._stopwatch.elapsed)
        self._open(trainer)
        trainer.logger.reserve(self._metrics(trainer))

    def on_step(self, trainer: RunView) -> None:
        """Log every `interval` steps."""
        step = trainer.clock.step
        if crossed(self._interval, self._seen, step):
            self._log(trainer)
        self._seen = step

    def next_step(self, step: int) -> int:
        """The next multiple of the interval."""
        return next_multiple(self._interval, step)

    def on_event(self, trainer: RunView, event: Event) -> None:
        """Log an evaluation."""
        if isinstance(event, PolicyEvaluation):
            metrics = {
                "time/total_timesteps": event.step,
                "eval/mean_reward": event.mean,
                "eval/mean_ep_length": event.mean_length,
            }
            self._open(trainer)
            self._tell(lambda sink: sink.write(event.step, metrics))

    def on_finish(self, trainer: RunView) -> None:
        """Log the last step, unless it was already logged."""
        if self._logged != trainer.clock.step or trainer.logger.waits:
            self._log(trainer)

    def _open(self, trainer: RunView) -> None:
        """Open the sinks once; a postponed evaluation can be reported before `on_start` is called."""
        if not self._opened:
            self._opened = True
            self._tell(lambda sink: sink.open(trainer.clock.step))

    def on_close(self, trainer: RunView) -> None:
        """Close the sinks."""
        self._opened = False
        self._tell(lambda sink: sink.close())

    def _log(self, trainer: RunView) -> None:
        self._logged = trainer.clock.step
        metrics = {**self._metrics(trainer), **trainer.logger.take()}
        self._tell(lambda sink: sink.write(trainer.clock.step, metrics))

    def _tell(self, act: Callable[[Sink], None]) -> None:
        """Call a function with every sink; sinks that fail are dropped with a warning, as a run does not need them."""
        for sink in tuple(self._sinks):
            try:
                act(sink)
            except OutputFault as fault:
                self._sinks.remove(sink)
                warnings.warn(f"{fault}; the run goes on without it", RuntimeWarning, stacklevel=4)

    def _metrics(self, trainer: RunView) -> dict[str, float | None]:
        recent, step = trainer.recent_episodes, trainer.clock.step
        elapsed, memory = self._stopwatch.elapsed, resident_memory()
        start_step, start_elapsed = self._start
        speed = (step - start_step) / max(elapsed - start_elapsed, 1e-9)
        return {
            "time/total_timesteps": step,
            "time/time_elapsed": round(elapsed, 3),
            "time/fps": int(speed),
            "time/episodes": trainer.episodes,
            "time/compile_seconds": round(compile_seconds(), 3),
            "time/memory_mb": None if memory is None else round(memory / 1e6, 1),
            "rollout/ep_rew_mean": statistics.fmean(e.total for e in recent) if recent else None,
            "rollout/ep_len_mean": statistics.fmean(e.length for e in recent) if recent else None,
            "train/n_updates": trainer.updates,
            **trainer.report().metrics,
        }
