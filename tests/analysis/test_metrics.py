"""Aggregates of scores against numbers worked out by hand and against scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from adaqn.analysis import (
    auc,
    final_score,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    worst_seed,
)
from adaqn.base.errors import UserError


def test_the_iqm_leaves_out_a_quarter_on_either_side() -> None:
    assert iqm([100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -70.0]) == (2 + 3 + 4 + 5) / 4
    assert iqm([9.0, 1.0, 2.0]) == 4.0  # of three, a quarter is none
    assert iqm([9.0, 1.0, 2.0, 4.0, 30.0]) == (2 + 4 + 9) / 3


@pytest.mark.parametrize("n", range(1, 14))
def test_the_iqm_is_scipys_trimmed_mean(n: int) -> None:
    scores = np.random.default_rng(n).normal(size=(n, 3, 5)) ** 3
    np.testing.assert_allclose(iqm(scores, axis=0), stats.trim_mean(scores, 0.25, axis=0), rtol=1e-12)
    np.testing.assert_allclose(iqm(scores), stats.trim_mean(scores.ravel(), 0.25), rtol=1e-12)
    pool = scores.reshape(n * 3, 5)
    np.testing.assert_allclose(iqm(scores, axis=(0, 1)), stats.trim_mean(pool, 0.25, axis=0), rtol=1e-12)


def test_a_missing_score_is_not_trimmed_away() -> None:
    assert np.isnan(iqm([1.0, 2.0, 3.0, np.nan]))
    assert iqm([[1.0, np.nan], [3.0, 3.0]], axis=0).tolist()[0] == 2.0


def test_median_mean_and_optimality_gap() -> None:
    scores = [[0.2, 1.5], [0.4, 0.9]]
    assert median(scores) == pytest.approx(0.65)
    assert mean(scores) == pytest.approx(0.75)
    assert mean(scores, axis=1).tolist() == pytest.approx([0.85, 0.65])
    # Only what is below the threshold falls short of it: 0.8, 0, 0.6, 0.1.
    assert optimality_gap(scores) == pytest.approx(1.5 / 4)
    assert optimality_gap(scores, threshold=2.0) == pytest.approx((1.8 + 0.5 + 1.6 + 1.1) / 4)


def test_the_area_is_a_mean_over_steps() -> None:
    curve = [1.0, 3.0, 5.0, 7.0]
    assert auc(curve) == 4.0
    assert auc(curve, epochs=2) == 2.0
    assert auc(curve, epochs=2.5) == pytest.approx((1 + 3 + 5 / 2) / 2.5)
    assert auc(np.transpose([curve, curve]), axis=0).tolist() == [4.0, 4.0]
    assert final_score(curve) == 7.0
    with pytest.raises(UserError, match="more than 0 and at most 4 epochs, but got 5"):
        auc(curve, epochs=5)


def test_the_worst_seed_has_the_smallest_area_over_all_tasks() -> None:
    scores = np.array(
        [
            [[0.0, 0.0, 0.0], [9.0, 9.0, 9.0]],  # fails at one task only: 4.5
            [[5.0, 5.0, -9.0], [5.0, 5.0, 5.0]],  # has the lowest final score: 16 / 6
            [[2.0, 2.0, 2.0], [3.0, 3.0, 3.0]],  # 2.5
        ]
    )
    assert worst_seed(scores) == 2
    with pytest.raises(UserError, match="three axes"):
        worst_seed(scores[0])


def test_a_profile_is_the_share_of_runs_above_each_threshold() -> None:
    assert performance_profile([[0.0], [1.0], [2.0], [2.0]], [-1.0, 0.0, 1.0, 2.0]).tolist() == [1.0, 0.75, 0.5, 0.0]
    uneven = [np.array([1.0, 1.0, 1.0]), np.array([0.0])]
    assert performance_profile(uneven, [0.5]).tolist() == [0.5]  # tasks count the same, whatever their runs


def test_the_probability_of_improvement_by_hand() -> None:
    # Task 0: 2 beats 1, ties with 2; 3 beats both: 3.5 of 4. Task 1: 0 of 4.
    x, y = [[2.0, 0.0], [3.0, 0.0]], [[1.0, 5.0], [2.0, 5.0]]
    assert probability_of_improvement(x, y) == pytest.approx((3.5 / 4 + 0.0) / 2)
    assert probability_of_improvement(y, x) == pytest.approx(1 - (3.5 / 4) / 2)


def test_the_probability_of_improvement_is_scipys_u() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 6, (9, 3)).astype(float), rng.integers(0, 6, (7, 3)).astype(float)
    u = [stats.mannwhitneyu(x[:, task], y[:, task]).statistic / (9 * 7) for task in range(3)]
    assert probability_of_improvement(x, y) == pytest.approx(np.mean(u), abs=1e-12)


def test_infinite_scores_have_their_rank() -> None:
    # Two runs that failed alike are a tie, as for ranks; 1 beats both of Y: (½ + 0 + 1 + 1) / 4.
    x, y = [[-np.inf], [1.0]], [[-np.inf], [0.0]]
    assert probability_of_improvement(x, y) == pytest.approx(2.5 / 4)
    assert stats.mannwhitneyu(np.ravel(x), np.ravel(y)).statistic / 4 == pytest.approx(2.5 / 4)


def test_a_missing_score_is_not_a_defeat() -> None:
    x, y = [[np.nan], [1.0]], [[0.0], [0.0]]
    assert np.isnan(probability_of_improvement(x, y)) and np.isnan(probability_of_improvement(y, x))


@pytest.mark.parametrize("statistic", [iqm, median, mean, optimality_gap])
def test_axes_are_those_of_numpy(statistic: Any) -> None:
    scores = np.arange(6.0).reshape(2, 3)
    assert statistic(scores, axis=np.int64(-1)).shape == (2,)
    with pytest.raises(ValueError, match="axis 3 is out of bounds"):
        statistic(scores, axis=3)


def test_scores_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(UserError, match=r"one score per task, but there are scores of the shape \(4,\)"):
        probability_of_improvement(np.ones((3, 2, 4)), np.ones((3, 2, 4)))
    with pytest.raises(UserError, match=r"one score per task, but there are scores of the shape \(4,\)"):
        performance_profile(np.ones((3, 2, 4)), [0.0, 0.5, 1.0, 2.0])
    with pytest.raises(UserError, match=r"a list of one NumPy array \[runs"):
        performance_profile([[1.0, 2.0], [3.0]], [0.0])
    with pytest.raises(UserError, match="X has 1 and Y has 2"):
        probability_of_improvement([[1.0]], [[1.0, 2.0]])
    with pytest.raises(UserError, match="at least one task with at least one run"):
        performance_profile([], [0.0])
    with pytest.raises(UserError, match="at least one score"):
        iqm([])
