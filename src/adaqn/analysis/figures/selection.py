"""Distribution of the selected members over time: for the target (top) and for the behaviour (bottom)."""

from __future__ import annotations

from matplotlib.figure import Figure

from adaqn.analysis.bars import bins_for, colours_of, member_legend, stacked_bars
from adaqn.analysis.page import NotDrawn, Page
from adaqn.analysis.selections import distribution, has_selections
from adaqn.analysis.study import Arm
from adaqn.analysis.style import legend_below, new_figure, short_step_axis

MOST_COLUMNS = 4


def draw(page: Page) -> Figure:
    """Draw a column for each arm with several members, which are those of the first of them."""
    arms = [arm for arm in page.scores.study.arms if has_selections(arm)]
    if not arms:
        raise NotDrawn("no arm has several members that stay the same from start to end")
    shown = [arm for arm in arms if arm.members == arms[0].members][:MOST_COLUMNS]
    figure = new_figure(2.3, max(2.6, min(5.5, 1.5 * len(shown) + 0.6)))
    panels = figure.subplots(2, len(shown), sharex=True, sharey=True, squeeze=False)
    for column, arm in zip(panels.T, shown, strict=True):
        _draw_column(page, arm, list(column))
    panels[0][0].set_ylabel("target")
    panels[1][0].set_ylabel("behaviour")
    handles, labels = member_legend(page, shown[0])
    pair = shown[0].runs[0].data.sums_up_selections
    meaning = (
        "Shares of the members in the target pair (top) and in the pair that trains the actor (bottom)"
        if pair
        else "Share of target updates that chose each member (top) and of actions that it took (bottom)"
    )
    others = len(arms) - len(shown)
    rest = f" {others} more {'arm is' if others == 1 else 'arms are'} not shown." if others else ""
    legend_below(figure, handles, labels, f"{meaning}, over all runs; {page.seeds}.{rest}")
    return figure


def _draw_column(page: Page, arm: Arm, axes: list) -> None:  # type: ignore[type-arg]
    study = page.scores.study
    found = distribution(arm.runs, bins_for(study.epochs(arm)))
    colours = colours_of(page, arm)
    stacked_bars(axes[0], found.edges, found.target, colours)
    stacked_bars(axes[1], found.edges, found.behaviour, colours)
    axes[0].set_title(arm.label)
    short_step_axis(axes[1], found.edges[-1], "env. steps", ticks=3)
