"""Returns against training time: the same curves over hours of wall-clock, those of all runs of a search counted."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from matplotlib.figure import Figure

from adaqn.analysis.figures.curves import curve_legend
from adaqn.analysis.metrics import Floats
from adaqn.analysis.page import INTERVAL, NotDrawn, Page
from adaqn.analysis.scores import Series
from adaqn.analysis.study import Arm
from adaqn.analysis.style import legend_below, new_figure


def draw(page: Page) -> Figure:
    """Draw every arm that is not a single set, grid search and random search."""
    study, searches = page.scores.study, page.scores.searches
    shown: list[tuple[Series, Floats]] = []
    for series in page.scores.series:
        if series.arm is not None and (series.arm.kind != "single" or searches is None):
            hours = training_hours(series.arm, study.epoch, series.epochs)
            if hours is not None:
                shown.append((series, hours))
    if searches is not None:
        singles = [
            training_hours(arm, study.epoch, searches.grid.epochs) for arm in study.grid if arm in study.complete
        ]
        known = [hours for hours in singles if hours is not None]
        if len(known) == len(singles):
            each = np.mean(known, axis=0)
            shown.append((searches.grid, np.sum(known, axis=0)))
            trials = searches.random.epochs // len(each)
            shown.append((searches.random, np.concatenate([trial * each[-1] + each for trial in range(trials)])))
    if not shown:
        raise NotDrawn("no run says how long it took: there is no progress.csv, and no time in summary.json")
    longest = max(hours[-1] for _, hours in shown)
    unit, name = (1.0, "hours") if longest >= 2 else (60.0, "minutes") if longest >= 2 / 60 else (3600.0, "seconds")
    figure = new_figure(2.4, 4.6)
    axes = figure.subplots()
    for series, hours in shown:
        look, curve = page.look(series), series.curve
        axes.plot(unit * hours, curve.value, color=look.colour, linestyle=look.dashes)
        axes.fill_between(unit * hours, curve.low, curve.high, color=look.colour, alpha=0.18, linewidth=0)
    axes.set_xlim(0.0, unit * longest)
    axes.set_xlabel(f"training time in {name}, that of all runs counted")
    axes.set_ylabel(page.scores.scale.axis_label)
    axes.grid()
    handles, labels = curve_legend(page, [series for series, _ in shown])
    even = any(not (run.path / "progress.csv").is_file() for arm in study.arms for run in arm.runs)
    timing = " Without progress.csv, a run's time is taken to pass evenly." if even else ""
    legend_below(figure, handles, labels, f"{INTERVAL}; {page.seeds}; median time of the runs.{timing}")
    return figure


def training_hours(arm: Arm, epoch: int, epochs: int) -> Floats | None:
    """Hours that had passed at the end of each epoch; None if a run does not say. [epochs]

    That is the median over the seeds, since a machine that sleeps or is busy makes single runs long, and of several
    environments the mean.
    """
    ends = epoch * np.arange(1.0, epochs + 1)
    hours: dict[str, list[Floats]] = defaultdict(list)
    for run in arm.runs:
        if run.clock is None:
            return None
        hours[run.environment].append(np.interp(ends, *run.clock) / 3600.0)
    return np.mean([np.median(seeds, axis=0) for seeds in hours.values()], axis=0)
