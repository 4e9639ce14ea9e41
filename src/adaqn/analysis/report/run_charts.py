"""The charts of one run: returns, who was target and who acted, and the losses of the members."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaqn.analysis.discounts import Discounts
from adaqn.analysis.picture import BINS, running_mean, running_windows, target_shares, thinned
from adaqn.analysis.report.charts import (
    NEUTRAL,
    Chart,
    colour,
    hover,
    legend_below,
    new_chart,
    short,
    step_axis,
    table_of,
    thin,
)
from adaqn.analysis.style import OKABE_ITO, Colour
from adaqn.runs.display.standings import selection_weights
from adaqn.runs.reading import RunData

LOSS_POINTS = 300  # of the curve of one member
_BLUE, _GREEN, _ORANGE = (colour(OKABE_ITO[index]) for index in (0, 1, 4))


def returns_chart(run: RunData) -> Chart:
    """The return of every episode, running means, and the evaluations with their standard deviations."""
    chart = new_chart("environment steps", "return")
    step_axis(chart)
    entries = []
    episodes, n = run.episodes, len(run.episodes.step)
    if n:
        some = thin(n)
        dots = chart.scatter(
            "step", "total", size=5, color=NEUTRAL, alpha=0.45, line_color=None,
            source=table_of(step=episodes.step[some], total=episodes.total[some], length=episodes.length[some]),
        )  # fmt: skip
        hover(chart, [dots], {"step": "@step{0,0}", "return": "@total{0,0.00}", "length": "@length{0,0}"})
        entries.append(("episode" if some.step == 1 else f"episode (1 in {some.step})", [dots]))
    for window, ink in zip(running_windows(n), (_ORANGE, _GREEN), strict=False):
        some = thin(n)
        mean = running_mean(episodes.total, window)[some]
        line = chart.line("step", "mean", color=ink, line_width=2, source=table_of(step=episodes.step[some], mean=mean))
        hover(chart, [line], {"step": "@step{0,0}", f"mean of {window}": "@mean{0,0.00}"})
        entries.append((f"mean of {window} episodes", [line]))
    entries += _evaluations(chart, run)
    legend_below(chart, entries)
    return chart


def _evaluations(chart: Chart, run: RunData) -> list[tuple[str, list[object]]]:
    """The mean of every evaluation, and the best model."""
    entries: list[tuple[str, list[object]]] = []
    steps = np.unique(run.evaluations.step)
    if len(steps):
        groups = [run.evaluations.total[run.evaluations.step == step] for step in steps]
        mean, std = (np.array([of(group) for group in groups]) for of in (np.mean, np.std))
        source = table_of(step=steps, mean=mean, std=std, low=mean - std, high=mean + std)
        bars = chart.segment("step", "low", "step", "high", color=_BLUE, source=source)
        line = chart.line("step", "mean", color=_BLUE, line_width=2, source=source)
        dots = chart.scatter("step", "mean", color=_BLUE, size=8, marker="diamond", source=source)
        hover(chart, [dots], {"step": "@step{0,0}", "evaluation": "@mean{0,0.00} ± @std{0,0.00}"})
        entries.append(("evaluation", [line, dots, bars]))
    if (best := run.best_model) is not None and np.isfinite(best.total):
        star = chart.scatter(
            "step", "total", marker="star", size=15, color=_ORANGE,
            source=table_of(step=[best.step], total=[best.total]),
        )  # fmt: skip
        hover(chart, [star], {"best model, step": "@step{0,0}", "return": "@total{0,0.00}"})
        entries.append(("best model", [star]))
    return entries


def share_charts(run: RunData, labels: Sequence[str], colours: Sequence[Colour]) -> tuple[Chart, Chart]:
    """Two rasters, darker where a member was the target, or acted, more often."""
    bins = min(BINS, len(run.selection.step))
    weights = selection_weights(run)
    target, edges = target_shares(run.selection, len(labels), bins, weights)
    acted = run.selection.acted
    if not run.sums_up_selections:  # counts of actions: the share of each row, weighted by the actions in it
        weights = acted.sum(axis=1)
        acted = acted / np.maximum(weights, 1.0)[:, None]
    behaviour, _ = target_shares(run.selection._replace(selected=acted), len(labels), bins, weights)
    first = _raster(target, edges, labels, colours, "share of target updates")
    role = "share of actor updates" if run.sums_up_selections else "share of actions"
    second = _raster(behaviour, edges, labels, colours, role)
    second.x_range = first.x_range
    return first, second


def _raster(
    shares: NDArray[np.float64], edges: NDArray[np.float64], labels: Sequence[str], colours: Sequence[Colour], what: str
) -> Chart:
    members = len(shares)
    chart = new_chart("environment steps", "member", height=110 + 24 * members, y_range=(members - 0.5, -0.5))
    step_axis(chart)
    chart.ygrid.visible = False
    chart.yaxis.ticker = list(range(members))
    chart.yaxis.major_label_overrides = {index: short(f"{index}: {label}", 21) for index, label in enumerate(labels)}
    row, column = np.nonzero(shares > 0.0)
    share = shares[row, column]
    quads = chart.quad(
        left="left", right="right", bottom="bottom", top="top", fill_color="colour", fill_alpha="alpha",
        line_color=None,
        source=table_of(
            left=edges[column], right=edges[column + 1], bottom=row + 0.42, top=row - 0.42, share=100.0 * share,
            alpha=0.2 + 0.8 * np.minimum(share, 1.0), colour=[colour(colours[index]) for index in row.tolist()],
            member=[f"{index}: {labels[index]}" for index in row.tolist()],
        ),
    )  # fmt: skip
    hover(chart, [quads], {"member": "@member", "steps": "@left{0,0} to @right{0,0}", what: "@share{0.0} %"})
    return chart


def discounts_chart(discounts: Discounts) -> Chart:
    """The discount over time; that of a target member stays until the next target update."""
    chart = new_chart("environment steps", "discount γ", height=220)
    step_axis(chart)
    some = thin(len(discounts.step))
    source = table_of(step=discounts.step[some], value=discounts.value[some])
    look: dict[str, Any] = {"color": _BLUE, "source": source}
    drawn = chart.line if discounts.learned else partial(chart.step, mode="after")
    line = drawn("step", "value", line_width=2, **look)
    if len(discounts.step) == 1:
        chart.scatter("step", "value", size=7, **look)
    hover(chart, [line], {"step": "@step{0,0}", "discount": "@value{0.000000}"})
    return chart


def losses_chart(run: RunData, labels: Sequence[str], colours: Sequence[Colour]) -> Chart:
    """The loss by which members are compared; a cross marks where a member diverged."""
    losses = run.selection.loss
    positive = bool((np.isfinite(losses) & (losses > 0.0)).any())
    chart = new_chart("environment steps", "cumulated loss", y_axis_type="log" if positive else "linear")
    step_axis(chart)
    entries = []
    for member, label in enumerate(labels):
        step, loss = thinned(run.selection.step, losses[:, member], LOSS_POINTS)
        kept = (loss > 0.0) | (not positive)
        source = table_of(step=step[kept], loss=loss[kept], member=[f"{member}: {label}"] * int(kept.sum()))
        ink = colour(colours[member])
        drawn: list[Any] = [chart.line("step", "loss", color=ink, line_width=2, source=source)]
        diverged = not np.isfinite(losses[:, member]).all()
        if len(step) and (diverged or len(step) == 1):
            last = table_of(step=step[-1:], loss=loss[-1:])
            drawn.append(
                chart.scatter("step", "loss", marker="x" if diverged else "circle", size=9, color=ink, source=last)
            )
        hover(chart, drawn[:1], {"member": "@member", "step": "@step{0,0}", "loss": "@loss{0.000e+0}"})
        entries.append((f"{member}: {label}" + (" (diverged)" if diverged else ""), drawn))
    if len(run.selection.step) == 1:  # around a single step, the axis would have fractions of steps
        chart.x_range.start, chart.x_range.end = 0, 1.05 * float(run.selection.step[0])  # pyright: ignore[reportAttributeAccessIssue]
    legend_below(chart, entries)
    return chart
