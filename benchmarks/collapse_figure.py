"""The figure of `collapse`: one run, from what its members play and promise to who is chosen and who acts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from adaqn.analysis.metrics import returns_per_epoch
from adaqn.analysis.style import BLACK, GREY, OKABE_ITO, legend_below, new_figure, short_step_axis
from adaqn.base.errors import UserError
from adaqn.runs.reading import RunData, read_run, whole_lines

_TARGET = OKABE_ITO[4]
OBSERVATION = "observation.jsonl"


def read_observation(path: Path) -> list[dict[str, Any]]:
    """What `collapse` recorded at each target update; nothing for a run that was trained without it."""
    file = path / OBSERVATION
    return [json.loads(line) for line in whole_lines(file)] if file.is_file() else []


def draw(path: Path, epoch: int = 2_000) -> Figure:
    """Draw a run: returns, cumulated losses, shares of the actions, and, if it was observed, the values."""
    run, lines = read_run(path), read_observation(path)
    if not len(run.selection.step):
        raise UserError(f"the run in {path} has no target update yet")
    last = int(run.selection.step[-1])
    observed = [line for line in lines if "played" in line]
    figure = new_figure(5.6 if observed else 3.9)
    panels = figure.subplots(4 if observed else 3, 1, sharex=True)
    _draw_returns(panels[0], run, observed, epoch, last)
    _draw_losses(panels[1], run)
    _draw_actions(panels[2], run)
    if observed:
        _draw_values(panels[3], lines, observed)
    for axes in panels:
        for line in run.members[1:]:
            axes.axvline(line["step"], color="0.85", linewidth=0.6, zorder=0)
        axes.grid(axis="y")
    short_step_axis(panels[-1], last)
    figure.align_ylabels(list(panels))
    handles = [
        Line2D([], [], color=BLACK),
        Line2D([], [], color=_TARGET, marker=".", linestyle="-", linewidth=0.8),
        Line2D([], [], color=GREY, marker=".", linestyle="none"),
        Line2D([], [], color="0.85"),
    ]
    names = ["training", "target member", "other members", "generation"]
    legend_below(
        figure, handles, names, f"AdaDQN in an infinite space, {run.config['env']}, seed {run.config['seed']}."
    )
    return figure


def _draw_returns(axes: Axes, run: RunData, observed: list[dict[str, Any]], epoch: int, last: int) -> None:
    """The training return, and that of short greedy episodes of each member."""
    epochs = max(1, last // epoch)
    curve = returns_per_epoch(run.episodes.step, run.episodes.total, epoch, epochs)
    axes.plot(epoch * np.arange(1, epochs + 1), curve, color=BLACK)
    for line in observed:
        played = [one["mean"] for one in line["played"]]
        others = [value for member, value in enumerate(played) if member != line["target"]]
        axes.plot([line["step"]] * len(others), others, ".", color=GREY, markersize=2.0, alpha=0.6)
    axes.plot([line["step"] for line in observed],
              [line["played"][line["target"]]["mean"] for line in observed], ".-", color=_TARGET, linewidth=0.8,
              markersize=2.5)  # fmt: skip
    axes.set_ylabel("return")
    axes.set_ylim(bottom=-1_000.0)


def _draw_losses(axes: Axes, run: RunData) -> None:
    """The losses by which the target is chosen."""
    selection = run.selection
    for member in range(selection.loss.shape[1]):
        axes.plot(selection.step, selection.loss[:, member], ".", color=GREY, markersize=1.2, alpha=0.6)
    chosen = selection.loss[np.arange(len(selection.step)), selection.target]
    axes.plot(selection.step, chosen, ".", color=_TARGET, markersize=2.0)
    axes.set_yscale("log")
    axes.set_ylabel("cumulated loss")


def _draw_actions(axes: Axes, run: RunData) -> None:
    """How many of the actions between two target updates the chosen member took."""
    selection = run.selection
    shares = selection.acted / np.maximum(selection.acted.sum(axis=1, keepdims=True), 1)
    chosen = shares[np.arange(len(selection.step)), selection.target]
    axes.plot(selection.step, chosen, ".", color=_TARGET, markersize=2.0)
    axes.set_ylim(0.0, 1.0)
    axes.set_ylabel("share of actions")


def _draw_values(axes: Axes, lines: list[dict[str, Any]], observed: list[dict[str, Any]]) -> None:
    """What the target promises in the first state, beside what its policy gets, and its largest value."""
    steps = [line["step"] for line in observed]
    of_target = [line["played"][line["target"]] for line in observed]
    axes.plot([line["step"] for line in lines], [line["largest_q"] for line in lines], color=OKABE_ITO[0],
              linewidth=0.8, label="largest |Q| of the target")  # fmt: skip
    axes.plot(steps, [one["promised"] for one in of_target], color=_TARGET, label="value of the first state")
    axes.plot(steps, [one["discounted"] for one in of_target], color=BLACK, linewidth=0.8, label="discounted return")
    axes.set_yscale("symlog", linthresh=10.0)
    axes.set_ylabel("value")
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 0.97), ncols=3, borderaxespad=0.0)  # above the panel
