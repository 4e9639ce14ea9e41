"""The return that counts as optimal in an environment, for the optimality gap of plain returns."""

from __future__ import annotations

from functools import partial
from typing import Any

from matplotlib.figure import Figure

from adaqn.analysis.metrics import iqm, mean, median, optimality_gap
from adaqn.analysis.page import Page
from adaqn.analysis.resampling import interval
from adaqn.analysis.study import StudyResults
from adaqn.analysis.style import NOTE, new_figure, wrapped


def optimal_return(study: StudyResults) -> float | None:
    """1 for normalized scores; in one environment, the reward threshold that Gymnasium has for it, if any."""
    if len(study.environments) > 1:
        return 1.0
    import gymnasium  # here, because it is slow to import

    identifier = study.arms[0].config.get("env")
    specification = gymnasium.registry.get(identifier) if isinstance(identifier, str) else None
    threshold = None if specification is None else specification.reward_threshold
    return None if threshold is None else float(threshold)


def draw(page: Page) -> Figure:
    """Draw a panel for each statistic and a bar for each arm."""
    steps = page.scores.common_steps
    series = [one.until(steps) for one in page.scores.series]
    threshold = optimal_return(page.scores.study)
    statistics: dict[str, Any] = {"Median": median, "IQM": iqm, "Mean": mean}
    if threshold is not None:
        statistics["Optimality gap"] = partial(optimality_gap, threshold=threshold)
    figure = new_figure(0.2 * len(series) + 1.15)
    panels = figure.subplots(1, len(statistics), sharey=True)
    for axes, (name, statistic) in zip(panels, statistics.items(), strict=True):
        for row, one in enumerate(reversed(series)):
            found, colour = interval(one.final, statistic), page.look(one).colour
            axes.barh(row, found.high - found.low, 0.6, left=found.low, color=colour, alpha=0.55)
            axes.vlines(found.value, row - 0.3, row + 0.3, color="black", linewidth=1.2)
        axes.set_title(name)
        axes.grid(axis="x")
        axes.use_sticky_edges = False  # bars would begin on the axis
        axes.margins(x=0.08)
        axes.locator_params(axis="x", nbins=3)
    panels[0].set_yticks(range(len(series)), labels=[page.label(one) for one in reversed(series)])
    what = page.scores.scale.label
    gap = (
        "; optimality gap: mean shortfall to a score of 1, lower is better"
        if threshold == 1.0
        else f"; optimality gap: mean shortfall to a return of {threshold:g}, lower is better"
        if threshold is not None
        else "; no optimality gap, as the environment has no reward threshold"
    )
    note = (
        f"{what.capitalize()} in the epoch of {page.scores.study.epoch:,} steps that ends at {steps:,} steps; "
        f"bars: 95% intervals; {page.seeds}{gap}."
    )
    figure.supxlabel(wrapped(figure, note), **NOTE)
    return figure
