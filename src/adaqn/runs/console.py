"""Console output of a run: a header, a live line while it runs, and a summary at the end."""

from __future__ import annotations

import math
import shlex
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from adaqn.agents.events import Event, Generation, PolicyEvaluation, TargetUpdate
from adaqn.hyperparameters import Hyperparameters
from adaqn.runs.progress_line import ProgressLine, duration_label, mean_return, standard_console
from adaqn.runs.reading import EVALUATION, BestModel
from adaqn.runs.standings import HistoryRecorder, acting_returns
from adaqn.runs.tables import facts_table, members_table, outcome_notes, outcome_table, space_label
from adaqn.threads import available_cores
from adaqn.training.observers import LATEST, RECENT, Episode, Observer, RunView


class Memory(NamedTuple):
    """Memory that a run needs, in bytes."""

    replay: int
    parameters: int  # including optimizer states and target


class DivergenceWarning(Observer[RunView]):
    """Warns about diverged members of a run that has no other console output."""

    def __init__(self) -> None:
        self._members: tuple[Hyperparameters, ...] = ()  # of the last reported generation

    def on_start(self, trainer: RunView) -> None:
        """Store the hyperparameters of the members, for the warnings."""
        self._members = tuple(member.hyperparameters for member in trainer.report().members)

    def on_event(self, trainer: RunView, event: Event) -> None:
        """Warn once about each diverged member."""
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


class ConsoleReporter(Observer[RunView]):
    """Prints a header with the members, the progress line, evaluations, and finally the results of the members."""

    def __init__(
        self,
        *,
        algorithm: str,
        steps: int,
        gamma: float,
        memory: Memory,
        run_directory: Path | None = None,
        learning_starts: int = 0,
        imports_modules: bool = False,
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
        self.imports_modules = imports_modules  # making the environment needs --trust-env
        self.best_model = best_model
        self.notes = notes  # lines for the header, from the agent
        self.conclusion = conclusion  # closing lines, from the agent
        self._history = HistoryRecorder(run_directory, learning_starts)
        self._timer = timer
        self._progress = ProgressLine(steps, self.console, timer)
        self._running = False

    def on_start(self, trainer: RunView) -> None:
        environments = trainer.environments
        parallel = f" ({environments.count} in parallel)" if environments.count > 1 else ""
        facts = {
            "algorithm": self.algorithm,
            "environment": environments.name + parallel,
            "observations": space_label(environments.observation_space),
            "actions": space_label(environments.action_space),
            "seed": str(trainer.seed),
            "steps": f"{self.steps:,}" + (f", resumed at {trainer.clock.step:,}" if trainer.clock.step else ""),
            "threads": f"{trainer.threads.number} on {_cores(available_cores())}",
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
        # Bound directly, so that a step costs one call instead of two.
        self.on_step, self.next_step = self._progress.on_step, self._progress.next_step

    def on_episode(self, trainer: RunView, episode: Episode) -> None:
        self._history.on_episode(trainer, episode)

    def on_event(self, trainer: RunView, event: Event) -> None:
        self._history.on_event(trainer, event)
        self._progress.on_event(trainer, event)
        if isinstance(event, PolicyEvaluation):
            self.console.print(
                f"step {event.step:,}: evaluation return {event.mean:,.1f} (standard deviation {event.std:,.1f}) "
                f"in {_episodes(len(event.returns))} of {event.mean_length:,.1f} steps",
                soft_wrap=True,
            )

    def on_finish(self, trainer: RunView) -> None:
        self._running = False
        self._conclude(trainer)
        if self.run_directory is None:
            self.console.print("Nothing was saved; --run-dir DIR keeps the run and its models.")
            return
        where = shlex.quote(str(self.run_directory))
        trust = " --trust-env" if self.imports_modules else ""
        commands = [
            f"adaqn evaluate {where} --episodes 20{trust}",
            f"adaqn evaluate {where} --episodes 20{trust} --best",
            f"adaqn picture {where}",
        ]
        facts = {
            "last model": self._last_model(trainer),
            "best model": self._best_model(),
            "run directory": str(self.run_directory),
            "next": "\n".join(commands),
        }
        self.console.print(facts_table(facts))

    def _last_model(self, trainer: RunView) -> str:
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
            return "the last model: no episode ended, so models could not be compared"
        what = "evaluation" if best.judged_by == EVALUATION else "training"
        return f"step {best.step:,}, {what} return {best.total:,.1f} (best_model.zip)"

    def on_close(self, trainer: RunView) -> None:
        if self._running and trainer.interrupted:
            self._conclude(trainer)  # the handler of the interruption prints how to resume
        # After an error no summary is printed, but the terminal must be restored.
        self._progress.on_close(trainer)
        self._running = False

    def _conclude(self, trainer: RunView) -> None:
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
            console.print(
                f"training return: {mean_return(trainer, RECENT):,.1f} over the last {_episodes(known)}", end=""
            )
            console.print(f", {mean_return(trainer, LATEST):,.1f} over the last {LATEST}" if known > LATEST else "")
        report, traits = trainer.report(), trainer.traits
        pair, one_by_one = traits.sums_up_selections, "evaluations" in traits.tables
        acting = acting_returns(self._history.history(trainer))
        console.print(outcome_table(report.members, report.targets, acting, pair, console.width))
        for line in (*outcome_notes(len(report.members), pair, one_by_one), *self.conclusion()):
            console.print(line)


def _cores(count: int) -> str:
    return f"{count} core{'' if count == 1 else 's'}"


def _episodes(count: int) -> str:
    return f"{count:,} episode{'' if count == 1 else 's'}"


def bytes_label(size: int) -> str:
    """A number of bytes as a short number with its unit."""
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3g} GB" if value < 1000 else f"{value:,.0f} GB"
