"""Every figure type on synthetic studies: what it shows, and that nothing is cut off, too small or drawn over."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from adaqn.analysis.drawing import draw_study
from adaqn.analysis.figures import figure_types
from adaqn.analysis.figures.discount import discount_curve
from adaqn.analysis.figures.radar import settings_of
from adaqn.analysis.figures.training_time import training_hours
from adaqn.analysis.page import NotDrawn, Page
from adaqn.analysis.scores import StudyScores
from adaqn.analysis.selections import distribution
from adaqn.analysis.study import read_results
from adaqn.analysis.style import RC
from adaqn.base.errors import UserError
from adaqn.cli import main
from adaqn.members.hyperparameters import Hyperparameters, grid
from tests.analysis.study_files import THREE, rising, write_run, write_study

SIXTEEN = grid(
    hidden=[(256, 256), (512, 512)], activation=["relu", "sigmoid"], optimizer=["adam", "rmsprop"],
    learning_rate=[5e-4, 1e-3],
)  # fmt: skip
ENVIRONMENTS = ("Ant-v5", "HalfCheetah-v5", "HumanoidStandup-v5", "Walker2d-v5")


def page_of(root: Path) -> Page:
    return Page(StudyScores(read_results(root)))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Page]:
    root = tmp_path_factory.mktemp("studies")
    infinite = root / "infinite"
    for seed in (0, 1):
        for period in (50, 100):
            for generation in (500, 1000):
                settings = {"target_update_interval": period, "generation_interval": generation}
                name, level = f"t{period}-m{generation}", float(period + generation)
                write_run(
                    infinite, f"adadqn-{name}", "CartPole-v1", seed, rising(level, seed), settings=settings,
                    space="vectors", generations=4,
                )  # fmt: skip
                rounds = [(250 * g + 100 * m, g, m, level * g + m) for g in range(3) for m in range(3)]
                write_run(
                    infinite, f"searl-{name}", "CartPole-v1", seed, rising(level, seed), algo="searl",
                    settings=settings, space="vectors", evaluations=rounds,
                )  # fmt: skip
        write_run(infinite, "dehb", "CartPole-v1", seed, rising(99.0, seed), algo="dehb", space="vectors")
    generations = {"tournament": {}, "truncation": {"exploit": "truncation"}, "reset": {"reset_weights": True}}
    for name, changes in generations.items():
        settings = {"exploit": "tournament", "reset_weights": False, "buffer_size": 10_000} | changes
        for environment in ("CartPole-v1", "Acrobot-v1"):
            write_run(
                root / "generations", name, environment, 0, rising(100.0, 0), settings=settings, space="vectors",
                generations=2,
            )  # fmt: skip
    many = root / "many"
    for environment in ENVIRONMENTS:
        write_run(many, "adadqn", environment, 0, rising(200.0, 0), members=SIXTEEN)
        for index, member in enumerate(SIXTEEN):
            write_run(many, f"dqn-{index}", environment, 0, rising(10.0 * index, 0), algo="dqn", members=[member])
    for seed in (0, 1):
        members = grid(discount=[0.9, 0.95, 0.99])
        write_run(root / "discount", "adadqn", "CartPole-v1", seed, rising(100.0, seed), members=members)
    write_study(root / "finite")
    write_study(root / "two", ("CartPole-v1", "Acrobot-v1"))
    return {name: page_of(root / name) for name in sorted(one.name for one in root.iterdir())}


DRAWN = {
    "curves": ("finite", "many", "infinite"),
    "search": ("finite", "many"),
    "selection": ("finite", "many"),
    "environments": ("two", "many"),
    "ranking": ("finite", "many"),
    "intervals": ("finite", "two", "infinite"),
    "profiles": ("finite", "infinite"),
    "radar": ("infinite", "generations"),
    "evolution": ("infinite",),
    "discount": ("discount",),
    "training_time": ("finite", "infinite"),
}


def test_every_figure_type_is_looked_at_here() -> None:
    assert set(figure_types()) == set(DRAWN)


CASES = [
    pytest.param(name, study, marks=[pytest.mark.thorough] if index or study == "many" else [])
    for name, studies in DRAWN.items()
    for index, study in enumerate(studies)
]


@pytest.mark.parametrize(("name", "study"), CASES)
def test_nothing_is_cut_off_too_small_or_over_a_panel(name: str, study: str, pages: dict[str, Page]) -> None:
    with matplotlib.rc_context(RC):
        figure = figure_types()[name](pages[study])
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw(renderer)
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    assert isinstance(figure, Figure) and len(texts) > 4
    whole = figure.bbox
    for text in drawn_texts(figure, texts):
        extent = text.get_window_extent(renderer)
        assert float(text.get_fontsize()) >= 7.0, text.get_text()
        assert extent.x0 >= whole.x0 - 1 and extent.x1 <= whole.x1 + 1, text.get_text()
        assert extent.y0 >= whole.y0 - 1 and extent.y1 <= whole.y1 + 1, text.get_text()
    assert figure.get_figwidth() <= 5.5
    panels = [axes.get_window_extent(renderer) for axes in figure.axes]
    assert all(panel.width > 60 and panel.height > 40 for panel in panels)
    for legend in figure.legends:
        box = legend.get_window_extent(renderer)
        assert not any(box.overlaps(panel) for panel in panels)
        assert box.x0 >= whole.x0 - 1 and box.x1 <= whole.x1 + 1


def drawn_texts(figure: Figure, texts: list[Text]) -> list[Text]:
    """Texts that show: the labels of ticks outside of the limits of their axis do not."""
    hidden: set[int] = set()
    for axes in figure.axes:
        if axes.name == "polar":
            continue
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low <= tick.get_loc() <= high or not tick.label1.get_visible():
                    hidden.add(id(tick.label1))
    return [text for text in texts if id(text) not in hidden]


def test_an_arm_has_the_same_colour_in_every_figure(pages: dict[str, Page]) -> None:
    page = pages["two"]
    colours = {look.colour for name, look in page.looks.items() if not name.startswith("dqn")}
    assert len(colours) == 4  # two arms, grid and random search
    with matplotlib.rc_context(RC):
        figures = {name: figure_types()[name](page) for name in ("curves", "environments", "profiles", "training_time")}
    for figure in figures.values():
        drawn = {to_rgb(line.get_color()) for axes in figure.axes for line in axes.lines}
        assert page.looks["adadqn"].colour in drawn and page.looks["randdqn"].colour in drawn


def test_single_sets_are_darker_the_better_they_are(pages: dict[str, Page]) -> None:
    lightness = [sum(pages["finite"].looks[name].colour) for name in ("dqn-8x8", "dqn-32x32", "dqn-64x64")]
    assert lightness == sorted(lightness, reverse=True)


def test_curves_show_the_iqm_and_its_interval(pages: dict[str, Page]) -> None:
    page = pages["finite"]
    with matplotlib.rc_context(RC):
        left, right = figure_types()["curves"](page).axes
    assert len(left.lines) == 4 and len(right.lines) == 2  # three sets and the adaptive arm; the two ensembles
    main = page.scores.main
    assert main is not None
    np.testing.assert_array_equal(left.lines[-1].get_ydata(), main.curve.value)


def test_the_sets_are_beside_the_adaptive_arm_wherever_it_is_listed(tmp_path: Path) -> None:
    root = write_study(tmp_path / "s", seeds=(0,))
    (root / "study.yaml").write_text("arms: {randdqn: {}, adadqn: {}}\n")
    page = page_of(root)
    with matplotlib.rc_context(RC):
        left, _ = figure_types()["curves"](page).axes
    assert to_rgb(left.lines[-1].get_color()) == page.looks["adadqn"].colour


def test_grid_search_is_drawn_at_the_steps_of_all_its_runs(pages: dict[str, Page]) -> None:
    with matplotlib.rc_context(RC):
        (axes,) = figure_types()["search"](pages["finite"]).axes
    ends = [np.asarray(line.get_xdata())[-1] for line in axes.lines]
    assert sorted(ends) == [1000.0, 1000.0, 3000.0, 3000.0, 3000.0]  # two of them are worst seeds


def test_the_distribution_of_targets_by_hand(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path / "s", "adadqn", "CartPole-v1", seed, [0.0, 0.0, 0.0])
    runs = read_results(tmp_path / "s").arms[0].runs
    found = distribution(runs, bins=3)
    assert found.edges.tolist() == [0.0, 100.0, 200.0, 300.0]
    # Targets of seed 0 at steps 50, 100, ...: 1 2 | 0 1 | 2 0; of seed 1: 2 0 | 1 2 | 0 1.
    np.testing.assert_allclose(found.target, [[0.25, 0.25, 0.5], [0.25, 0.5, 0.25], [0.5, 0.25, 0.25]])
    # The target took 18 of 50 actions, the others 16 each.
    np.testing.assert_allclose(found.behaviour[0], [16.5 / 50, 16.5 / 50, 17.0 / 50])


def test_a_row_counts_for_all_bins_that_it_tells_of(tmp_path: Path) -> None:
    path = write_run(tmp_path / "s", "adadqn", "CartPole-v1", 0, [0.0, 0.0, 0.0], members=THREE[:2])
    # 100 actions of the first member until step 100, then as many of the second until 200, and nothing after that.
    rows = ["step,target,loss_0,loss_1,acted_0,acted_1", "100,0,1,2,100,0", "200,1,2,1,0,100"]
    path.joinpath("selection.csv").write_text("\n".join(rows) + "\n")
    found = distribution(read_results(tmp_path / "s").arms[0].runs, bins=4)  # of 75 steps
    np.testing.assert_allclose(found.behaviour, [[1.0, 0.0], [1 / 3, 2 / 3], [0.0, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose(found.target, found.behaviour)


def test_discounts_are_those_of_the_target_member(tmp_path: Path) -> None:
    members = (*grid(discount=[0.5, 0.9]), *THREE[:1])
    write_run(tmp_path / "s", "adadqn", "CartPole-v1", 0, [0.0, 0.0], members=members)
    run = read_results(tmp_path / "s").arms[0].runs[0]
    # Targets 1, 2, 0, 1; the third member has the discount of the run, 0.99.
    np.testing.assert_allclose(discount_curve(run, 100, 2), [(0.9 + 0.99) / 2, (0.5 + 0.9) / 2])


def test_a_learned_discount_is_that_of_the_progress_and_its_run_is_no_candidate_of_grid_search(tmp_path: Path) -> None:
    study = tmp_path / "s"
    write_run(study, "adadqn", "CartPole-v1", 0, [0.0, 0.0])
    write_run(study, "dqn", "CartPole-v1", 0, [0.0, 0.0], algo="dqn", members=THREE[:1])
    learned = write_run(study, "metagradient", "CartPole-v1", 0, [0.0, 0.0], algo="metagradient", members=THREE[:1])
    rows = ["time/total_timesteps,train/discount", "40,0.5", "80,0.7", "120,0.9", "200,"]
    (learned / "progress.csv").write_text("\n".join(rows) + "\n")
    found = read_results(study)
    arms = {arm.name: arm for arm in found.arms}
    np.testing.assert_allclose(discount_curve(arms["metagradient"].runs[0], 100, 2), [0.6, 0.9])
    assert [arm.name for arm in found.grid] == ["dqn"]
    assert arms["metagradient"].label == "Meta-gradient DQN" and found.main is arms["adadqn"]


@pytest.mark.parametrize("rates", [(4e-5, 4e-4), (3e-4, 3.6e-4), (1e-5, 1e-2), (1e-3, 1.1e-3)])
def test_learning_rates_have_a_few_labels_that_do_not_touch(rates: tuple[float, float], tmp_path: Path) -> None:
    members = grid(learning_rate=list(rates))
    path = write_run(tmp_path / "s", "adadqn", "CartPole-v1", 0, [0.0, 0.0], members=members, space="vectors")
    write_generations(path, {0: members, 100: members})
    with matplotlib.rc_context(RC):
        figure = figure_types()["evolution"](page_of(tmp_path / "s"))
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw(renderer)
    axes = next(axes for axes in figure.axes if axes.get_ylabel() == "learning rate")
    labels = drawn_texts(figure, [text for text in axes.get_yticklabels() if text.get_text()])
    boxes = sorted((text.get_window_extent(renderer) for text in labels), key=lambda box: box.y0)
    assert 2 <= len(boxes) <= 5
    assert all(below.y1 <= above.y0 for below, above in itertools.pairwise(boxes))


def test_a_generation_at_the_end_of_the_run_has_no_row(tmp_path: Path) -> None:
    path = write_run(tmp_path / "s", "adadqn", "CartPole-v1", 0, [0.0, 0.0], members=THREE[:2], space="vectors")
    tanh, selu = (grid(hidden=[(8, 8), (16,)], activation=[name]) for name in ("tanh", "selu"))
    write_generations(path, {0: THREE[:2], 100: tanh, 200: selu})
    with matplotlib.rc_context(RC):
        figure = figure_types()["evolution"](page_of(tmp_path / "s"))
    axes = next(axes for axes in figure.axes if axes.get_ylabel() == "activation")
    assert [text.get_text() for text in axes.get_yticklabels()] == ["relu", "tanh"]
    # Targets at steps 50, 100 and 150: the one at the end of the run affects nothing.
    assert [np.asarray(line.get_xdata()).tolist() for line in axes.lines] == [[50, 100, 150]]
    assert np.asarray(axes.lines[0].get_ydata()).tolist() == [0.0, 1.0, 1.0]


def write_generations(run: Path, generations: dict[int, Sequence[Hyperparameters]]) -> None:
    lines = [
        {"step": step, "generation": index, "members": [member.to_dict() | {"parent": None} for member in members]}
        for index, (step, members) in enumerate(generations.items())
    ]
    (run / "members.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_radar_has_an_axis_for_each_combination_of_settings(pages: dict[str, Page]) -> None:
    settings = settings_of(pages["infinite"].scores.study)
    assert set(settings) == {"adadqn", "searl"}
    assert settings["searl"]["searl-t50-m1000"] == (("target_update_interval", 50), ("generation_interval", 1000))
    with matplotlib.rc_context(RC):
        (axes,) = figure_types()["radar"](pages["infinite"]).axes
    assert len(axes.lines) == 3  # AdaDQN, SEARL-max and SEARL-min
    assert axes.get_xticklabels()[0].get_text() == "T = 100\nM = 1,000"


def test_training_time_is_the_median_over_seeds_and_the_mean_over_environments(tmp_path: Path) -> None:
    for seed, seconds in enumerate([3600.0, 7200.0, 1e6]):  # the last one was suspended
        write_run(tmp_path / "s", "adadqn", "CartPole-v1", seed, [0.0, 0.0], seconds=seconds)
    hours = training_hours(read_results(tmp_path / "s").arms[0], 100, 2)
    assert hours is not None and hours.tolist() == [1.0, 2.0]
    write_run(tmp_path / "s", "adadqn", "Acrobot-v1", 0, [0.0, 0.0], seconds=4 * 3600.0)
    hours = training_hours(read_results(tmp_path / "s").arms[0], 100, 2)
    assert hours is not None and hours.tolist() == [1.5, 3.0]


@pytest.mark.parametrize(
    ("name", "study", "reason"),
    [
        ("search", "infinite", "two or more arms with one set"),
        ("selection", "infinite", "no arm has several members that stay the same"),
        ("environments", "finite", "one environment only"),
        ("ranking", "infinite", "two or more arms with one set"),
        ("radar", "finite", "three or more combinations of settings"),
        ("evolution", "finite", "went through a generation"),
        ("discount", "finite", "different discounts"),
    ],
)
def test_figures_without_data_say_why(name: str, study: str, reason: str, pages: dict[str, Page]) -> None:
    with pytest.raises(NotDrawn, match=reason):
        figure_types()[name](pages[study])


def simple(page: Page) -> Figure:
    figure = Figure()
    figure.subplots().plot(page.scores.series[0].curve.value)
    return figure


def absent(page: Page) -> Figure:
    raise NotDrawn("of the weather")


def test_figures_are_written_twice_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    types = {"good": simple, "bad": absent}
    monkeypatch.setattr("adaqn.analysis.drawing.figure_types", lambda: types)
    root = write_study(tmp_path / "s", seeds=(0,))
    out = root / "figures"
    assert draw_study(root).not_drawn == {"bad": "of the weather"}
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert sorted(before) == ["good.pdf", "good.png", "summary.csv", "summary.json"]
    assert before["good.png"].startswith(b"\x89PNG") and before["good.pdf"].startswith(b"%PDF")
    draw_study(root)  # what adaqn drew is replaced, and the same data give the same bytes
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    for name, content in before.items():
        (out / name).write_bytes(b"{}" if name.endswith("json") else b"mine")
        with pytest.raises(UserError, match=rf"{name} exists, but is no file that adaqn drew.*--force"):
            draw_study(root)
        (out / name).write_bytes(content)
    types["good"] = absent
    (out / "bad.png").write_bytes(b"mine")
    draw_study(root, force=True)
    # Old figures do not outlive their data, but nothing that others made is removed.
    assert sorted(path.name for path in out.iterdir()) == ["bad.png", "summary.csv", "summary.json"]


def test_the_command_says_what_was_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {"curves": simple, "radar": figure_types()["radar"]}
    monkeypatch.setattr("adaqn.analysis.drawing.figure_types", lambda: chosen)
    root = write_study(tmp_path / "s", seeds=(0, 1))
    write_run(root, "adadqn", "CartPole-v1", 9, [1.0], finished=False)
    assert main(["figures", str(root), "-o", str(tmp_path / "out"), "--epoch", "100"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "AdaDQN" in text and "epochs of 100 steps, over 1,000 steps" in text
    assert "left out: adadqn/CartPole-v1/9 is not finished" in text
    assert "drawn: curves" in text and "not drawn: radar: a radar plot needs" in text
    assert "chose on the seeds that they are reported on" in text
    assert (tmp_path / "out" / "curves.pdf").is_file()
    assert main(["figures", str(tmp_path / "nowhere")]) == 1
    assert "there is no directory" in capsys.readouterr().err
