"""What a run prints: its header, tables of progress and members, and its end."""

from __future__ import annotations

import math
import shlex
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import gymnasium
from rich import box
from rich.console import Console
from rich.table import Table

from adaqn.agents.protocol import Event, Generation, MemberReport, PolicyEvaluation, TargetUpdate
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.networks.xla.threads import available_cores
from adaqn.runs.display.labels import (
    convolutions_label,
    layers_kind_label,
    layers_label,
    loss_label,
    loss_meaning,
    member_labels,
    number_label,
    options_label,
)
from adaqn.runs.display.progress import ProgressLine, duration_label, mean_return, standard_console
from adaqn.runs.display.standings import ActingReturn, HistoryRecorder, acting_returns
from adaqn.runs.reading import EVALUATION, BestModel
from adaqn.training.observers import LATEST, RECENT, Episode, Observer, RunView

MOST_ROWS = 20
# The columns of the table of members, with the minimum width of each.
_COLUMNS = {"hidden": 6, "activation": 10, "optimizer": 9, "learning rate": 8, "loss": 5, "discount": 8}


def facts_table(facts: Mapping[str, str]) -> Table:
    """A table with a row per name and value."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, value)
    return table


def members_table(members: Sequence[Hyperparameters], gamma: float, width: int) -> Table:
    """The hyperparameters of every member; for a large ensemble, the first ten and the last ten."""
    convolutional = any(member.convolutions for member in members)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("member", justify="right", no_wrap=True, min_width=6)
    columns = {"convo-\nlutions": 7, **_COLUMNS} if convolutional else _COLUMNS
    for name, least in columns.items():
        # Below 80 columns there is no room for whole words; a wrapped word is better than a lost column.
        table.add_column(name, overflow="fold", min_width=least if width >= 80 else None)
    for index, member in enumerate(members):
        if len(members) > MOST_ROWS and index == MOST_ROWS // 2:
            table.add_row(*["…"] * len(table.columns))
        if len(members) > MOST_ROWS and MOST_ROWS // 2 <= index < len(members) - MOST_ROWS // 2:
            continue
        kind = layers_kind_label(member)
        row = [
            layers_label(member.hidden) + ("" if kind == "plain" else f" {kind}"),
            member.activation,
            f"{member.optimizer} {options_label(member)}".strip(),
            number_label(member.learning_rate),
            loss_label(member),
            f"{gamma if member.discount is None else member.discount:.6g}",
        ]
        table.add_row(str(index), *([convolutions_label(member) or "none"] if convolutional else []), *row)
    return table


def outcome_table(
    reports: Sequence[MemberReport], targets: Collection[int], acting: Sequence[ActingReturn], pair: bool, width: int
) -> Table:
    """Share of selections, loss and return of each member; for a large ensemble, of the most often selected ones.

    Terminals with fewer than 80 columns do not show the loss and the number of episodes.
    """
    roomy = width >= 80
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("member", justify="right", no_wrap=True, min_width=6)
    table.add_column("hyperparameters", overflow="fold", min_width=15)
    table.add_column("in target\npair" if pair else "selected", justify="right", no_wrap=True)
    if roomy:
        table.add_column("cumulated\nloss", justify="right", no_wrap=True)
    table.add_column("return", justify="right", no_wrap=True)
    if roomy:
        table.add_column("episodes", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    labels = member_labels([report.hyperparameters for report in reports])
    shown = list(range(len(reports)))
    if len(reports) > MOST_ROWS:
        shown = sorted(shown, key=lambda index: -reports[index].selected)[:MOST_ROWS]
        table.caption = f"the {MOST_ROWS} most often selected of {len(reports)} members"
    for index in shown:
        report, own = reports[index], acting[index]
        mark = "diverged" if report.diverged else "target" if index in targets else ""
        loss = "-" if report.diverged else f"{report.cumulated_loss:.4g}"
        mean = "-" if own.mean is None else f"{own.mean:,.1f}"
        style = "yellow" if report.diverged else "bold" if index in targets else ""
        numbers = [f"{report.selected:.1%}", loss, mean, f"{own.episodes:,}"]
        table.add_row(str(index), labels[index], *(numbers if roomy else numbers[::2]), mark, style=style)
    return table


def outcome_notes(members: int, pair: bool, one_by_one: bool) -> list[str]:
    """Explanations of the columns of `outcome_table`."""
    if pair:
        return [
            "in target pair: share of the updates in which the critic was one of the two in the target; "
            "the shares add up to 200%",
            f"cumulated loss: {loss_meaning(pair)}",
            "return: mean over the episodes in which the critic trained the actor most",
        ]
    chosen = "generations in which the member was the best" if one_by_one else "target updates that chose the member"
    acted = (
        "return: mean over the episodes that the member played"
        if one_by_one
        else "return: mean over the episodes in which the member acted most (known per target update)"
    )
    notes = [f"selected: share of the {chosen}", f"cumulated loss: {loss_meaning(pair)}", acted]
    return notes if members > 1 else notes[1:2]


def space_label(space: gymnasium.Space) -> str:
    """A short description of a space; Gymnasium's own prints every bound."""
    if isinstance(space, gymnasium.spaces.Box):
        return f"Box {space.shape} {space.dtype}"
    if isinstance(space, gymnasium.spaces.Discrete):
        return f"Discrete {int(space.n)}"
    return str(space)


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
