"""The table of a study: final IQM, AUC, worst seed, intervals, steps and time of each arm, for people and programs."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.table import Table

from adaqn.analysis.metrics import Floats, auc
from adaqn.analysis.resampling import CONFIDENCE, RESAMPLES, Interval, difference, improvement
from adaqn.analysis.scores import Series, StudyScores
from adaqn.analysis.study import read_results
from adaqn.base.files import make_parent, replacing

FORMAT = 1


class Estimate(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, found: Interval) -> Estimate:
        """The plain numbers of an interval."""
        return cls(float(found.value), float(found.low), float(found.high))

    def __str__(self) -> str:
        return f"{rounded(self.value)} [{rounded(self.low)}, {rounded(self.high)}]"


def rounded(value: float) -> str:
    """A number with as many digits as a reader compares: 1,234, 56.8, 0.123."""
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2 if abs(value) >= 0.9995 else 3
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


@dataclass(frozen=True)
class Row:
    """One arm, or grid or random search, over the steps that all arms have."""

    series: str
    label: str
    kind: str  # ensemble, single, search, population; protocol for grid and random search
    runs: int
    final: Estimate  # IQM in the last epoch
    auc: Estimate  # area under the curve of the IQM, divided by the steps
    worst_final: float  # of the seed with the lowest area
    worst_auc: float
    steps_per_run: int  # that one run took, or that one search took with all its runs
    seconds_per_run: float | None  # median over the runs
    trials_per_run: float | None  # of random search and DEHB in a space
    auc_behind_main: Estimate | None  # AUC of the main arm minus this one's
    main_improves: Estimate | None  # probability that a run of the main arm has the higher AUC


@dataclass(frozen=True)
class StudySummary:
    """The table, and what its numbers are."""

    study: str
    environments: tuple[str, ...]
    score: str  # return, or how it was normalized
    epoch: int
    steps: int  # environment steps over which all are compared
    main: str | None
    chosen_on_reported_seeds: bool | None  # of grid and random search; None if there are none
    left_out: tuple[str, ...]
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"adaqn": "study summary", "format": FORMAT, "confidence": CONFIDENCE, "resamples": RESAMPLES} | (
            dataclasses.asdict(self) | {"rows": [_plain(row) for row in self.rows]}
        )


def summarize(study: str | os.PathLike[str], epoch: int | None = None) -> StudySummary:
    """Summarize the results in the directory of a study: one row for each arm, and for grid and random search."""
    return summary_of(StudyScores(read_results(study, epoch)))


def summary_of(scores: StudyScores) -> StudySummary:
    """The summary of scores that were read already."""
    study, searches, steps = scores.study, scores.searches, scores.common_steps
    every = [*scores.series, *([] if searches is None else [searches.grid, searches.random])]
    return StudySummary(
        study=study.name,
        environments=study.environments,
        score=scores.scale.label,
        epoch=study.epoch,
        steps=steps,
        main=None if scores.main is None else scores.main.name,
        chosen_on_reported_seeds=None if searches is None else searches.same_seeds,
        left_out=study.left_out,
        rows=tuple(_row(series, scores, steps) for series in every),
    )


def _row(series: Series, scores: StudyScores, steps: int) -> Row:
    part, main = series.until(steps), scores.main
    # Grid search after so many steps is in the middle of an epoch of its runs; its area counts that part.
    epochs = min(float(series.epochs), steps / series.epoch)
    area, worst = series.area(steps), series.worst_until(steps)
    behind = improves = None
    if main is not None and series is not main:
        behind = Estimate.of(difference(main.until(steps).scores, series.at_epochs(main.epoch, steps), then=auc))
        improves = Estimate.of(improvement(_areas(main, steps / main.epoch), _areas(series, epochs)))
    seconds = None if series.arm is None else [run.seconds for run in series.arm.runs]
    trials = [] if series.arm is None else [run.trials for run in series.arm.runs if run.trials is not None]
    known = seconds is not None and all(value is not None for value in seconds)
    return Row(
        series=series.name,
        label=series.label,
        kind="protocol" if series.arm is None else series.arm.kind,
        runs=series.runs,
        final=Estimate.of(part.final_score),
        auc=Estimate.of(area),
        worst_final=float(worst[part.epochs - 1]),
        worst_auc=float(auc(worst, epochs)),
        steps_per_run=int(series.steps[-1]) if series.arm is None else max(run.steps for run in series.arm.runs),
        seconds_per_run=float(np.median([value for value in seconds if value is not None]))
        if known and seconds
        else None,
        trials_per_run=float(np.mean(trials)) if trials else None,
        auc_behind_main=behind,
        main_improves=improves,
    )


def _areas(series: Series, epochs: float) -> list[Floats]:
    """The area under the curve of each run, by environment."""
    return [auc(task, epochs) for task in series.scores]


def write_summary(summary: StudySummary, as_json: Path, as_csv: Path) -> None:
    """Write the table for programs, twice."""
    make_parent(as_json)
    with replacing(as_json) as file:
        file.write((json.dumps(summary.to_dict(), indent=2, ensure_ascii=False) + "\n").encode())
    text = io.StringIO()
    rows = [_flat(row) for row in summary.rows]
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with replacing(as_csv) as file:
        file.write(text.getvalue().encode())


def summary_table(summary: StudySummary, width: int = 120) -> Table:
    """The table for a terminal; in a narrow one, intervals are in a line of their own and times are left out."""
    narrow = width < 110
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    words = [len(word) for row in summary.rows for word in row.label.split()]
    table.add_column("", overflow="fold", min_width=min(max(words, default=1), width // 4))
    columns = ["runs", "final\nIQM", "AUC of\nthe IQM", "worst\nAUC", "main's AUC\n- this", "min.\n/run"]
    if width < 90:
        columns.pop()
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in summary.rows:
        minutes = "-" if row.seconds_per_run is None else rounded(row.seconds_per_run / 60)
        cells = ["-" if one is None else str(one) for one in (row.final, row.auc, row.auc_behind_main)]
        final, area, behind = (cell.replace(" [", "\n[") if narrow else cell for cell in cells)
        style = "bold" if row.series == summary.main else ""
        values = [str(row.runs), final, area, rounded(row.worst_auc), behind, minutes]
        table.add_row(row.label, *values[: len(columns)], style=style)
    what = f"{summary.score}, epochs of {summary.epoch:,} steps, over {summary.steps:,} steps"
    table.caption = f"{what}; in brackets: 95% bootstrap intervals"
    return table


def _plain(row: Row) -> dict[str, Any]:
    values = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    return {name: value._asdict() if isinstance(value, Estimate) else value for name, value in values.items()}


def _flat(row: Row) -> dict[str, Any]:
    """A row of the CSV table: an estimate has three columns."""
    flat: dict[str, Any] = {}
    for field in dataclasses.fields(row):
        value = getattr(row, field.name)
        if "Estimate" in str(field.type):
            for part in Estimate._fields:
                flat[field.name if part == "value" else f"{field.name}_{part}"] = (
                    None if value is None else getattr(value, part)
                )
        else:
            flat[field.name] = value
    return flat
