"""One picture of one run: how well it did, how well each member fitted, and which member was target when."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray
from PIL import Image

from adaqn.errors import UserError, unknown_name
from adaqn.hyperparameters import Hyperparameters
from adaqn.runs.labels import member_labels
from adaqn.runs.reading import Episodes, RunData, Selections, member_of, read_run
from adaqn.snapshot import replacing

BINS = 120  # along the steps, in the strip of targets
POINTS = 480  # of all loss curves together: many long curves would hide one another
NAMED_ROWS = 24  # members that a legend and an axis have room for
LONGEST_LABEL = 44
SOFTWARE = "adaqn"  # the entry of a PNG by which our pictures are known

Colour = tuple[float, float, float]


def draw_run(run_directory: Path, output: Path | None = None, force: bool = False) -> Path:
    """Draw a run, also one that still goes on, to `picture.png` in its directory, each time anew, or to a file."""
    run = read_run(run_directory)
    path = run.path / "picture.png" if output is None else Path(output)
    if os.path.lexists(path) and not force:
        if output is not None:
            raise UserError(f"{path} exists already; add --force to overwrite it, or name another file")
        if not _drawn_here(path):
            raise UserError(f"{path} exists already, and adaqn did not draw it; add --force, or name another file")
    figure = picture_of(run)
    allowed = FigureCanvasAgg(figure).get_supported_filetypes()
    if path.suffix.lstrip(".") not in allowed:
        raise unknown_name("suffix of a picture", path.suffix, [f".{kind}" for kind in allowed])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    kind = path.suffix.lstrip(".")
    with replacing(path) as file:
        figure.savefig(file, format=kind, metadata={"Software": SOFTWARE} if kind == "png" else None)
    return path


def _drawn_here(path: Path) -> bool:
    """Whether a file is a picture that this module drew."""
    try:
        with Image.open(path) as image:
            return image.info.get("Software") == SOFTWARE
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return False


def picture_of(run: RunData) -> Figure:
    """The figure of a run: three panels over one axis of environment steps."""
    selection = run.selection
    labels = [_shortened(label) for label in member_labels(_members(run))]
    colours = member_colours(len(labels))
    rows = min(max(len(labels), 2), NAMED_ROWS)
    width = 10.0 + 0.08 * max(map(len, labels), default=0)
    figure = Figure(figsize=(width, 7.2 + 0.17 * rows), dpi=130, layout="constrained")
    panels = figure.subplots(3, 1, sharex=True, height_ratios=[3.0, 3.0, 0.9 + 0.16 * rows])
    returns, losses, targets = panels
    draw_returns(returns, run.episodes)
    draw_losses(losses, selection, labels, colours)
    draw_targets(targets, selection, labels, colours)
    last = max([1, *run.episodes.step[-1:], *selection.step[-1:]])
    targets.set_xlim(0, float(last))
    targets.xaxis.set_major_locator(MaxNLocator(integer=True))
    targets.set_xlabel("environment steps")
    targets.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    figure.align_ylabels(panels)
    figure.suptitle(_title(run), fontsize="medium")
    return figure


def draw_returns(axes: Axes, episodes: Episodes) -> None:
    """The return of every episode, and the mean of the last ones."""
    axes.set_ylabel("training return")
    axes.grid(alpha=0.25)
    n = len(episodes.step)
    if n == 0:
        _say(axes, "no episode has ended yet")
        return
    window = running_window(n)
    axes.plot(episodes.step, episodes.total, "o", color="0.6", markersize=2.5, markeredgewidth=0, alpha=0.45)
    mean = running_mean(episodes.total, window)
    marker = "o" if n == 1 else None  # one point makes no line
    (line,) = axes.plot(episodes.step, mean, color="black", linewidth=1.6, marker=marker, clip_on=False)
    if window > 1:
        line.set_label(f"mean of {window} episodes")
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize="small")


def draw_losses(axes: Axes, selection: Selections, labels: Sequence[str], colours: Sequence[Colour]) -> None:
    """The cumulated loss of every member between two target updates; a cross is where one diverged."""
    axes.set_ylabel("cumulated loss")
    axes.grid(alpha=0.25)
    if len(selection.step) == 0:
        _say(axes, "no target update yet")
        return
    positive = np.isfinite(selection.loss) & (selection.loss > 0.0)
    if positive.any():
        axes.set_yscale("log")
    named = _named(selection, len(labels))
    for member in range(len(labels)):
        step, loss = thinned(selection.step, selection.loss[:, member], max(40, POINTS // len(labels)))
        diverged = not np.isfinite(selection.loss[:, member]).all()
        label = f"{member}: {labels[member]}" + (" (diverged)" if diverged else "")
        axes.plot(
            step,
            loss,
            color=colours[member],
            linewidth=1.2,
            marker="o" if len(step) == 1 else None,
            clip_on=len(step) > 1,
            label=label if member in named else None,
        )
        if diverged and len(step):
            axes.plot(step[-1], loss[-1], "X", color=colours[member], markeredgecolor="black", zorder=5)
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        frameon=False,
        fontsize="small" if len(named) <= 12 else "x-small",
        title=None if len(named) == len(labels) else f"{len(named)} of {len(labels)} members",
        labelspacing=0.35,
    )


def draw_targets(axes: Axes, selection: Selections, labels: Sequence[str], colours: Sequence[Colour]) -> None:
    """A row per member, the darker the more often it was target in that stretch of steps."""
    axes.set_ylabel("target member")
    if len(selection.step) == 0:
        _say(axes, "no target update yet")
        return
    members = len(labels)
    share, edges = target_shares(selection, members, min(BINS, len(selection.step)))
    raster = np.ones((members, len(edges) - 1, 4))
    raster[..., :3] = np.asarray(colours)[:, None, :]
    raster[..., 3] = np.where(share > 0.0, 0.2 + 0.8 * share, 0.0)  # a single time must still be seen
    axes.pcolormesh(edges, np.arange(members + 1) - 0.5, raster)
    axes.set_ylim(members - 0.5, -0.5)
    if members <= NAMED_ROWS:
        axes.set_yticks(range(members), labels=[str(member) for member in range(members)])
        axes.tick_params(axis="y", labelsize="x-small" if members > 12 else "small", length=0)
        axes.hlines(np.arange(1, members) - 0.5, *edges[[0, -1]], color="0.9", linewidth=0.5)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    totals = selection.selected.mean(axis=0)
    for member in _named(selection, members):
        axes.text(
            1.01,
            member,
            f"{totals[member]:.0%}  {labels[member]}",
            transform=axes.get_yaxis_transform(),
            verticalalignment="center",
            fontsize="small" if members <= 12 else "x-small",
        )


def target_shares(selection: Selections, members: int, bins: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of the target updates in each of the bins, the share of every member, and the bins' edges. [K, bins]"""
    first, last = selection.step[0], selection.step[-1]
    # A target update tells of the steps before it, so the strip begins one interval before the first.
    interval = (last - first) / (len(selection.step) - 1) if len(selection.step) > 1 else first
    edges = np.linspace(first - interval, last, bins + 1)
    # Each bin reaches to its right edge inclusively; rounding must not open a bin beyond the last.
    bin_of = np.clip(np.searchsorted(edges, selection.step, side="left") - 1, 0, bins - 1)
    shares = np.zeros((bins, members))
    np.add.at(shares, bin_of, selection.selected)
    return (shares / np.maximum(np.bincount(bin_of, minlength=bins), 1)[:, None]).T, edges


