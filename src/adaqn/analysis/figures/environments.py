"""A panel for each environment: the curves of all arms, and below them which member was the main arm's target."""

from __future__ import annotations

from matplotlib.figure import Figure

from adaqn.analysis.bars import NAMED_SETS, bins_for, colours_of, member_legend, stacked_bars
from adaqn.analysis.figures.curves import curve_legend
from adaqn.analysis.page import INTERVAL, NotDrawn, Page, draw_curve
from adaqn.analysis.selections import distribution, has_selections
from adaqn.analysis.style import legend_below, new_figure, short_step_axis

MOST_COLUMNS = 3


def draw(page: Page) -> Figure:
    """Draw the plain returns in every environment."""
    study, main = page.scores.study, page.scores.study.main
    if len(study.environments) < 2:
        raise NotDrawn("the study has one environment only, which the curves show")
    bars = main is not None and has_selections(main)
    columns = min(MOST_COLUMNS, len(study.environments))
    rows = -(-len(study.environments) // columns)
    figure = new_figure(rows * (2.1 if bars else 1.6) + 0.1)
    ratios = [3.0, 1.0] * rows if bars else [1.0] * rows
    grid = figure.add_gridspec(len(ratios), columns, height_ratios=ratios)
    handles, labels = [], []
    for index, panel in enumerate(page.scores.panels):
        row, column = divmod(index, columns)
        axes = figure.add_subplot(grid[row * (2 if bars else 1), column])
        series = panel.series
        single = [one for one in series if one.arm is not None and one.arm.kind == "single"]
        for one in [*single, *(one for one in series if one not in single)]:
            draw_curve(axes, page, one, shaded=one not in single or len(single) <= NAMED_SETS)
        last = max(one.steps[-1] for one in series)
        axes.set_title(study.environments[index])
        axes.grid()
        if column == 0:
            axes.set_ylabel("return")
        if index == 0:
            handles, labels = curve_legend(page, [*(one for one in series if one not in single), *reversed(single)])
        short_step_axis(axes, last, "" if bars else "env. steps", ticks=3)
        if bars and main is not None:
            axes.tick_params(axis="x", labelbottom=False)
            below = figure.add_subplot(grid[2 * row + 1, column], sharex=axes)
            found = distribution(main.on(study.environments[index]), bins_for(study.epochs(main)))
            stacked_bars(below, found.edges, found.target, colours_of(page, main))
            short_step_axis(below, last, "env. steps", ticks=3)
            if column == 0:
                below.set_ylabel("target")
    note = f"{INTERVAL}; {page.seeds}."
    if bars and main is not None:
        note += f" Bars: share of the target updates of {main.label} that chose each member"
        if {*colours_of(page, main)} <= {page.looks[arm.name].colour for arm in study.grid}:
            note += ", in the colour of the set when it is trained alone."
        else:
            patches, names = member_legend(page, main)
            handles, labels = [*handles, *patches], [*labels, *(f"bars: {name}" for name in names)]
            note += "."
    legend_below(figure, handles, labels, note)
    return figure
