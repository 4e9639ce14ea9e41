"""Ranking of the sets of hyperparameters by AUC, over all environments and in each of them."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adaqn.analysis.metrics import auc, iqm
from adaqn.analysis.page import NotDrawn, Page
from adaqn.analysis.scores import Series
from adaqn.analysis.style import legend_below, line, new_figure


def draw(page: Page) -> Figure:
    """Draw the AUC of each single set, and of the main arm beside them, with their ranks in each environment."""
    main, study = page.scores.main, page.scores.study
    single = [one for one in page.scores.series if one.arm is not None and one.arm.kind == "single"]
    if len(single) < 2:
        raise NotDrawn("a ranking needs two or more arms with one set of hyperparameters")
    steps = page.scores.common_steps
    compared: list[Series] = [*single, *([] if main is None else [main])]
    series = sorted(compared, key=lambda one: float(one.area(steps).value))
    several = len(study.environments) > 1
    figure = new_figure(0.2 * len(series) + 0.9, 5.5 if several else 4.6)
    panels = figure.subplots(
        1, 2 if several else 1, width_ratios=[1.6, 0.5 * len(study.environments)] if several else [1], squeeze=False
    )[0]
    axes = panels[0]
    for row, one in enumerate(series):
        area, look = one.area(steps), page.look(one)
        axes.plot(
            [area.low, area.high], [row, row], color=look.colour, linewidth=3.0, alpha=0.55, solid_capstyle="butt"
        )
        axes.plot(area.value, row, "o" if one is not main else "D", color=look.colour, markersize=4.5)
    axes.set_yticks(range(len(series)), labels=[one.label for one in series])
    axes.set_ylim(-0.6, len(series) - 0.4)
    axes.set_xlabel(f"AUC of the IQM over\n{steps:,} steps: {page.scores.scale.axis_label}")
    axes.grid(axis="x")
    if several:
        _draw_ranks(panels[1], page, series)
    look = page.looks[series[-1].name]
    legend_below(figure, [line(look, marker="o", linewidth=3)], [f"AUC with its 95% interval; {page.seeds}"])
    return figure


def _draw_ranks(axes: Axes, page: Page, series: list[Series]) -> None:
    """A table of ranks, dark where the rank is high."""
    environments = page.scores.study.environments
    epochs = page.scores.study.common_epochs
    areas = np.array([[float(auc(iqm(task, axis=0)[:epochs])) for task in one.scores] for one in series])
    ranks = (-areas).argsort(axis=0).argsort(axis=0) + 1  # [series, environments]
    shades = {"cmap": "Greys_r", "vmin": -1.5 * len(series), "vmax": 1.05 * len(series)}
    axes.imshow(ranks, **shades, aspect="auto", origin="lower")
    for (row, column), rank in np.ndenumerate(ranks):
        axes.text(column, row, str(rank), ha="center", va="center", fontsize=7)
    axes.set_xticks(range(len(environments)), labels=environments, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks([])
    axes.set_ylim(-0.6, len(series) - 0.4)
    axes.set_title("rank")