def thinned(
    step: NDArray[np.int64], losses: NDArray[np.float64], points: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The finite losses at their steps; of more than so many, the geometric means of neighbours."""
    steps, means = [], []
    with np.errstate(divide="ignore"):
        logs = np.log(losses)  # a loss of 0 makes its mean 0
    for part in np.array_split(np.arange(len(step)), min(points, len(step))):
        sound = part[np.isfinite(losses[part])]
        if len(sound):
            steps.append(step[sound].mean())
            means.append(np.exp(logs[sound].mean()))
    return np.asarray(steps), np.asarray(means)


def running_window(n: int) -> int:
    """Over how many of n episodes the return is averaged: a tenth of them, at most a hundred."""
    return max(1, min(100, n // 10))


def running_mean(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """The mean of the last `window` values at each of them, of fewer at the start."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - window, 0)
    return (sums[last] - sums[first]) / (last - first)


def member_colours(members: int) -> list[Colour]:
    """One colour per member: from a palette as long as it lasts, along a gradient beyond it."""
    if members <= 20:
        palette = matplotlib.colormaps["tab20"]  # strong and pale in turns; the strong ones come first
        return [palette(2 * index if index < 10 else 2 * index - 19)[:3] for index in range(members)]
    gradient = matplotlib.colormaps["turbo"]
    return [gradient(share)[:3] for share in np.linspace(0.05, 0.95, members)]


def _members(run: RunData) -> list[Hyperparameters]:
    """The ensemble as it is now; before it was written, as many plain members as there are losses."""
    if not run.members:
        return [Hyperparameters()] * run.selection.loss.shape[1]
    members = [member_of(values) for values in run.members[-1]["members"]]
    if len(run.selection.step) and run.selection.loss.shape[1] != len(members):
        raise UserError(
            f"{run.path} has {len(members)} members in members.jsonl, but losses of "
            f"{run.selection.loss.shape[1]} in selection.csv"
        )
    return members


def _named(selection: Selections, members: int) -> list[int]:
    """The members that are named: all, or the most often selected where there is not room for all."""
    if members <= NAMED_ROWS:
        return list(range(members))
    totals = selection.selected.sum(axis=0)
    return sorted(np.argsort(-totals, kind="stable")[: NAMED_ROWS // 2].tolist())


def _title(run: RunData) -> str:
    parts = [run.config.get("algo"), run.config.get("env"), f"seed {run.config.get('seed')}"]
    title = ", ".join(str(part) for part in parts if part is not None)
    # Members come and go in their slots; a label can name one only.
    return title if len(run.members) < 2 else f"{title} (labels name the last of {len(run.members)} generations)"


def _shortened(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def _say(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="0.4")
    axes.set_yticks([])
