"""The charts of a study: curves with intervals, shares of the members, ranking, and performance profiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adaqn.analysis.bars import bins_for, colours_of
from adaqn.analysis.figures.profiles import POINTS
from adaqn.analysis.metrics import Floats, mean, performance_profile
from adaqn.analysis.page import Page
from adaqn.analysis.report.charts import (
    Chart,
    colour,
    dashes,
    hover,
    legend_below,
    new_chart,
    short,
    step_axis,
    table_of,
)
from adaqn.analysis.resampling import interval
from adaqn.analysis.scores import RANDOM, Series, StudyScores
from adaqn.analysis.selected_values import value_distributions
from adaqn.analysis.selections import distribution, labels_of
from adaqn.analysis.study import Arm
from adaqn.analysis.style import member_colours


def curves_chart(page: Page, scores: StudyScores) -> Chart:
    """The IQM of every arm, and of grid and random search, with their intervals."""
    chart = new_chart("environment steps", scores.scale.label, height=380)
    step_axis(chart)
    searches = scores.searches
    every = [*scores.series, *([] if searches is None else [searches.grid, searches.random])]
    entries = []
    for series in every:
        look, curve = page.look(series), series.curve
        label = page.label(series)
        source = table_of(
            step=series.steps, value=curve.value, low=curve.low, high=curve.high, arm=[label] * series.epochs
        )
        ink = colour(look.colour)
        band = chart.varea("step", "low", "high", fill_color=ink, fill_alpha=0.15, source=source)
        # On the page, the black of grid search is as grey as random search.
        dash = "dotted" if series.name == RANDOM else dashes(look)
        line = chart.line("step", "value", color=ink, line_dash=dash, line_width=2, source=source)
        drawn = [line, band]
        if series.epochs == 1:
            drawn.append(chart.scatter("step", "value", color=ink, size=7, source=source))
        tips = {"arm": "@arm", "step": "@step{0,0}", "IQM": "@value{0,0.00} [@low{0,0.00}, @high{0,0.00}]"}
        hover(chart, [line], tips)
        entries.append((label, drawn))
    legend_below(chart, entries)
    return chart


def shares_charts(page: Page, arm: Arm, environment: str) -> tuple[Chart, Chart]:
    """Which members were target, and which acted, over time and over all seeds."""
    found = distribution(arm.on(environment), bins_for(page.scores.study.epochs(arm)))
    labels, colours = labels_of(arm), [colour(one) for one in colours_of(page, arm)]
    names = [f"{member}: {label}" for member, label in enumerate(labels)]
    return (
        _stacked(found.edges, found.target, names, colours, "share of target updates", "member"),
        _stacked(found.edges, found.behaviour, names, colours, "share of acting", "member"),
    )


def values_charts(page: Page, arm: Arm, environment: str) -> dict[str, Chart]:
    """For each hyperparameter that varies in a space: which values the target member had, over time and all seeds."""
    found = value_distributions(arm.on(environment), bins_for(page.scores.study.epochs(arm)))
    charts = {}
    for name, (edges, values, shares) in found.items():
        colours = [colour(one) for one in member_colours(len(values))]
        charts[name] = _stacked(edges, shares, values, colours, "share of target updates", name)
    return charts


def _stacked(
    edges: Floats, shares: Floats, labels: Sequence[str], colours: Sequence[str], what: str, kind: str
) -> Chart:
    chart = new_chart("environment steps", what, height=220, y_range=(0.0, 1.0))
    step_axis(chart)
    bottom = np.zeros(len(shares))
    entries = []
    for part, (label, ink) in enumerate(zip(labels, colours, strict=True)):
        top = bottom + shares[:, part]
        bars = chart.quad(
            left="left", right="right", bottom="bottom", top="top", color=ink, line_color="white", line_width=0.3,
            source=table_of(
                left=edges[:-1], right=edges[1:], bottom=bottom, top=top, share=100.0 * shares[:, part],
                label=[label] * len(top),
            ),
        )  # fmt: skip
        hover(chart, [bars], {kind: "@label", "steps": "@left{0,0} to @right{0,0}", what: "@share{0.0} %"})
        entries.append((label, [bars]))
        bottom = top
    legend_below(chart, entries)
    return chart


def ranked(scores: StudyScores) -> list[Series]:
    """The arms, highest AUC first."""
    return sorted(scores.series, key=lambda one: -float(one.area(scores.common_steps).value))


def ranking_chart(page: Page) -> Chart:
    """The AUC of every arm with its interval, highest on top."""
    order, steps = ranked(page.scores), page.scores.common_steps
    chart = new_chart(page.scores.scale.label, "", height=120 + 26 * len(order), y_range=(len(order) - 0.5, -0.5))
    chart.yaxis.ticker = list(range(len(order)))
    chart.yaxis.major_label_overrides = {row: short(one.label, 22) for row, one in enumerate(order)}
    areas = [one.area(steps) for one in order]
    source = table_of(
        row=np.arange(len(order)), value=[float(area.value) for area in areas], low=[float(a.low) for a in areas],
        high=[float(a.high) for a in areas], arm=[one.label for one in order],
        colour=[colour(page.look(one).colour) for one in order],
    )  # fmt: skip
    chart.segment("low", "row", "high", "row", color="colour", line_width=6, alpha=0.5, source=source)
    dots = chart.scatter("value", "row", color="colour", size=9, source=source)
    hover(chart, [dots], {"arm": "@arm", "AUC": "@value{0,0.00} [@low{0,0.00}, @high{0,0.00}]"})
    return chart


def profiles_chart(page: Page) -> Chart:
    """The share of runs whose score in the last common epoch is above each threshold."""
    series = [one.until(page.scores.common_steps) for one in page.scores.series]
    everything = np.concatenate([task for one in series for task in one.final])
    margin = 0.03 * max(float(np.ptp(everything)), 1e-9)
    thresholds = np.linspace(everything.min() - margin, everything.max() + margin, POINTS)
    chart = new_chart(f"{page.scores.scale.label} τ", "share of runs above τ")
    entries = []
    for one in series:
        look, label = page.look(one), page.label(one)
        bounds = interval([(task[:, None] > thresholds).astype(np.float64) for task in one.final], mean)
        share = performance_profile(list(one.final), thresholds)
        source = table_of(τ=thresholds, share=share, low=bounds.low, high=bounds.high, arm=[label] * len(thresholds))
        ink = colour(look.colour)
        band = chart.varea("τ", "low", "high", fill_color=ink, fill_alpha=0.1, source=source)
        line = chart.line("τ", "share", color=ink, line_dash=dashes(look), line_width=2, source=source)
        hover(chart, [line], {"arm": "@arm", "above": "@τ{0,0.00}", "share": "@share{0.00}"})
        entries.append((label, [line, band]))
    legend_below(chart, entries)
    return chart
