"""The live line of a run on the terminal: progress, speed and return."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from adaqn.agents.protocol import Event, Generation, TargetUpdate, TrialEnd
from adaqn.base.output import STDOUT
from adaqn.runs.display.labels import member_labels
from adaqn.training.observers import LATEST, RECENT, Observer, RunView

REFRESH = 0.25  # seconds between two refreshes of the live line
LOOKS = 5  # how often the clock is read between two refreshes
PLAIN_LINES = 20  # lines printed per run if the output is not a terminal
SPEED_WINDOW = 10.0  # seconds over which the speed is measured


def standard_console() -> Console:
    """A console for standard output; without colours and cursor movements in a pipe, even if FORCE_COLOR is set."""
    return Console(file=STDOUT, highlight=False, force_terminal=None if STDOUT.isatty() else False)


class ProgressLine(Observer[RunView]):
    """One line that shows the progress, the speed and the return of a run.

    If the output is not a terminal, a line is printed after every 5% of the run instead. `end` is the step at which the
    run ends, by default the horizon of its clock.
    """

    def __init__(
        self,
        end: int | None = None,
        console: Console | None = None,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.console = console or standard_console()
        self._end = end
        self._timer = timer
        self._live: Live | None = None
        self._labels: list[str] = []
        self._next_look = 0  # step of the next check: `on_step` must be cheap, and compares only this
        self._diverged: set[int] = set()

    def on_start(self, trainer: RunView) -> None:
        step, now = trainer.clock.step, self._timer()
        self.begun = (now, step)
        self.end = trainer.clock.horizon if self._end is None else self._end
        self._labels = member_labels([r.hyperparameters for r in trainer.report().members])
        self._marks: deque[tuple[float, int]] = deque([self.begun])
        self._last_look = self.begun
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self._next_look = step + 1
            self._live = Live(self._line(trainer), console=self.console, auto_refresh=False)
            self._live.start(refresh=True)
        else:
            self._next_look = self._next_plain_line(step)

    def on_step(self, trainer: RunView) -> None:
        if trainer.clock.step >= self._next_look:
            self._look(trainer)

    def next_step(self, step: int) -> int:
        return max(step + 1, self._next_look)

    def on_event(self, trainer: RunView, event: Event) -> None:
        if isinstance(event, TrialEnd):
            outcome = "failed" if event.fitness is None else f"finished with a mean return of {event.fitness:,.1f}"
            self.console.print(f"step {event.last_step:,}: trial {event.number} {outcome}")
        if isinstance(event, Generation):
            self._labels = member_labels([member.hyperparameters for member in event.members])
            self._diverged.clear()
        if not isinstance(event, TargetUpdate):
            return
        for member in event.newly_diverged:
            if member not in self._diverged:
                self._diverged.add(member)
                self.console.print(
                    f"step {event.step:,}: member {member} ({self._labels[member]}) diverged and no longer takes part",
                    style="yellow",
                )

    def on_close(self, trainer: RunView) -> None:
        if self._live is not None:
            self._live.update(self._line(trainer))
            self._live.stop()
            self._live = None

    def _look(self, trainer: RunView) -> None:
        step, now = trainer.clock.step, self._timer()
        if self._live is None:
            self._mark(now, step)
            self.console.print(self._plain_text(trainer), soft_wrap=True)
            self._next_look = self._next_plain_line(step)
            return
        if now - self._marks[-1][0] >= REFRESH:
            self._mark(now, step)
            self._live.update(self._line(trainer), refresh=True)
        # Reading the clock at every step would be expensive, so the number of steps between two checks follows the
        # speed. It at most doubles, so that the line keeps moving when the run becomes slow.
        before, seen = self._last_look
        speed = (step - seen) / max(now - before, 1e-9)
        self._next_look = step + max(1, int(min(speed * REFRESH / LOOKS, 2.0 * (step - seen))))
        self._last_look = (now, step)

    def _mark(self, now: float, step: int) -> None:
        self._marks.append((now, step))
        while len(self._marks) > 2 and self._marks[1][0] <= now - SPEED_WINDOW:
            self._marks.popleft()

    def _next_plain_line(self, step: int) -> int:
        """The first step after this one that completes another 5% of the run."""
        start = self.begun[1]
        way = max(1, self.end - start)
        passed = (step - start) * PLAIN_LINES // way
        return start + -(-(passed + 1) * way // PLAIN_LINES)

    @property
    def speed(self) -> float:
        """Environment steps per second over the last few seconds."""
        (before, seen), (now, step) = self._marks[0], self._marks[-1]
        return (step - seen) / max(now - before, 1e-9)

    def _facts(self, trainer: RunView) -> str:
        speed = self.speed
        left = (self.end - trainer.clock.step) / speed if speed > 0 else None
        return (
            f"{speed:,.0f} steps/s  return {return_label(trainer)}  "
            f"left {'-' if left is None else duration_label(left)}  {self._target(trainer)}"
        )

    def _target(self, trainer: RunView) -> str:
        first, *others = trainer.report().targets
        if others:
            return f"targets {' and '.join(map(str, (first, *others)))}"
        return f"target {first}: {self._labels[first]}"

    def _share(self, trainer: RunView) -> float:
        return min(1.0, trainer.clock.step / max(1, self.end))

    def _plain_text(self, trainer: RunView) -> str:
        share = self._share(trainer)
        return f"step {trainer.clock.step:,} of {self.end:,} ({share:.0%})  {self._facts(trainer)}"

    def _line(self, trainer: RunView) -> Table:
        # The widths depend only on the terminal, so that nothing jumps; the label of the target is last, and is
        # truncated if there is no room for it.
        width = self.console.width
        share = self._share(trainer)
        done = f"{int(100 * share):3d}%"
        bar_width = min(24, width - 90) if width >= 100 else 0
        facts = Text(self._facts(trainer))
        facts.truncate(width - len(done) - bar_width - 4, overflow="ellipsis")
        line = Table.grid(padding=(0, 1, 0, 0))
        line.add_row(done, ProgressBar(total=1.0, completed=share, width=bar_width), facts)
        return line


def return_label(trainer: RunView) -> str:
    """The mean training return of the last 100 episodes and, if there are more than 10, of the last 10."""
    if not trainer.recent_episodes:
        return "-"
    mean = f"{mean_return(trainer, RECENT):,.1f}"
    if len(trainer.recent_episodes) <= LATEST:
        return mean
    return f"{mean} (last {LATEST}: {mean_return(trainer, LATEST):,.1f})"


def mean_return(trainer: RunView, window: int) -> float:
    """The mean training return of the last `window` episodes; there must be at least one."""
    return float(np.mean([episode.total for episode in trainer.recent_episodes][-window:]))


def duration_label(seconds: float) -> str:
    """Hours, minutes and seconds: 1:02:03, or 2:03."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
