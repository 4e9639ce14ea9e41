"""How far a study is: a live table on a terminal, a line for each finished or failed run elsewhere."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from adaqn.runs.display.progress import standard_console
from adaqn.studies.directory import RunState
from adaqn.studies.execution import Progress
from adaqn.studies.study import RunKey, Study

_FRAME = 10  # lines of the live table besides those of arms: title, header, rules, all, caption, and one to spare
_OPEN = ("running", "interrupted", "missing", "failed")


class StudyDisplay:
    """Shows the progress of a study. `pace` has seconds per environment step of arms, where they are known before."""

    def __init__(
        self, study: Study, keys: Sequence[RunKey], pace: Mapping[str, float], console: Console | None = None
    ) -> None:
        self._study = study
        self._steps = {key: int(study.arms[key.arm]["steps"]) for key in keys}
        self._pace = dict(pace)
        self._console = console or standard_console()
        self._live: Live | None = None
        self._last: Progress | None = None
        self._told: dict[RunKey, str] | None = None  # the status that was printed last, where there is no live table
        self._earlier: frozenset[RunKey] | None = None  # runs that were finished before this execution of the study

    def __enter__(self) -> StudyDisplay:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            if self._last is not None:  # the table stays on the screen, where nothing can be stopped any more
                self._live.update(self.table(self._last, self.time_left(self._last), over=True), refresh=True)
            self._live.stop()
            self._live = None

    def show(self, progress: Progress) -> None:
        """Draw the table anew, or print what has changed."""
        if self._earlier is None:
            self._earlier = frozenset(key for key, state in progress.states.items() if state.status == "finished")
        left = self.time_left(progress)
        self._last = progress
        if self._live is not None:
            self._live.update(self.table(progress, left), refresh=True)
            return
        self._print_changes(progress, left)

    def time_left(self, progress: Progress) -> float | None:
        """Seconds until all is done, at the pace so far; None if nothing is known about that."""
        given_up = {failure.key for failure in progress.failures}
        open_runs = {
            key: state for key, state in progress.states.items() if state.status in _OPEN and key not in given_up
        }
        if not open_runs:
            return 0.0
        pace = self._paces(progress.states)
        if not pace:
            return None
        usual = sum(pace.values()) / len(pace)
        each = [(self._steps[key] - state.step) * pace.get(key.arm, usual) for key, state in open_runs.items()]
        running = sum(state.status == "running" for state in open_runs.values())
        return max(sum(each) / max(1, running), *each)

    def _paces(self, states: Mapping[RunKey, RunState]) -> dict[str, float]:
        """Seconds per step by arm: of runs that were open under this execution, or as calibrated, or of earlier runs.

        Earlier runs may have been made on another machine, or beside other work.
        """
        earlier = self._earlier or frozenset()
        by_origin: tuple[dict[str, list[float]], ...] = ({}, {})
        for key, state in states.items():
            if state.step and state.elapsed:
                by_origin[key in earlier].setdefault(key.arm, []).append(state.elapsed / state.step)
        now, before = ({arm: statistics.median(found) for arm, found in of.items()} for of in by_origin)
        return before | self._pace | now

    def table(self, progress: Progress, left: float | None, over: bool = False) -> RenderableType:
        """A row for each arm that there is room for, and one for all; `over` when nothing is executed any more."""
        table = Table(title=f"study {self._study.name}", title_justify="left", caption_justify="left")
        for name in ("arm", "progress", "runs", "running", "failed"):
            table.add_column(name, justify="left" if name in ("arm", "progress") else "right", overflow="fold")
        arms: dict[str, list[RunKey]] = {}
        for key in progress.states:
            arms.setdefault(key.arm, []).append(key)
        shown = list(arms) if over else self._fitting(progress, arms)
        for arm in shown:
            table.add_row(arm, *self._cells(progress, arms[arm]))
        if rest := [key for arm, keys in arms.items() if arm not in shown for key in keys]:
            table.add_row(f"{len(arms) - len(shown)} other arms", *self._cells(progress, rest), style="dim")
        if len(arms) > 1:
            table.add_section()
            table.add_row("all", *self._cells(progress, list(progress.states)))
        waits = f", {len(progress.waiting)} waiting for a place" if progress.waiting else ""
        hint = "" if over else "\nCtrl-C stops, and the same command goes on"
        table.caption = f"{duration(left)} left{waits}{hint}" if left != 0.0 else None
        return table

    def _fitting(self, progress: Progress, arms: Mapping[str, Sequence[RunKey]]) -> list[str]:
        """The arms that fit on the screen, in their order; those with running or failed runs come before others."""
        room = self._console.height - _FRAME
        if len(arms) <= room:
            return list(arms)

        def is_quiet(arm: str) -> bool:
            return not any(progress.states[key].status in ("running", "failed") for key in arms[arm])

        chosen = sorted(arms, key=is_quiet)[: max(1, room - 1)]  # one row tells of the others
        return [arm for arm in arms if arm in chosen]

    def _cells(self, progress: Progress, keys: Sequence[RunKey]) -> list[RenderableType]:
        states = [progress.states[key] for key in keys]
        done = sum(state.step for state in states)
        total = sum(self._steps[key] for key in keys)
        bar = Table.grid(padding=(0, 1))
        bar.add_row(ProgressBar(total=total, completed=min(done, total), width=20), f"{100 * done // total} %")
        counts = [sum(state.status == status for state in states) for status in ("finished", "running", "failed")]
        return [bar, f"{counts[0]}/{len(keys)}", str(counts[1] or ""), f"[red]{counts[2]}[/]" if counts[2] else ""]

    def _print_changes(self, progress: Progress, left: float | None) -> None:
        finished = sum(state.status == "finished" for state in progress.states.values())
        statuses: dict[RunKey, str] = {key: state.status for key, state in progress.states.items()}
        if self._told is None:
            self._console.print(f"{finished} of {len(statuses)} runs are finished", soft_wrap=True)
            self._told = statuses
        for key, status in statuses.items():
            if status == self._told[key] or status not in ("finished", "failed"):
                continue
            reason = f" ({progress.states[key].reason})" if status == "failed" else ""
            self._console.print(
                f"{status} {key}{reason}: {finished} of {len(statuses)} runs, {duration(left)} left",
                soft_wrap=True,
                markup=False,
            )
        self._told = statuses


def duration(seconds: float | None) -> str:
    """A time for people: 3 h 20 min."""
    if seconds is None:
        return "an unknown time"
    if round(seconds) < 60:
        return f"{round(seconds)} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours >= 48:
        return f"{hours:,} h"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"
