"""A run on the terminal: what begins, a live line while it lasts, and what came out."""

from __future__ import annotations

import shlex
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from adaqn.agents.events import Event, Generation, TargetUpdate, TrialEnd
from adaqn.printing import STEADY
from adaqn.runs.labels import member_labels
from adaqn.runs.tables import facts_table, members_table, outcome_table, space_label
from adaqn.training.callbacks import target_member
from adaqn.training.observers import Observer

if TYPE_CHECKING:
    from adaqn.training.trainer import Trainer

REFRESH = 0.25  # seconds between two states of the live line
LOOKS = 5  # how often the time is looked at between two of them
PLAIN_LINES = 20  # lines of a run whose output is not a terminal
SPEED_WINDOW = 10.0  # seconds over which the speed is measured


class Memory(NamedTuple):
    """What a run will need, in bytes."""

    replay: int
    parameters: int  # with optimizer states and target


class ProgressLine(Observer):
    """One line that shows how far the run is, how fast and how well.

    Where the output is not a terminal, there is a line for every twentieth of the way instead. `end` is the
    step at which the run ends, by default the horizon of its clock.
    """

    def __init__(
        self,
        end: int | None = None,
        console: Console | None = None,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.console = console or Console(file=STEADY, highlight=False)
        self.target = 0
        self._end = end
        self._timer = timer
        self._live: Live | None = None
        self._labels: list[str] = []
        self._next_look = 0  # the only thing that `on_step` compares
        self._diverged: set[int] = set()

    def on_start(self, trainer: Trainer) -> None:
        step, now = trainer.clock.step, self._timer()
        self.begun = (now, step)
        self.end = trainer.clock.horizon if self._end is None else self._end
        self.target = target_member(trainer)
        self._labels = member_labels([r.hyperparameters for r in trainer.agent.report(trainer.state)])
        self._marks: deque[tuple[float, int]] = deque([self.begun])
        self._last_look = self.begun
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self._next_look = step + 1
            self._live = Live(self._line(trainer), console=self.console, auto_refresh=False)
            self._live.start(refresh=True)
        else:
            self._next_look = self._next_plain_line(step)

    def on_step(self, trainer: Trainer) -> None:
        if trainer.clock.step >= self._next_look:
            self._look(trainer)

    def on_event(self, trainer: Trainer, event: Event) -> None:
        if isinstance(event, TrialEnd):
            outcome = "failed" if event.fitness is None else f"reached a return of {event.fitness:,.1f}"
            self.console.print(f"step {event.last_step:,}: trial {event.number} {outcome}")
        if isinstance(event, Generation):
            self._labels = member_labels([member.hyperparameters for member in event.members])
            self._diverged.clear()
        if not isinstance(event, TargetUpdate):
            return
        self.target = event.target
        for member in event.newly_diverged:
            if member not in self._diverged:
                self._diverged.add(member)
                self.console.print(
                    f"step {event.step:,}: member {member} ({self._labels[member]}) diverged "
                    "and takes no part any more",
                    style="yellow",
                )

    def on_close(self, trainer: Trainer) -> None:
        if self._live is not None:
            self._live.update(self._line(trainer))
            self._live.stop()
            self._live = None

    def _look(self, trainer: Trainer) -> None:
        step, now = trainer.clock.step, self._timer()
        if self._live is None:
            self._mark(now, step)
            self.console.print(self._plain_text(trainer), soft_wrap=True)
            self._next_look = self._next_plain_line(step)
            return
        if now - self._marks[-1][0] >= REFRESH:
            self._mark(now, step)
            self._live.update(self._line(trainer), refresh=True)
        # Asking for the time at every step would be dear, so the steps between two looks follow the speed.
        # They at most double, so that the line does not stand still where the run becomes slow.
        before, seen = self._last_look
        speed = (step - seen) / max(now - before, 1e-9)
        self._next_look = step + max(1, int(min(speed * REFRESH / LOOKS, 2.0 * (step - seen))))
        self._last_look = (now, step)

    def _mark(self, now: float, step: int) -> None:
        self._marks.append((now, step))
        while len(self._marks) > 2 and self._marks[1][0] <= now - SPEED_WINDOW:
            self._marks.popleft()

    def _next_plain_line(self, step: int) -> int:
        """The first step after this one that is a further twentieth of the way."""
        start = self.begun[1]
        way = max(1, self.end - start)
        passed = (step - start) * PLAIN_LINES // way
        return start + -(-(passed + 1) * way // PLAIN_LINES)

    @property
    def speed(self) -> float:
        """Environment steps per second of late."""
        (before, seen), (now, step) = self._marks[0], self._marks[-1]
        return (step - seen) / max(now - before, 1e-9)

    def _facts(self, trainer: Trainer) -> str:
        speed = self.speed
        left = (self.end - trainer.clock.step) / speed if speed > 0 else None
        return (
            f"{speed:,.0f} steps/s  return {return_label(trainer)}  "
            f"left {'-' if left is None else duration_label(left)}  "
            f"target {self.target}: {self._labels[self.target]}"
        )

    def _share(self, trainer: Trainer) -> float:
        return min(1.0, trainer.clock.step / max(1, self.end))

    def _plain_text(self, trainer: Trainer) -> str:
        share = self._share(trainer)
        return f"step {trainer.clock.step:,} of {self.end:,} ({share:.0%})  {self._facts(trainer)}"

    def _line(self, trainer: Trainer) -> Table:
        # The widths depend on the terminal alone, so that nothing jumps; the label of the target, which
        # stands last, is cut where there is no room for it.
        width = self.console.width
        share = self._share(trainer)
        done = f"{int(100 * share):3d}%"
        bar_width = max(10, min(24, width - 70)) if width >= 60 else 0
        facts = Text(self._facts(trainer))
        facts.truncate(width - len(done) - bar_width - 4, overflow="ellipsis")
        line = Table.grid(padding=(0, 1, 0, 0))
        line.add_row(done, ProgressBar(total=1.0, completed=share, width=bar_width), facts)
        return line


class DivergenceWarning(Observer):
    """Says that a member diverged where nothing else is shown of a run."""

    def on_event(self, trainer: Trainer, event: Event) -> None:
        """Warn once of each."""
        if isinstance(event, TargetUpdate):
            for member in event.newly_diverged:
                hyperparameters = trainer.agent.report(trainer.state)[member].hyperparameters.to_dict()
                warnings.warn(
                    f"step {event.step}: member {member} diverged and takes no part any more: {hyperparameters}",
                    RuntimeWarning,
                    stacklevel=2,
                )


class ConsoleReporter(Observer):
    """All of a run: a header with the members, the progress line, and in the end how the members did."""

    def __init__(
        self,
        *,
        algorithm: str,
        steps: int,
        gamma: float,
        memory: Memory,
        run_directory: Path | None = None,
        notes: Sequence[str] = (),
        conclusion: Callable[[], Sequence[str]] = tuple,
        console: Console | None = None,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.console = console or Console(file=STEADY, highlight=False)
        self.algorithm = algorithm
        self.steps = steps
        self.gamma = gamma
        self.memory = memory
        self.run_directory = run_directory
        self.notes = notes  # of the agent, on what it is going to do
        self.conclusion = conclusion  # of the agent, on what came of it
        self._timer = timer
        self._progress = ProgressLine(steps, self.console, timer)
        self._running = False

    def on_start(self, trainer: Trainer) -> None:
        environments = trainer.environments
        parallel = f" ({environments.count} in parallel)" if environments.count > 1 else ""
        facts = {
            "algorithm": self.algorithm,
            "environment": environments.name + parallel,
            "observations": space_label(environments.observation_space),
            "actions": space_label(environments.action_space),
            "seed": str(trainer.seed),
            "steps": f"{self.steps:,}" + (f", from {trainer.clock.step:,}" if trainer.clock.step else ""),
            "memory": f"replay {bytes_label(self.memory.replay)}, parameters {bytes_label(self.memory.parameters)}",
        }
        self.console.print(facts_table(facts))
        for note in self.notes:
            self.console.print(note)
        members = [report.hyperparameters for report in trainer.agent.report(trainer.state)]
        self.console.print(members_table(members, self.gamma, self.console.width))
        self._progress.on_start(trainer)
        self._running = True
        # Bound here, so that a step costs one call and not two.
        self.on_step = self._progress.on_step

    def on_event(self, trainer: Trainer, event: Event) -> None:
        self._progress.on_event(trainer, event)

    def on_finish(self, trainer: Trainer) -> None:
        self._running = False
        self._conclude(trainer)
        if self.run_directory is not None:
            where = shlex.quote(str(self.run_directory))
            commands = f"adaqn evaluate {where} --episodes 20\nadaqn picture {where}"
            self.console.print(facts_table({"run directory": str(self.run_directory), "next": commands}))

    def on_close(self, trainer: Trainer) -> None:
        if self._running and trainer.interrupted:
            self._conclude(trainer)  # how to resume is said by whoever caught the interruption
        # After an error there is nothing to conclude, but the terminal must be left in order.
        self._progress.on_close(trainer)
        self._running = False

    def _conclude(self, trainer: Trainer) -> None:
        self._progress.on_close(trainer)
        console, step = self.console, trainer.clock.step
        begun, first = self._progress.begun
        seconds = self._timer() - begun
        speed = (step - first) / max(seconds, 1e-9)
        if trainer.stop_reason is not None:
            console.print(f"stopped at step {step:,} of {self.steps:,}: {trainer.stop_reason}")
        console.print(
            f"{step - first:,} steps in {duration_label(seconds)} ({speed:,.0f} steps/s), "
            f"{trainer.episodes:,} episodes, return {return_label(trainer)}"
        )
        reports = trainer.agent.report(trainer.state)
        console.print(outcome_table(reports, self._progress.target))
        for line in self.conclusion():
            console.print(line)


def return_label(trainer: Trainer) -> str:
    """The mean return of the last training episodes."""
    if not trainer.recent_episodes:
        return "-"
    return f"{np.mean([episode.total for episode in trainer.recent_episodes]):,.1f}"


def duration_label(seconds: float) -> str:
    """Hours, minutes and seconds: 1:02:03, or 2:03."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def bytes_label(size: int) -> str:
    """A number of bytes with the unit that leaves a short number."""
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3g} GB" if value < 1000 else f"{value:,.0f} GB"
