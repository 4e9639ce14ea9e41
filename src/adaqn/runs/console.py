"""A run on the terminal: what is about to start, a live line while it runs, and what came of it."""

from __future__ import annotations

import math
import shlex
import sys
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

from adaqn.agents.events import Event, Generation, PolicyEvaluation, TargetUpdate, TrialEnd
from adaqn.runs.labels import member_labels
from adaqn.runs.reading import EVALUATION, BestModel
from adaqn.runs.standings import HistoryRecorder, acting_returns
from adaqn.runs.tables import facts_table, members_table, outcome_notes, outcome_table, space_label
from adaqn.training.observers import LATEST, Episode, Observer
from adaqn.training.trainer import RECENT

if TYPE_CHECKING:
    from adaqn.hyperparameters import Hyperparameters
    from adaqn.training.trainer import Trainer

REFRESH = 0.25  # seconds between two states of the live line
LOOKS = 5  # how often the time is looked at between two of them
PLAIN_LINES = 20  # lines of a run whose output is not a terminal
SPEED_WINDOW = 10.0  # seconds over which the speed is measured


def standard_console() -> Console:
    """The terminal; piped output has no colours or cursor movements, even if FORCE_COLOR asks for them."""
    return Console(highlight=False, force_terminal=None if sys.stdout.isatty() else False)


class Memory(NamedTuple):
    """What a run will need, in bytes."""

    replay: int
    parameters: int  # with optimizer states and target


