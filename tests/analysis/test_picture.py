"""Pictures of synthetic runs: the numbers behind the panels, and that nothing is cut off or drawn over."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from PIL import Image

from adaqn.analysis.picture import (
    draw_run,
    member_colours,
    picture_of,
    running_mean,
    running_windows,
    target_shares,
    thinned,
)
from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import Hyperparameters, grid
from adaqn.runs.reading import Selections, read_run


def write_run(
    path: Path,
    members: tuple[Hyperparameters, ...],
    updates: int = 500,
    episodes: int = 400,
    diverges: bool = False,
    evaluations: int = 0,
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
    lines = ["step,generation,member,return,length"]
    for step in np.linspace(0, 100_000, evaluations + 1, dtype=int)[1:]:
        lines += [f"{step},0,0,{step / 1000 + spread},100" for spread in (-3.0, 3.0)]
    path.joinpath("evaluations.csv").write_text("\n".join(lines) + "\n")
    if evaluations:
        path.joinpath("best_model.csv").write_text("step,return,judged_by\n100000,100.0,evaluation\n")
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
    figure = picture_of(read_run(write_run(tmp_path / "run", members, updates, episodes, diverges, evaluations=4)))
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    whole = figure.bbox
    panels = [axes.get_window_extent(renderer) for axes in figure.axes]
    legends: list[Any] = []
    for axes in figure.axes:
        extents = [text.get_window_extent(renderer) for text in (*axes.texts, axes._left_title) if text.get_text()]  # type: ignore[attr-defined]
        # Labels and ticks that are drawn; the upper panels have none below them.
        drawn = [axis.get_tightbbox(renderer) for axis in (axes.xaxis, axes.yaxis)]
        extents += [extent for extent in drawn if extent is not None]
        legend = axes.get_legend()
        if legend is not None:
            extents.append(legend.get_window_extent(renderer))
            assert not any(extents[-1].overlaps(panel) for panel in panels)
            legends.append(extents[-1])
        for extent in extents:
            assert whole.x0 <= extent.x0 and extent.x1 <= whole.x1
            assert whole.y0 <= extent.y0 and extent.y1 <= whole.y1
    if updates > 0:
        beside = [text.get_window_extent(renderer) for text in figure.axes[2].texts]
        assert len(beside) == 2 + 2 * min(len(members), 12 if len(members) > 24 else 24), "two columns with headings"
        shrunk = [extent.shrunk(0.95, 0.95) for extent in beside]  # the boxes of neighbouring lines may touch
        assert not any(a.overlaps(b) for a, b in combinations([*shrunk, *legends], 2))
        assert not any(extent.overlaps(panel) for extent in beside for panel in panels)


def test_a_picture_that_somebody_else_put_there_is_kept(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", FOUR, updates=5, episodes=5)
    Image.new("RGB", (2, 2)).save(run / "picture.png")
    before = (run / "picture.png").read_bytes()
    with pytest.raises(
        UserError, match=r"picture.png exists, but is no picture that adaqn drew, so it is not overwritten: add --force"
    ):
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
    with pytest.raises(UserError, match="is no picture that adaqn drew"):
        draw_run(run)


def test_the_file_is_where_it_was_asked_for(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", FOUR, updates=5, episodes=5)
    assert draw_run(run) == run / "picture.png"
    width, height = png_size(run / "picture.png")
    assert width > 1000 and height > 800
    other = draw_run(run, tmp_path / "new" / "other.png")
    assert other == tmp_path / "new" / "other.png"
    assert png_size(other) == (width, height)
    assert draw_run(run) == run / "picture.png"  # it is replaced
    with pytest.raises(UserError, match=r"unknown suffix of a picture '\.txt'.*\.png"):
        draw_run(run, tmp_path / "picture.txt")


def legend_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_the_panels_show_the_numbers_of_the_run(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run", FOUR, updates=30, episodes=30))
    returns, losses, targets = panels_of(picture_of(run))
    dots, mean = returns.get_lines()
    np.testing.assert_array_equal(dots.get_xdata(), run.episodes.step)
    np.testing.assert_array_equal(dots.get_ydata(), run.episodes.total)
    np.testing.assert_allclose(np.asarray(mean.get_ydata())[-1], run.episodes.total[-10:].mean())
    assert legend_of(returns) == ["training episode", "mean of 10 episodes"]
    for member, line in enumerate(losses.get_lines()):
        np.testing.assert_array_equal(line.get_xdata(), run.selection.step)
        np.testing.assert_allclose(np.asarray(line.get_ydata()), run.selection.loss[:, member])
    assert losses.get_yscale() == "log"
    assert "squared TD error / 2 (batch mean), summed over the updates between" in losses.get_title(loc="left")
    assert legend_of(losses) == ["0: 25x25", "1: 50x50", "2: 100x100", "3: 200x200"]
    shares = np.bincount(run.selection.target, minlength=4) / 30
    texts = [text.get_text() for text in targets.texts]
    assert texts[:2] == ["selected", "return when\nacting most\n(episodes)"]
    assert texts[2::2] == [f"{share:.0%}" for share in shares]
    # All acted equally often, so the first counts as the one that acted most.
    assert texts[3::2] == [f"{run.episodes.total.mean():,.4g} (30)", "-", "-", "-"]
    assert not any(label in text for label in ("25x25", "200x200") for text in texts), "the legend has them"
    assert targets.get_xlim() == returns.get_xlim() == (0.0, 100_000.0)


def test_evaluations_and_the_best_model_are_drawn(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run", FOUR, updates=5, episodes=300, evaluations=4))
    returns = panels_of(picture_of(run))[0]
    assert sorted(legend_of(returns)) == [
        "best model (100)",
        "evaluation (mean, std)",
        "mean of 10 episodes",
        "mean of 30 episodes",
        "training episode",
    ]
    [bars] = [container for container in returns.containers if isinstance(container, ErrorbarContainer)]
    line = bars.lines[0]
    assert line is not None
    assert np.asarray(line.get_xdata()).tolist() == [25_000, 50_000, 75_000, 100_000]
    assert np.asarray(line.get_ydata()).tolist() == [25.0, 50.0, 75.0, 100.0]
    [star] = [line for line in returns.get_lines() if line.get_marker() == "*"]
    assert (np.asarray(star.get_xdata()).tolist(), np.asarray(star.get_ydata()).tolist()) == ([100_000], [100.0])


def test_a_collapse_at_the_end_shows_in_the_short_mean(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", FOUR, updates=5, episodes=0)
    lines = [f"{100 * n},{-50.0 if n > 390 else 200.0},100" for n in range(1, 401)]
    (path / "episodes.csv").write_text("\n".join(["step,return,length", *lines]) + "\n")
    _, short, long = panels_of(picture_of(read_run(path)))[0].get_lines()
    assert np.asarray(short.get_ydata())[-1] == -50.0
    assert np.asarray(long.get_ydata())[-1] == (30 * 200.0 + 10 * -50.0) / 40


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
    every = np.ones(8)
    share, edges = target_shares(selection, 3, 2, every)
    np.testing.assert_allclose(edges, [0, 400, 800])
    np.testing.assert_allclose(share, [[0.5, 0.25], [0.5, 0.5], [0.0, 0.25]])
    weighted, _ = target_shares(selection, 3, 2, np.array([1.0, 1.0, 2.0, 4.0, 1.0, 1.0, 1.0, 3.0]))
    np.testing.assert_allclose(weighted, [[2 / 8, 1 / 6], [6 / 8, 4 / 6], [0.0, 1 / 6]])
    share, edges = target_shares(selection, 3, 8, every)
    np.testing.assert_allclose(share, (target[None, :] == np.arange(3)[:, None]).astype(float))
    first = Selections(step[:1], target[:1], np.ones((1, 3)), np.ones((1, 3)), selected[:1])
    share, edges = target_shares(first, 3, 1, every[:1])
    np.testing.assert_allclose(edges, [0, 100])
    np.testing.assert_allclose(share, [[1.0], [0.0], [0.0]])


def test_the_running_mean_is_of_the_last_episodes() -> None:
    values = np.array([1.0, 3.0, 8.0, 4.0])
    np.testing.assert_allclose(running_mean(values, 2), [1.0, 2.0, 5.5, 6.0])
    np.testing.assert_allclose(running_mean(values, 1), values)
    np.testing.assert_allclose(running_mean(values, 9), [1.0, 2.0, 4.0, 4.0])
    windows = [running_windows(n) for n in (1, 9, 10, 100, 199, 200, 400, 5000)]
    assert windows == [[], [], [10], [10], [10], [10, 20], [10, 40], [10, 100]]


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


def discount_panel(path: Path) -> Axes:
    figure = picture_of(read_run(path))
    (found,) = [axes for axes in figure.axes if axes.get_ylabel() == "discount γ"]
    return found


def test_the_discount_of_the_target_member_is_drawn(tmp_path: Path) -> None:
    members = tuple(Hyperparameters(hidden=(8,), discount=discount) for discount in (0.9, 0.99, None))
    path = write_run(tmp_path / "run", members, updates=4)
    path.joinpath("config.yaml").write_text("{algo: adadqn, env: LunarLander-v3, seed: 3, settings: {gamma: 0.95}}\n")
    run = read_run(path)
    panel = discount_panel(path)
    (line,) = panel.lines
    expected = [(0.9, 0.99, 0.95)[target] for target in run.selection.target]
    assert len(set(expected)) > 1, "the target must change"
    np.testing.assert_array_equal(line.get_xydata(), np.column_stack([run.selection.step, expected]))
    assert panel.get_title("left") == "discount of the target member"
    assert panel.texts[0].get_text() == f"{expected[-1]:.6g} at the end"


def test_a_learned_discount_is_drawn(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", (Hyperparameters(hidden=(8,)),), updates=4)
    rows = ["time/total_timesteps,train/discount", "1000,", "2000,0.98", "3000,0.985"]
    path.joinpath("progress.csv").write_text("\n".join(rows) + "\n")
    panel = discount_panel(path)
    (line,) = panel.lines
    np.testing.assert_array_equal(line.get_xydata(), [[2000, 0.98], [3000, 0.985]])
    assert panel.get_title("left") == "discount learned by a meta-gradient"


def test_a_discount_that_cannot_change_has_no_panel(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", grid(hidden=[(8,), (16,)]))
    assert len(picture_of(read_run(path)).axes) == 3
