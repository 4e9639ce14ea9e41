"""How far a study is: a live table on a terminal, a line for each finished or failed run elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from adaqn.runs.progress_line import standard_console
from adaqn.studies.directory import RunState
from adaqn.studies.execution import Progress
from adaqn.studies.study import RunKey, Study

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
        self._told: dict[RunKey, str] | None = None  # the status that was printed last, where there is no live table

    def __enter__(self) -> StudyDisplay:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def show(self, progress: Progress) -> None:
        """Draw the table anew, or print what has changed."""
        left = self.time_left(progress)
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
        """Seconds per step by arm: as measured in this study, or else as calibrated."""
        totals: dict[str, tuple[float, int]] = {}
        for key, state in states.items():
            if state.step and state.elapsed:
                seconds, steps = totals.get(key.arm, (0.0, 0))
                totals[key.arm] = (seconds + state.elapsed, steps + state.step)
        return self._pace | {arm: seconds / steps for arm, (seconds, steps) in totals.items()}

    def table(self, progress: Progress, left: float | None) -> RenderableType:
        """A row for each arm, and one for all."""
        table = Table(title=f"study {self._study.name}", title_justify="left")
        for name in ("arm", "progress", "runs", "running", "failed"):
            table.add_column(name, justify="left" if name in ("arm", "progress") else "right", overflow="fold")
        arms = list(dict.fromkeys(key.arm for key in progress.states))
        for arm in arms:
            table.add_row(arm, *self._cells(progress, [key for key in progress.states if key.arm == arm]))
        if len(arms) > 1:
            table.add_section()
            table.add_row("all", *self._cells(progress, list(progress.states)))
        waits = f", {len(progress.waiting)} waiting for a place" if progress.waiting else ""
        table.caption = f"{duration(left)} left{waits}; Ctrl-C stops, and the same command goes on"
        return table

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
