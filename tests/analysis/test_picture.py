"""Pictures of synthetic runs: the numbers behind the panels, and that nothing is cut off or drawn over."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from adaqn.analysis.picture import (
    draw_run,
    member_colours,
    picture_of,
    running_mean,
    running_window,
    target_shares,
    thinned,
)
from adaqn.errors import UserError
from adaqn.hyperparameters import Hyperparameters, grid
from adaqn.runs.reading import Selections, read_run


def write_run(
    path: Path,
    members: tuple[Hyperparameters, ...],
    updates: int = 500,
    episodes: int = 400,
    diverges: bool = False,
) -> Path:
    """A run of 100 000 steps that improves, whose last members are selected more and more often."""
    rng = np.random.default_rng(0)
    path.mkdir(parents=True)
    path.joinpath("config.yaml").write_text("{algo: adadqn, env: LunarLander-v3, seed: 3}\n")
    entries = [member.to_dict() | {"parent": None} for member in members]
    path.joinpath("members.jsonl").write_text(json.dumps({"step": 0, "generation": 0, "members": entries}) + "\n")
    ends = np.sort(rng.choice(np.arange(100, 100_000), episodes, replace=False))
    lines = [f"{s},{-200 + 400 * s / 100_000 + rng.normal(0, 60)},{100}" for s in ends]
    path.joinpath("episodes.csv").write_text("\n".join(["step,return,length", *lines]) + "\n")
    k = len(members)
    lines = [",".join(["step", "target", *(f"loss_{i}" for i in range(k)), *(f"acted_{i}" for i in range(k))])]
    for step in np.linspace(0, 100_000, updates + 1, dtype=int)[1:]:
        done = step / 100_000
        losses = 100 * np.exp(rng.normal(0, 0.5, k) + 2 * np.sin(6 * done + np.arange(k)))
        if diverges and done > 0.3:
            losses[0] = np.inf
        target = int(np.argmin(losses))
        lines.append(",".join([str(step), str(target), *map(str, losses), *["1"] * k]))
    path.joinpath("selection.csv").write_text("\n".join(lines) + "\n")
    return path


FOUR = grid(hidden=[(25, 25), (50, 50), (100, 100), (200, 200)])
SIXTEEN = grid(
    hidden=[(25, 25), (200, 200, 200)],
    activation=["relu", "hard_sigmoid"],
    learning_rate=[1e-3, 1.25e-5],
    loss=["l2", "log_cosh"],
)
FIFTY = grid(hidden=[(n, n) for n in range(1, 51)])


def png_size(path: Path) -> tuple[int, int]:
    with Image.open(path) as image:
        assert image.format == "PNG"
        return image.size


def panels_of(figure: Figure) -> tuple[Axes, Axes, Axes]:
    returns, losses, targets = figure.axes
    return returns, losses, targets


@pytest.mark.parametrize(
    ("members", "updates", "episodes", "diverges"),
    [
        (FOUR[:1], 50, 60, False),
        (FOUR, 500, 400, False),
        (FOUR, 40, 60, True),
        (SIXTEEN, 50, 60, True),
        (FIFTY, 50, 60, False),
        (FOUR, 1, 1, False),
        (FOUR, 0, 1, False),
        (FOUR, 0, 0, False),
    ],
)
def test_nothing_is_cut_off_or_lies_over_a_panel(
    members: tuple[Hyperparameters, ...], updates: int, episodes: int, diverges: bool, tmp_path: Path
) -> None:
    figure = picture_of(read_run(write_run(tmp_path / "run", members, updates, episodes, diverges)))
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    whole = figure.bbox
    panels = [axes.get_window_extent(renderer) for axes in figure.axes]
    for axes in figure.axes:
        extents = [text.get_window_extent(renderer) for text in axes.texts]
        # Labels and ticks that are drawn; the upper panels have none below them.
        drawn = [axis.get_tightbbox(renderer) for axis in (axes.xaxis, axes.yaxis)]
        extents += [extent for extent in drawn if extent is not None]
        legend = axes.get_legend()
        if legend is not None:
            extents.append(legend.get_window_extent(renderer))
            assert not any(extents[-1].overlaps(panel) for panel in panels)
        for extent in extents:
            assert whole.x0 <= extent.x0 and extent.x1 <= whole.x1
            assert whole.y0 <= extent.y0 and extent.y1 <= whole.y1
    if updates > 0 and len(members) <= 16:
        named = [text.get_window_extent(renderer) for text in figure.axes[2].texts]
        assert len(named) == len(members)
        assert not any(a.overlaps(b) for a, b in pairwise(named))


def test_a_picture_that_somebody_else_put_there_is_kept(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", FOUR, updates=5, episodes=5)
    Image.new("RGB", (2, 2)).save(run / "picture.png")
    before = (run / "picture.png").read_bytes()
    with pytest.raises(UserError, match=r"picture.png exists already, and adaqn did not draw it; add --force"):
        draw_run(run)
    assert (run / "picture.png").read_bytes() == before
    draw_run(run, force=True)
    assert png_size(run / "picture.png") > (1000, 800)
    (run / "picture.png").rename(tmp_path / "kept.png")
    (run / "picture.png").symlink_to(tmp_path / "kept.png")
    kept = (tmp_path / "kept.png").stat()
    draw_run(run)
    assert not (run / "picture.png").is_symlink(), "nothing is drawn through a link"
    assert (tmp_path / "kept.png").stat().st_mtime_ns == kept.st_mtime_ns
    (run / "picture.png").write_text("no picture at all")
    with pytest.raises(UserError, match="adaqn did not draw it"):
        draw_run(run)


def test_the_file_is_where_it_was_asked_for(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", FOUR, updates=5, episodes=5)
    assert draw_run(run) == run / "picture.png"
    width, height = png_size(run / "picture.png")
    assert width > 1000 and height > 800
    other = draw_run(run, tmp_path / "new" / "other.png")
    assert other == tmp_path / "new" / "other.png"
    assert png_size(other) == (width, height)
    assert draw_run(run) == run / "picture.png"  # it is drawn anew
    with pytest.raises(UserError, match=r"unknown suffix of a picture '\.txt'.*\.png"):
        draw_run(run, tmp_path / "picture.txt")


def test_the_panels_show_the_numbers_of_the_run(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run", FOUR, updates=30, episodes=30))
    returns, losses, targets = panels_of(picture_of(run))
    dots, mean = returns.get_lines()
    np.testing.assert_array_equal(dots.get_xdata(), run.episodes.step)
    np.testing.assert_array_equal(dots.get_ydata(), run.episodes.total)
    np.testing.assert_allclose(np.asarray(mean.get_ydata())[-1], run.episodes.total[-3:].mean())
    assert mean.get_label() == "mean of 3 episodes"
    for member, line in enumerate(losses.get_lines()):
        np.testing.assert_array_equal(line.get_xdata(), run.selection.step)
        np.testing.assert_allclose(np.asarray(line.get_ydata()), run.selection.loss[:, member])
    assert losses.get_yscale() == "log"
    legend = losses.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "0: 25x25",
        "1: 50x50",
        "2: 100x100",
        "3: 200x200",
    ]
    shares = np.bincount(run.selection.target, minlength=4) / 30
    assert [text.get_text() for text in targets.texts] == [
        f"{share:.0%}  {label}" for share, label in zip(shares, ["25x25", "50x50", "100x100", "200x200"], strict=True)
    ]
    assert targets.get_xlim() == returns.get_xlim() == (0.0, 100_000.0)


def test_a_diverged_member_ends_with_a_cross(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run", FOUR, updates=10, episodes=5, diverges=True))
    losses = panels_of(picture_of(run))[1]
    curve, cross = losses.get_lines()[:2]
    assert np.asarray(curve.get_xdata()).tolist() == [10_000, 20_000, 30_000]
    assert cross.get_marker() == "X"
    assert np.asarray(cross.get_xdata()).tolist() == [30_000]
    legend = losses.get_legend()
    assert legend is not None
    assert legend.get_texts()[0].get_text() == "0: 25x25 (diverged)"
    assert np.isfinite(losses.get_ylim()).all()


def test_a_run_that_has_only_begun_says_so(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", FOUR, updates=0, episodes=0)
    panels = panels_of(picture_of(read_run(run)))
    assert [panel.texts[0].get_text() for panel in panels] == [
        "no episode has ended yet",
        "no target update yet",
        "no target update yet",
    ]
    for name in ("members.jsonl", "episodes.csv", "selection.csv"):
        (run / name).unlink()
    assert png_size(draw_run(run))[0] > 1000


def test_the_share_of_targets_in_each_bin() -> None:
    target = np.array([0, 0, 1, 1, 2, 0, 1, 1])
    step = np.arange(1, 9) * 100
    selected = np.eye(3)[target]
    selection = Selections(step, target, np.ones((8, 3)), np.ones((8, 3)), selected)
    share, edges = target_shares(selection, members=3, bins=2)
    np.testing.assert_allclose(edges, [0, 400, 800])
    np.testing.assert_allclose(share, [[0.5, 0.25], [0.5, 0.5], [0.0, 0.25]])
    share, edges = target_shares(selection, members=3, bins=8)
    np.testing.assert_allclose(share, (target[None, :] == np.arange(3)[:, None]).astype(float))
    first = Selections(step[:1], target[:1], np.ones((1, 3)), np.ones((1, 3)), selected[:1])
    share, edges = target_shares(first, members=3, bins=1)
    np.testing.assert_allclose(edges, [0, 100])
    np.testing.assert_allclose(share, [[1.0], [0.0], [0.0]])


def test_the_running_mean_is_of_the_last_episodes() -> None:
    values = np.array([1.0, 3.0, 8.0, 4.0])
    np.testing.assert_allclose(running_mean(values, 2), [1.0, 2.0, 5.5, 6.0])
    np.testing.assert_allclose(running_mean(values, 1), values)
    np.testing.assert_allclose(running_mean(values, 9), [1.0, 2.0, 4.0, 4.0])
    assert [running_window(n) for n in (1, 9, 30, 400, 5000)] == [1, 1, 3, 40, 100]


def test_many_losses_are_thinned_by_their_geometric_mean() -> None:
    step = np.array([10, 20, 30, 40, 50])
    losses = np.array([1.0, 4.0, 9.0, np.inf, np.inf])
    np.testing.assert_allclose(thinned(step, losses, 9), ([10, 20, 30], [1, 4, 9]))
    np.testing.assert_allclose(thinned(step, losses, 2), ([20], [36 ** (1 / 3)]))
    np.testing.assert_allclose(thinned(step[1:4], losses[1:4], 1), ([25], [6]))
    np.testing.assert_allclose(thinned(step[:2], np.array([0.0, 5.0]), 9), ([10, 20], [0, 5]))


@pytest.mark.parametrize("members", [1, 10, 20, 50])
def test_every_member_has_a_colour_of_its_own(members: int) -> None:
    assert len(set(member_colours(members))) == members
