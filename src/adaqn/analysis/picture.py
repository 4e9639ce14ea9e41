"""Overview figure of one run: returns, losses of the members, discount, and which member was the target over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from adaqn.agents.registry import algorithm, algorithm_names
from adaqn.analysis.discounts import Discounts, discounts_of
from adaqn.analysis.style import Colour, drawn_here, member_colours, metadata, step_axis
from adaqn.base.errors import UserError, unknown_name
from adaqn.base.files import make_parent, replacing, require_free, require_ours
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.display.labels import loss_meaning, member_labels
from adaqn.runs.display.standings import acting_returns, history_of, selected_shares, selection_weights
from adaqn.runs.reading import RunData, Selections, member_of, read_run
from adaqn.training.observers import LATEST

BINS = 120  # along the step axis, in the panel of targets
POINTS = 480  # of all loss curves together: many long curves would hide one another
NAMED_ROWS = 24  # largest number of members that fit in a legend and on an axis
LONGEST_LABEL = 44
COLUMNS = (46.0, 126.0)  # right ends of the columns of text beside the rows, in points from the axes
TITLE: dict[str, Any] = {"loc": "left", "fontsize": "small", "color": "0.3"}


def draw_run(run_directory: Path, output: Path | None = None, force: bool = False) -> Path:
    """Draw a finished or running run to `output`, by default `picture.png` in its directory, which is replaced."""
    run = read_run(run_directory)
    path = run.path / "picture.png" if output is None else Path(output)
    if output is not None:
        require_free(path, force)
    elif not force:
        require_ours(path, "picture that adaqn drew", drawn_here, remedy="add --force")
    figure = picture_of(run)
    allowed = FigureCanvasAgg(figure).get_supported_filetypes()
    if path.suffix.lstrip(".") not in allowed:
        raise unknown_name("suffix of a picture", path.suffix, [f".{kind}" for kind in allowed])
    make_parent(path)
    kind = path.suffix.lstrip(".")
    with replacing(path) as file:
        figure.savefig(file, format=kind, metadata=metadata(kind))
    return path


def picture_of(run: RunData) -> Figure:
    """The figure of a run: panels that share an axis of environment steps, that of the discount if it can change."""
    selection, discounts = run.selection, discounts_of(run)
    labels = [_shortened(label) for label in member_labels(current_members(run))]
    colours = member_colours(len(labels))
    rows = min(max(len(labels), 2), NAMED_ROWS)
    width = 10.6 + 0.08 * max(map(len, labels), default=0)
    optional = [] if discounts is None else [1.6]
    figure = Figure(figsize=(width, 7.6 + 0.19 * rows + sum(optional)), dpi=130, layout="constrained")
    heights = [3.0, 3.0, *optional, 0.9 + 0.17 * rows]
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    returns, losses, targets = panels[0], panels[1], panels[-1]
    draw_returns(returns, run)
    draw_losses(losses, selection, labels, colours)
    if discounts is not None:
        draw_discounts(panels[2], discounts)
    draw_targets(targets, run, colours)
    losses.set_title(f"cumulated loss: {loss_meaning(run.sums_up_selections)}", **TITLE)
    last = max([1, *run.episodes.step[-1:], *selection.step[-1:], *run.evaluations.step[-1:]])
    targets.set_xlim(0, float(last))
    step_axis(targets)
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    figure.align_ylabels(panels)
    figure.suptitle(_title(run), fontsize="medium")
    return figure


def draw_returns(axes: Axes, run: RunData) -> None:
    """Plot the return of every episode, means over a long and a short window, and the evaluations."""
    axes.set_ylabel("return")
    axes.grid(alpha=0.25)
    episodes, n = run.episodes, len(run.episodes.step)
    if n == 0 and len(run.evaluations.step) == 0:
        _say(axes, "no episode has ended yet")
        return
    if n:
        axes.plot(
            episodes.step, episodes.total, "o", color="0.45", markersize=4.5 if n <= 300 else 3.0, markeredgewidth=0,
            alpha=0.5, clip_on=False, label="training episode",
        )  # fmt: skip
    # A mean over few episodes shows a collapse at the end, which a mean over many hides.
    for window, colour in zip(running_windows(n), ("tab:orange", "black"), strict=False):
        mean = running_mean(episodes.total, window)
        axes.plot(episodes.step, mean, color=colour, linewidth=1.4, label=f"mean of {window} episodes")
    _draw_evaluations(axes, run)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize="small", labelspacing=0.5)


def _draw_evaluations(axes: Axes, run: RunData) -> None:
    """Plot the mean of every evaluation with its standard deviation, and the best model."""
    evaluations = run.evaluations
    steps = np.unique(evaluations.step)
    if len(steps):
        groups = [evaluations.total[evaluations.step == step] for step in steps]
        axes.errorbar(
            steps, [group.mean() for group in groups], [group.std() for group in groups],
            color="tab:blue", marker="D", markersize=4.5, linewidth=1.2, elinewidth=0.8, clip_on=False,
            label="evaluation (mean, std)",
        )  # fmt: skip
    if (best := run.best_model) is not None and np.isfinite(best.total):
        axes.plot(
            best.step, best.total, "*", color="tab:red", markersize=13, markeredgecolor="white", clip_on=False,
            zorder=6, label=f"best model ({best.total:,.4g})",
        )  # fmt: skip


def draw_losses(axes: Axes, selection: Selections, labels: Sequence[str], colours: Sequence[Colour]) -> None:
    """Plot the loss by which members are compared; a cross marks where a member diverged."""
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
            linewidth=1.4,
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
        title="members" if len(named) == len(labels) else f"{len(named)} of {len(labels)} members",
        title_fontsize="small",
        alignment="left",
        labelspacing=0.35,
    )


def draw_discounts(axes: Axes, discounts: Discounts) -> None:
    """Plot the discount of the target over time, and write the last one beside it."""
    what = "learned by a meta-gradient" if discounts.learned else "of the target member"
    axes.set_title(f"discount {what}", **TITLE)
    axes.set_ylabel("discount γ")
    axes.grid(alpha=0.25)
    axes.ticklabel_format(axis="y", useOffset=False)
    if not len(discounts.step):
        _say(axes, "no discount has been logged yet")
        return
    # A target member stays the target until the next update; a learned discount changes in between.
    style = "default" if discounts.learned else "steps-post"
    marker = "o" if len(discounts.step) == 1 else None
    axes.plot(discounts.step, discounts.value, color="tab:purple", linewidth=1.4, drawstyle=style, marker=marker)
    axes.annotate(
        f"{discounts.value[-1]:.6g} at the end", (1.01, 0.5), xycoords="axes fraction", fontsize="small", va="center"
    )


def draw_targets(axes: Axes, run: RunData, colours: Sequence[Colour]) -> None:
    """Draw a row per member, darker where it was the target more often, with its shares and returns beside it."""
    selection, members, pair = run.selection, len(colours), run.sums_up_selections
    axes.set_ylabel("member")
    if len(selection.step) == 0:
        _say(axes, "no target update yet")
        return
    meaning = "the target pair (two at a time: the shares add up to 200%)" if pair else "the target"
    axes.set_title(f"when each member was {'in ' if pair else ''}{meaning}", **TITLE)
    share, edges = target_shares(selection, members, min(BINS, len(selection.step)), selection_weights(run))
    raster = np.ones((members, len(edges) - 1, 4))
    raster[..., :3] = np.asarray(colours)[:, None, :]
    raster[..., 3] = np.where(share > 0.0, 0.2 + 0.8 * share, 0.0)  # a single selection must stay visible
    axes.pcolormesh(edges, np.arange(members + 1) - 0.5, raster)
    axes.set_ylim(members - 0.5, -0.5)
    if members <= NAMED_ROWS:
        axes.set_yticks(range(members), labels=[str(member) for member in range(members)])
        axes.tick_params(axis="y", labelsize="x-small" if members > 12 else "small", length=0)
        axes.hlines(np.arange(1, members) - 0.5, *edges[[0, -1]], color="0.9", linewidth=0.5)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    _draw_standings(axes, run)


def _draw_standings(axes: Axes, run: RunData) -> None:
    """Write beside each row the member's share of target updates and the return of the episodes in which it acted."""
    members = run.selection.loss.shape[1]
    shares, acting = selected_shares(run), acting_returns(history_of(run))
    role = "training\nthe actor most" if run.sums_up_selections else "acting most\n(episodes)"
    size = "small" if members <= 12 else "x-small"

    def write(text: str, row: float, column: int) -> None:
        axes.annotate(
            text, (1.0, row), (COLUMNS[column], 0.0), xycoords=axes.get_yaxis_transform(), textcoords="offset points",
            horizontalalignment="right", verticalalignment="center" if row >= 0 else "bottom", fontsize=size,
            annotation_clip=False,
        )  # fmt: skip

    write("in pair" if run.sums_up_selections else "selected", -0.6, 0)
    write(f"return when\n{role}", -0.6, 1)
    for member in _named(run.selection, members):
        name = f"{member}: " if members > NAMED_ROWS else ""  # the axis then does not name every row
        write(f"{name}{shares[member]:.0%}", member, 0)
        own = acting[member]
        write("-" if own.mean is None else f"{own.mean:,.4g} ({own.episodes:,})", member, 1)