class ProgressLine(Observer):
    """One line that shows the progress, the speed and the return of a run.

    Where the output is not a terminal, a line is printed after every twentieth of the run instead. `end` is the step at
    which the run ends, by default the horizon of its clock.
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
        self._next_look = 0  # the only thing that `on_step` compares
        self._diverged: set[int] = set()

    def on_start(self, trainer: Trainer) -> None:
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

    def on_step(self, trainer: Trainer) -> None:
        if trainer.clock.step >= self._next_look:
            self._look(trainer)

    def on_event(self, trainer: Trainer, event: Event) -> None:
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
        # Reading the clock at every step would be expensive, so the steps between two looks follow the speed.
        # They at most double, so that the line keeps moving where the run becomes slow.
        before, seen = self._last_look
        speed = (step - seen) / max(now - before, 1e-9)
        self._next_look = step + max(1, int(min(speed * REFRESH / LOOKS, 2.0 * (step - seen))))
        self._last_look = (now, step)

    def _mark(self, now: float, step: int) -> None:
        self._marks.append((now, step))
        while len(self._marks) > 2 and self._marks[1][0] <= now - SPEED_WINDOW:
            self._marks.popleft()

    def _next_plain_line(self, step: int) -> int:
        """The first step after this one that completes a twentieth of the run."""
        start = self.begun[1]
        way = max(1, self.end - start)
        passed = (step - start) * PLAIN_LINES // way
        return start + -(-(passed + 1) * way // PLAIN_LINES)

    @property
    def speed(self) -> float:
        """Environment steps per second over the last few seconds."""
        (before, seen), (now, step) = self._marks[0], self._marks[-1]
        return (step - seen) / max(now - before, 1e-9)

    def _facts(self, trainer: Trainer) -> str:
        speed = self.speed
        left = (self.end - trainer.clock.step) / speed if speed > 0 else None
        return (
            f"{speed:,.0f} steps/s  return {return_label(trainer)}  "
            f"left {'-' if left is None else duration_label(left)}  {self._target(trainer)}"
        )

    def _target(self, trainer: Trainer) -> str:
        first, *others = trainer.report().targets
        if others:
            return f"targets {' and '.join(map(str, (first, *others)))}"
        return f"target {first}: {self._labels[first]}"

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
        bar_width = min(24, width - 90) if width >= 100 else 0
        facts = Text(self._facts(trainer))
        facts.truncate(width - len(done) - bar_width - 4, overflow="ellipsis")
        line = Table.grid(padding=(0, 1, 0, 0))
        line.add_row(done, ProgressBar(total=1.0, completed=share, width=bar_width), facts)
        return line


class DivergenceWarning(Observer):
    """Warns about a member that diverged where nothing else is shown of a run."""

    def __init__(self) -> None:
        self._members: tuple[Hyperparameters, ...] = ()  # until a generation is reported, those before it

    def on_start(self, trainer: Trainer) -> None:
        self._members = tuple(member.hyperparameters for member in trainer.report().members)

    def on_event(self, trainer: Trainer, event: Event) -> None:
        """Warn once about each."""
        if isinstance(event, Generation):
            self._members = tuple(member.hyperparameters for member in event.members)
        if isinstance(event, TargetUpdate):
            for member in event.newly_diverged:
                warnings.warn(
                    f"step {event.step}: member {member} diverged and no longer takes part: "
                    f"{self._members[member].to_dict()}",
                    RuntimeWarning,
                    stacklevel=2,
                )


class ConsoleReporter(Observer):
    """A header with the members, the progress line, evaluations, and in the end how the members did."""

    def __init__(
        self,
        *,
        algorithm: str,
        steps: int,
        gamma: float,
        memory: Memory,
        run_directory: Path | None = None,
        learning_starts: int = 0,
        best_model: Callable[[], BestModel | None] = lambda: None,
        notes: Sequence[str] = (),
        conclusion: Callable[[], Sequence[str]] = tuple,
        console: Console | None = None,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.console = console or standard_console()
        self.algorithm = algorithm
        self.steps = steps
        self.gamma = gamma
        self.memory = memory
        self.run_directory = run_directory
        self.best_model = best_model
        self.notes = notes  # of the agent, about what it is going to do
        self.conclusion = conclusion  # of the agent, about what it did
        self._history = HistoryRecorder(run_directory, learning_starts)
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
            "steps": f"{self.steps:,}" + (f", resumed at {trainer.clock.step:,}" if trainer.clock.step else ""),
            "memory": f"replay {bytes_label(self.memory.replay)}, parameters {bytes_label(self.memory.parameters)}",
        }
        self.console.print(facts_table(facts))
        for note in self.notes:
            self.console.print(note)
        members = [report.hyperparameters for report in trainer.report().members]
        self.console.print(members_table(members, self.gamma, self.console.width))
        self._history.on_start(trainer)
        self._progress.on_start(trainer)
        self._running = True
        # Bound here, so that a step costs one call and not two.
        self.on_step = self._progress.on_step

    def on_episode(self, trainer: Trainer, episode: Episode) -> None:
        self._history.on_episode(trainer, episode)

    def on_event(self, trainer: Trainer, event: Event) -> None:
        self._history.on_event(trainer, event)
        self._progress.on_event(trainer, event)
        if isinstance(event, PolicyEvaluation):
            self.console.print(
                f"step {event.step:,}: evaluation return {event.mean:,.1f} (standard deviation {event.std:,.1f}) "
                f"in {_episodes(len(event.returns))} of {event.mean_length:,.1f} steps",
                soft_wrap=True,
            )

    def on_finish(self, trainer: Trainer) -> None:
        self._running = False
        self._conclude(trainer)
        if self.run_directory is None:
            self.console.print("Nothing was saved; --run-dir DIR keeps the run and its models.")
            return
        where = shlex.quote(str(self.run_directory))
        commands = [
            f"adaqn evaluate {where} --episodes 20",
            f"adaqn evaluate {where} --episodes 20 --best",
            f"adaqn picture {where}",
        ]
        facts = {
            "last model": self._last_model(trainer),
            "best model": self._best_model(),
            "run directory": str(self.run_directory),
            "next": "\n".join(commands),
        }
        self.console.print(facts_table(facts))

    def _last_model(self, trainer: Trainer) -> str:
        evaluated = self._history.last_evaluation
        if evaluated is not None:
            when = "" if evaluated.step == trainer.clock.step else f" at step {evaluated.step:,}"
            how = f"evaluation return {evaluated.mean:,.1f}{when}"
        else:
            latest = [episode.total for episode in trainer.recent_episodes][-LATEST:]
            value = trainer.policy_return(latest)
            how = "no return known" if value is None else f"training return {value:,.1f}"
        return f"step {trainer.clock.step:,}, {how}"

    def _best_model(self) -> str:
        best = self.best_model()
        if best is None or math.isnan(best.total):
            return "the last model: there was no episode to judge another one by"
        what = "evaluation" if best.judged_by == EVALUATION else "training"
        return f"step {best.step:,}, {what} return {best.total:,.1f} (best_model.zip)"

    def on_close(self, trainer: Trainer) -> None:
        if self._running and trainer.interrupted:
            self._conclude(trainer)  # whoever caught the interruption says how to resume
        # After an error there is nothing to conclude, but the terminal must be restored.
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
            f"{step - first:,} steps in {duration_label(seconds)} ({speed:,.0f} steps/s), {_episodes(trainer.episodes)}"
        )
        if trainer.recent_episodes:
            known = len(trainer.recent_episodes)
            console.print(f"training return: {_mean(trainer, RECENT):,.1f} over the last {_episodes(known)}", end="")
            console.print(f", {_mean(trainer, LATEST):,.1f} over the last {LATEST}" if known > LATEST else "")
        report, traits = trainer.report(), trainer.traits
        pair, one_by_one = traits.sums_up_selections, "evaluations" in traits.tables
        acting = acting_returns(self._history.history(trainer))
        console.print(outcome_table(report.members, report.targets, acting, pair, console.width))
        for line in (*outcome_notes(len(report.members), pair, one_by_one), *self.conclusion()):
            console.print(line)


def return_label(trainer: Trainer) -> str:
    """The mean training return of the last 100 episodes and, where it differs, of the last 10."""
    if not trainer.recent_episodes:
        return "-"
    mean = f"{_mean(trainer, RECENT):,.1f}"
    if len(trainer.recent_episodes) <= LATEST:
        return mean
    return f"{mean} (last {LATEST}: {_mean(trainer, LATEST):,.1f})"


def _mean(trainer: Trainer, window: int) -> float:
    return float(np.mean([episode.total for episode in trainer.recent_episodes][-window:]))


def _episodes(count: int) -> str:
    return f"{count:,} episode{'' if count == 1 else 's'}"


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
