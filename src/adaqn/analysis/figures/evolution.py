"""How the hyperparameters of one run in an infinite space evolve: those of all members, and those of the target."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from adaqn.analysis.loading import StudyRun
from adaqn.analysis.metrics import returns_per_epoch
from adaqn.analysis.page import NotDrawn, Page
from adaqn.analysis.style import OKABE_ITO, legend_below, new_figure, short_step_axis
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.display.labels import layers_kind_label, loss_label, number_label
from adaqn.runs.reading import member_of

_TARGET, _RISING = OKABE_ITO[4], OKABE_ITO[1]
# The hyperparameters whose history is drawn, by name.
NUMBERS: dict[str, Callable[[Hyperparameters], float]] = {
    "learning rate": lambda member: member.learning_rate,
    "MLP layers": lambda member: float(len(member.hidden)),
    "MLP neurons": lambda member: float(sum(member.hidden)),
    "discount": lambda member: math.nan if member.discount is None else member.discount,
    "CNN layers": lambda member: float(len(member.convolutions)),
    "CNN channels": lambda member: float(sum(layer.channels for layer in member.convolutions)),
}
WORDS: dict[str, Callable[[Hyperparameters], str]] = {
    "activation": lambda member: member.activation,
    "optimizer": lambda member: member.optimizer,
    "loss": loss_label,
    "layers": layers_kind_label,
}


def draw(page: Page) -> Figure:
    """Draw the first seed of the main arm, or of the first other one, whose members come from a space."""
    study = page.scores.study
    arms = [arm for arm in study.arms if arm.infinite and arm.kind == "ensemble"]
    arms.sort(key=lambda arm: arm is not study.main)
    runs = [run for arm in arms for run in sorted(arm.runs, key=lambda run: run.seed) if len(run.data.members) > 1]
    if not runs:
        raise NotDrawn("no arm with one ensemble has members from a space that went through a generation")
    run = runs[0]
    history = _history(run)
    numbers = {name: of for name, of in NUMBERS.items() if len({of(m) for _, ms in history for m in ms}) > 1}
    words = {name: of for name, of in WORDS.items() if len({of(m) for _, ms in history for m in ms}) > 1}
    values = {name: sorted({of(m) for _, ms in history for m in ms}) for name, of in words.items()}
    heights = [1.0, *(0.75 for _ in numbers), *(0.18 + 0.125 * len(values[name]) for name in words)]
    figure = new_figure(sum(heights) + 0.6)
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    spans = _rising(run, study.epoch)
    steps, returns = _returns(run, study.epoch)
    panels[0].plot(steps, returns, color="black", drawstyle="steps-pre")
    panels[0].set_ylabel("return")
    for axes, (name, number) in zip(panels[1:], numbers.items(), strict=False):
        _draw_numbers(axes, run, history, number)
        axes.set_ylabel(name)
        if name == "learning rate":
            _rate_axis(axes)
        else:
            axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    for axes, (name, word) in zip(panels[1 + len(numbers) :], words.items(), strict=True):
        order = {value: float(row) for row, value in enumerate(values[name])}
        _draw_numbers(axes, run, history, lambda member, word=word, order=order: order[word(member)])
        axes.set_yticks(range(len(order)), labels=list(order))
        axes.set_ylim(-0.7, len(order) - 0.3)
        axes.set_ylabel(name)
    for axes in panels:
        for first, last in spans:
            axes.axvspan(first, last, color=_RISING, alpha=0.15, linewidth=0)
        axes.grid(axis="y")
    short_step_axis(panels[-1], float(run.steps))
    figure.align_ylabels(list(panels))
    figure.suptitle(f"{arms[0].label}, {run.environment}, seed {run.seed}", fontsize=8)
    handles = [
        Line2D([], [], color="0.6", linewidth=2.0),
        Line2D([], [], color=_TARGET, marker=".", linestyle="none"),
        Patch(color=_RISING, alpha=0.15),
    ]
    legend_below(figure, handles, ["members", "target member", "return rises"])
    return figure


def _history(run: StudyRun) -> list[tuple[int, list[Hyperparameters]]]:
    """The members from each generation on; one at the end of the run has no time to show."""
    lines = [line for line in run.data.members if line["step"] < run.steps]
    return [(line["step"], [member_of(values) for values in line["members"]]) for line in lines]


def _draw_numbers(axes: Axes, run: StudyRun, history: list[Any], number: Callable[[Hyperparameters], float]) -> None:
    """A grey stretch for each member in each generation, and a point for each target."""
    starts = [step for step, _ in history]
    ends = [*starts[1:], run.steps]
    for (first, members), last in zip(history, ends, strict=True):
        axes.hlines([number(member) for member in members], first, last, color="0.6", linewidth=2.0)
    steps, targets = run.data.selection.step, run.data.selection.target
    steps, targets = steps[steps < run.steps], targets[steps < run.steps]
    # A target update at the step of a generation chose among the members that came out of it.
    place = np.searchsorted(starts, steps, side="right") - 1
    chosen = [number(history[at][1][target]) for at, target in zip(place, targets, strict=True)]
    axes.plot(steps, chosen, ".", color=_TARGET, markersize=2.5)


def _rate_axis(axes: Axes) -> None:
    """Learning rates on a logarithmic axis, with a few labels that a panel of this height has room for."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    decades = math.log10(high / low)
    if decades < 0.5:  # a narrow range may have no power of ten and no half of one
        axes.yaxis.set_major_locator(MaxNLocator(nbins=3))
    else:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if decades > 1.5 else (1.0, 2.0, 5.0), numticks=5))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda rate, _: number_label(rate)))


def _returns(run: StudyRun, epoch: int) -> tuple[Any, Any]:
    epochs = max(1, run.steps // epoch)
    values = returns_per_epoch(run.episodes.step, run.episodes.total, epoch, epochs)
    return np.append(0.0, epoch * np.arange(1.0, epochs + 1)), np.append(values[0], values)


def _rising(run: StudyRun, epoch: int) -> list[tuple[float, float]]:
    """Epochs whose return is above that of the epoch before by more than a tenth of all that it ever rises."""
    steps, returns = _returns(run, epoch)
    rises = np.diff(returns)
    least = 0.1 * max(float(np.ptp(returns)), 1e-12)
    return [(steps[i], steps[i + 1]) for i in np.flatnonzero(rises > least)]
