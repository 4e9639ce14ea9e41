"""Performance profiles: the share of runs whose score in the last common epoch is above each threshold."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from adaqn.analysis.figures.curves import curve_legend
from adaqn.analysis.page import Page
from adaqn.analysis.resampling import profile
from adaqn.analysis.style import legend_below, new_figure

POINTS = 201


def draw(page: Page) -> Figure:
    """Draw the profile of every arm."""
    series = [one.until(page.scores.common_steps) for one in page.scores.series]
    everything = np.concatenate([task for one in series for task in one.final])
    margin = 0.03 * max(float(np.ptp(everything)), 1e-9)
    thresholds = np.linspace(everything.min() - margin, everything.max() + margin, POINTS)
    figure = new_figure(2.4, 4.6)
    axes = figure.subplots()
    for one in series:
        look = page.look(one)
        found = profile(one.final, thresholds)
        axes.plot(thresholds, found.value, color=look.colour, linestyle=look.dashes)
        axes.fill_between(thresholds, found.low, found.high, color=look.colour, alpha=0.12, linewidth=0)
    axes.set_xlim(thresholds[0], thresholds[-1])
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(f"{page.scores.scale.label} τ")
    axes.set_ylabel("share of runs above τ")
    axes.grid()
    single = [one for one in series if one.arm is not None and one.arm.kind == "single"]
    handles, labels = curve_legend(page, [*(one for one in series if one not in single), *reversed(single)])
    note = f"Scores of the epoch that ends at {page.scores.common_steps:,} steps; shaded: 95% intervals; {page.seeds}."
    legend_below(figure, handles, labels, note)
    return figure