def target_shares(
    selection: Selections, members: int, bins: int, weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Share of each member in the target updates of each bin [K, bins], and the edges of the bins [bins + 1].

    The weights are the number of target updates that each row summarizes.
    """
    first, last = selection.step[0], selection.step[-1]
    # A target update concerns the steps before it, so the first bin begins one interval before the first update.
    interval = (last - first) / (len(selection.step) - 1) if len(selection.step) > 1 else first
    edges = np.linspace(first - interval, last, bins + 1)
    # Each bin includes its right edge; rounding must not create a bin beyond the last.
    bin_of = np.clip(np.searchsorted(edges, selection.step, side="left") - 1, 0, bins - 1)
    shares = np.zeros((bins, members))
    np.add.at(shares, bin_of, selection.selected * weights[:, None])
    return (shares / np.maximum(np.bincount(bin_of, weights, minlength=bins), 1.0)[:, None]).T, edges


def thinned(
    step: NDArray[np.int64], losses: NDArray[np.float64], points: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The finite losses and their steps, reduced to at most `points` by geometric means of neighbours."""
    steps, means = [], []
    with np.errstate(divide="ignore"):
        logs = np.log(losses)  # a loss of 0 makes the mean 0
    for part in np.array_split(np.arange(len(step)), min(points, len(step))):
        sound = part[np.isfinite(losses[part])]
        if len(sound):
            steps.append(step[sound].mean())
            means.append(np.exp(logs[sound].mean()))
    return np.asarray(steps), np.asarray(means)


def running_windows(n: int) -> list[int]:
    """Window sizes of the mean returns for n episodes: 10, and n / 10 (at most 100) if that is at least 20."""
    tenth = min(100, n // 10)
    return [window for window, enough in ((LATEST, n >= LATEST), (tenth, tenth >= 2 * LATEST)) if enough]


def running_mean(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """The mean over the last `window` values at each position, over fewer at the start."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - window, 0)
    return (sums[last] - sums[first]) / (last - first)


def current_members(run: RunData) -> list[Hyperparameters]:
    """The current ensemble; if members.jsonl is still empty, a default member for each column of losses."""
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
    """The members that get a label: all, or the most often selected if there are too many."""
    if members <= NAMED_ROWS:
        return list(range(members))
    totals = selection.selected.sum(axis=0)
    return sorted(np.argsort(-totals, kind="stable")[: NAMED_ROWS // 2].tolist())


def _title(run: RunData) -> str:
    parts = [run.config.get("algo"), run.config.get("env"), f"seed {run.config.get('seed')}"]
    title = ", ".join(str(part) for part in parts if part is not None)
    if len(run.members) < 2:
        return title
    # Members are replaced over time, but a label can name only one of those that shared an index.
    name = run.config.get("algo")
    kind = "trial" if name in algorithm_names() and algorithm(name).base is not None else "generation"
    return (
        f"{title}\nlabels, shares and returns of members are those of {kind} {run.members[-1]['generation']}, the last"
    )


def _shortened(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def _say(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="0.4")
    axes.set_yticks([])
