"""The results of a study on disk: which arms, seeds and epochs there are, and the scores of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from adaqn.analysis.scores import StudyScores
from adaqn.analysis.study import read_results
from adaqn.base.errors import UserError
from tests.analysis.study_files import THREE, write_run, write_study


def test_arms_come_from_directories_with_the_adaptive_one_first(tmp_path: Path) -> None:
    study = read_results(write_study(tmp_path / "lander"))
    assert [arm.name for arm in study.arms] == ["adadqn", "randdqn", "dqn-8x8", "dqn-32x32", "dqn-64x64"]
    assert [arm.kind for arm in study.arms] == ["ensemble", "ensemble", "single", "single", "single"]
    assert [arm.label for arm in study.arms[1:3]] == ["RandDQN", "DQN 8x8"]
    assert study.main is study.arms[0]
    assert study.name == "lander"
    assert [arm.name for arm in study.grid] == ["dqn-8x8", "dqn-32x32", "dqn-64x64"]
    assert study.epoch == 50 and study.common_epochs == 20


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("sac-lr-1e-4", "SAC lr 1e-4"),
        ("sac-tanh-lr-1.5e-6", "SAC tanh lr 1.5e-6"),
        ("dqn-discount-0.985", "DQN discount 0.985"),
        ("adadqn-true-2", "AdaDQN true 2"),
        ("dqn-32e-large", "DQN 32e large"),
        ("no-exploration", "no-exploration"),
    ],
)
def test_hyphens_between_words_are_spaces_but_not_those_of_exponents(tmp_path: Path, name: str, label: str) -> None:
    write_run(tmp_path / "s", name, "CartPole-v1", 0, [0.0])
    assert read_results(tmp_path / "s").arms[0].label == label


def test_a_definition_gives_order_choices_and_tuning_seeds(tmp_path: Path) -> None:
    root = write_study(tmp_path / "s", seeds=(0, 1))
    for member in THREE:
        label = "x".join(map(str, member.hidden))
        write_run(root, f"dqn-{label}", "CartPole-v1", 100, [1.0] * 10, algo="dqn", members=[member])
    (root / "study.yaml").write_text(
        "name: mine\ntuning_seeds: [100, 101]\nchoices: {grid-search: [dqn-8x8, dqn-64x64]}\n"
        "arms: {randdqn: {}, adadqn: {}, dqn-64x64: {}, missing: {}}\n"
    )
    study = read_results(root, epoch=100)
    assert study.name == "mine"
    assert [arm.name for arm in study.arms] == ["randdqn", "adadqn", "dqn-64x64", "dqn-32x32", "dqn-8x8"]
    assert study.main is not None and study.main.name == "adadqn"
    assert [arm.name for arm in study.grid] == ["dqn-64x64", "dqn-8x8"]
    single = study.grid[0]
    assert [run.seed for run in single.runs] == [0, 1] and [run.seed for run in single.tuning_runs] == [100]
    assert "missing has no finished run" in study.left_out


def test_unfinished_runs_are_left_out_and_named(tmp_path: Path) -> None:
    root = write_study(tmp_path / "s", seeds=(0,))
    write_run(root, "adadqn", "CartPole-v1", 7, [1.0] * 3, finished=False)
    study = read_results(root)
    assert study.left_out == ("adadqn/CartPole-v1/7 is not finished",)
    assert [run.seed for run in study.arms[0].runs] == [0]


def test_runs_with_returns_that_are_not_finite_are_left_out_and_named(tmp_path: Path) -> None:
    root = write_study(tmp_path / "s", seeds=(0, 1))
    write_run(root, "broken", "CartPole-v1", 0, [float("nan")] * 10)
    write_run(root, "adadqn", "CartPole-v1", 2, [*[1.0] * 9, float("inf")])
    study = read_results(root)
    assert study.left_out == (
        "adadqn/CartPole-v1/2 has returns that are not finite",
        "broken/CartPole-v1/0 has returns that are not finite",
        "broken has no finished run",
    )
    assert [run.seed for run in study.arms[0].runs] == [0, 1]


def test_arms_that_lack_an_environment_are_not_pooled(tmp_path: Path) -> None:
    root = write_study(tmp_path / "s", ("CartPole-v1", "Acrobot-v1"), seeds=(0,))
    write_run(root, "extra", "CartPole-v1", 0, [1.0] * 10)
    study = read_results(root)
    assert study.left_out == ("extra does not have runs in every environment",)
    assert "extra" not in [series.name for series in StudyScores(study).series]
    assert "extra" in [series.name for series in StudyScores(study.only("CartPole-v1")).series]


def test_studies_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there are no runs in"):
        read_results(tmp_path)
    write_run(tmp_path / "s", "adadqn", "CartPole-v1", 0, [1.0] * 3, finished=False)
    with pytest.raises(UserError, match=r"no run in .* is finished"):
        read_results(tmp_path / "s")
    write_run(tmp_path / "t", "adadqn", "CartPole-v1", 0, [1.0] * 3)
    with pytest.raises(UserError, match=r"runs of several studies \(s, t\)"):
        read_results(tmp_path)
    with pytest.raises(UserError, match="1 to 300 steps, as the shortest run has, but got 301"):
        read_results(tmp_path / "t", epoch=301)
    (tmp_path / "t" / "study.yaml").write_text("tuning_seeds: 5\n")
    with pytest.raises(UserError, match="must be a list of whole numbers, but got 5"):
        read_results(tmp_path / "t")


def test_scores_are_the_returns_of_each_epoch(tmp_path: Path) -> None:
    write_run(tmp_path / "s", "adadqn", "CartPole-v1", 0, [10.0, 20.0, 30.0])
    write_run(tmp_path / "s", "adadqn", "CartPole-v1", 1, [12.0, 22.0, 32.0, 99.0])
    scores = StudyScores(read_results(tmp_path / "s", epoch=100))
    (series,) = scores.series
    # As many epochs as the shortest run has.
    assert [task.tolist() for task in series.scores] == [[[10.0, 20.0, 30.0], [12.0, 22.0, 32.0]]]
    assert series.steps.tolist() == [100.0, 200.0, 300.0]
    assert series.area().value == 21.0
    assert series.area(steps=150).value == pytest.approx((11.0 + 21.0 / 2) / 1.5)
    assert series.until(250).final[0].tolist() == [20.0, 22.0]
    assert series.worst.tolist() == [10.0, 20.0, 30.0]
    assert scores.scale.label == "return"


def test_a_search_is_reported_as_its_running_maximum(tmp_path: Path) -> None:
    write_run(
        tmp_path / "s", "dehb", "CartPole-v1", 0, [10.0, 30.0, 20.0], algo="dehb", members=THREE[:1], space="vectors"
    )
    (series,) = StudyScores(read_results(tmp_path / "s", epoch=100)).series
    assert series.arm is not None and series.arm.kind == "search"
    assert series.scores[0].tolist() == [[10.0, 30.0, 30.0]]


def test_a_population_has_its_best_and_its_worst_member(tmp_path: Path) -> None:
    evaluations = [(60, 0, 0, 5.0), (120, 0, 1, 9.0), (180, 1, 0, 7.0), (240, 1, 1, 2.0)]
    write_run(
        tmp_path / "s",
        "searl",
        "CartPole-v1",
        0,
        [0.0, 0.0, 0.0],
        algo="searl",
        space="vectors",
        evaluations=evaluations,
    )
    highest, lowest = StudyScores(read_results(tmp_path / "s", epoch=100)).series
    assert (highest.label, lowest.label) == ("SEARL-max", "SEARL-min")
    # Rounds end at steps 120 and 240; before the first, its own value counts.
    assert highest.scores[0].tolist() == [[9.0, 9.0, 7.0]]
    assert lowest.scores[0].tolist() == [[5.0, 5.0, 2.0]]


def test_pooled_environments_are_normalized(tmp_path: Path) -> None:
    for name, low, high in (("Atari-Pong", -20.7, 14.6), ("Atari-Boxing", 0.1, 12.1)):
        env = name.replace("-", "/")
        write_run(tmp_path / "s", "adadqn", name, 0, [low, high], env=env)
    (series,) = (scores := StudyScores(read_results(tmp_path / "s", epoch=100))).series
    np.testing.assert_allclose(np.concatenate(series.scores), [[0.0, 1.0], [0.0, 1.0]], atol=1e-12)
    assert scores.scale.label == "score (human-normalized)"
    pong = StudyScores(read_results(tmp_path / "s", epoch=100).only("Atari/Pong"))
    np.testing.assert_allclose(pong.series[0].scores[0], [[-20.7, 14.6]])  # one environment: plain returns


def test_grid_and_random_search_are_made_of_common_seeds(tmp_path: Path) -> None:
    root = tmp_path / "s"
    write_run(root, "dqn-a", "CartPole-v1", 0, [1.0, 5.0], algo="dqn", members=THREE[:1])
    write_run(root, "dqn-a", "CartPole-v1", 1, [9.0, 9.0], algo="dqn", members=THREE[:1])
    write_run(root, "dqn-b", "CartPole-v1", 0, [2.0, 4.0], algo="dqn", members=THREE[1:2])
    found = StudyScores(read_results(root, epoch=100)).searches
    assert found is not None and found.same_seeds
    assert found.grid.scores[0].tolist() == [[2.0, 5.0]] and found.grid.steps.tolist() == [200.0, 400.0]
    assert found.chosen == {"CartPole-v1": ["dqn-b", "dqn-a"]}
    np.testing.assert_allclose(found.random.scores[0][0, :2], [1.5, 4.5], atol=0.1)
    assert found.random.steps.tolist() == [100.0, 200.0, 300.0, 400.0]


def test_searches_choose_on_tuning_seeds_where_there_are_some(tmp_path: Path) -> None:
    root = tmp_path / "s"
    for seed, first, second in ((0, 1.0, 5.0), (100, 9.0, 2.0)):
        write_run(root, "dqn-a", "CartPole-v1", seed, [first] * 2, algo="dqn", members=THREE[:1])
        write_run(root, "dqn-b", "CartPole-v1", seed, [second] * 2, algo="dqn", members=THREE[1:2])
    (root / "study.yaml").write_text("tuning_seeds: [100]\narms: {dqn-a: {}, dqn-b: {}}\n")
    found = StudyScores(read_results(root, epoch=100)).searches
    assert found is not None and not found.same_seeds
    # The seed that chooses prefers a, which has 1 on the seed that is reported.
    assert found.grid.scores[0].tolist() == [[1.0, 1.0]]
    assert found.random.scores[0][0, -1] == 1.0
