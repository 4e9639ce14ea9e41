"""Bootstrap intervals: what is drawn, that it can be repeated, and how often the truth is covered."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from adaqn.analysis import auc, bootstrap, difference, improvement, interval, iqm, mean, performance_profile, profile
from adaqn.base.errors import UserError


def test_runs_are_drawn_within_their_task() -> None:
    # All runs of a task are equal, so whatever is drawn is the same.
    scores = np.array([[1.0, 50.0, -7.0]] * 6)
    assert set(bootstrap(scores, mean, resamples=50)) == {44.0 / 3}
    # Were runs drawn from all tasks, the second column would come up more or less often than six times.


def test_a_resample_has_every_run_equally_often_on_average() -> None:
    own = np.eye(5)[:, None, :]  # run i has 1 at place i: the mean is the share of each run
    draws = bootstrap(own, mean, resamples=4000)
    assert draws.shape == (4000, 5)
    np.testing.assert_allclose(draws.sum(axis=1), 1.0)
    np.testing.assert_allclose(draws.mean(axis=0), 0.2, atol=0.01)
    # Multinomial: n p (1 - p) / n² with n = 5, p = 1/5.
    np.testing.assert_allclose(draws.var(axis=0), 0.2 * 0.8 / 5, rtol=0.1)


def test_tasks_are_drawn_independently_of_one_another() -> None:
    scores = np.random.default_rng(0).normal(size=(8, 2))
    scores[:, 1] = scores[:, 0]
    single = bootstrap(scores[:, :1], mean, 4000).var()
    # Drawn together, the variance of the mean over both tasks would be that of one.
    assert bootstrap(scores, mean, 4000).var() == pytest.approx(single / 2, rel=0.1)


def test_a_seed_gives_the_same_draws_and_another_does_not() -> None:
    scores = np.random.default_rng(0).normal(size=(5, 3, 4))
    np.testing.assert_array_equal(bootstrap(scores, seed=3), bootstrap(scores, seed=3))
    assert (bootstrap(scores, seed=3) != bootstrap(scores, seed=4)).any()


def test_a_run_is_drawn_with_its_whole_curve() -> None:
    scores = np.random.default_rng(0).normal(size=(7, 2, 1))
    draws = bootstrap(np.concatenate([scores, -scores], axis=2), iqm, resamples=200)
    np.testing.assert_allclose(draws[:, 0], -draws[:, 1])


def test_chunks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(0).normal(size=(5, 3, 4))
    whole = bootstrap(scores, resamples=101)
    monkeypatch.setattr("adaqn.analysis.resampling._CHUNK", 1000)
    np.testing.assert_array_equal(bootstrap(scores, resamples=101), whole)


def test_tasks_may_have_different_numbers_of_runs() -> None:
    tasks = [np.full((2, 3), 1.0), np.full((4, 3), 7.0)]
    assert bootstrap(tasks, mean, resamples=10).tolist() == [[5.0] * 3] * 10
    with pytest.raises(UserError, match="same shape behind the runs"):
        bootstrap([np.ones((2, 3)), np.ones((2, 4))])


def test_bounds_are_percentiles_of_the_draws() -> None:
    scores = np.random.default_rng(1).gamma(2.0, size=(10, 2))
    draws = bootstrap(scores, iqm, 500, seed=5)
    found = interval(scores, iqm, resamples=500, seed=5)
    assert found.value == pytest.approx(stats.trim_mean(scores.ravel(), 0.25))
    np.testing.assert_allclose([found.low, found.high], np.percentile(draws, [2.5, 97.5]), rtol=1e-12)


def test_the_area_of_the_iqm_is_not_the_iqm_of_the_areas() -> None:
    scores = np.random.default_rng(1).normal(size=(9, 2, 6)) ** 3
    found = interval(scores, iqm, then=auc, resamples=300)
    assert found.value == pytest.approx(stats.trim_mean(scores.reshape(18, 6), 0.25).mean())
    assert found.value != pytest.approx(iqm(auc(scores)))
    draws = bootstrap(scores, iqm, 300).mean(axis=1)
    np.testing.assert_allclose([found.low, found.high], np.percentile(draws, [2.5, 97.5]), rtol=1e-12)


@pytest.mark.parametrize(("confidence", "least", "most"), [(0.95, 0.915, 0.965), (0.5, 0.43, 0.54)])
def test_intervals_cover_the_truth_as_often_as_they_say(confidence: float, least: float, most: float) -> None:
    # 1500 studies of 20 seeds on 3 tasks at once, on the last axis. By symmetry the IQM of each population is its mean.
    centres = np.array([-3.0, 0.0, 3.0])
    # Between the tasks lie gaps, so the pooled IQM is that of the middle task with the inner quarters of the others;
    # around 0 it is symmetric.
    scores = centres[:, None] + np.random.default_rng(0).normal(size=(20, 3, 1500))
    found = interval(scores, iqm, resamples=400, confidence=confidence)
    assert least < np.mean((found.low <= 0.0) & (found.high >= 0.0)) < most


def test_differences_have_the_variance_of_both() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(1.0, 1.0, (40, 1)), rng.normal(0.0, 1.0, (40, 1))
    found = difference(x, y, mean)
    assert found.value == pytest.approx(x.mean() - y.mean())
    half = 1.96 * np.sqrt(x.var() / 40 + y.var() / 40)
    assert found.high - found.low == pytest.approx(2 * half, rel=0.08)
    # A study against itself: no difference, and an interval around 0, as the draws of the two are not the same.
    same = difference(x, x, mean)
    assert same.value == 0.0 and same.low < 0.0 < same.high


def test_improvement_has_an_interval() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(1.0, 1.0, (30, 2)), rng.normal(0.0, 1.0, (20, 2))
    found = improvement(x, y)
    pairs = [stats.mannwhitneyu(x[:, task], y[:, task]).statistic / 600 for task in (0, 1)]
    assert found.value == pytest.approx(np.mean(pairs))
    # Both samples are drawn anew: the same as recomputing it for resampled runs.
    draws = []
    for _ in range(600):
        own = [rng.choice(x[:, task], 30) for task in (0, 1)]
        other = [rng.choice(y[:, task], 20) for task in (0, 1)]
        draws.append(np.mean([(a[:, None] > b).mean() for a, b in zip(own, other, strict=True)]))
    np.testing.assert_allclose([found.low, found.high], np.percentile(draws, [2.5, 97.5]), atol=0.012)


def test_improvement_has_the_value_of_ranks_and_keeps_missing_scores() -> None:
    found = improvement([[-np.inf]], [[-np.inf]])
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)
    assert np.isnan(improvement([[np.nan], [1.0]], [[0.0]])).all()


def test_sides_with_different_tasks_or_epochs_are_refused() -> None:
    with pytest.raises(UserError, match="X has 6 and Y has 3"):
        difference(np.ones((5, 6)), np.ones((5, 3)))
    with pytest.raises(UserError, match=r"X has \(20,\) and Y has \(10,\)"):
        difference(np.ones((5, 1, 20)), np.ones((5, 1, 10)), then=auc)


def test_the_band_of_a_profile_is_around_it_whatever_the_numbers_of_runs() -> None:
    # Eight runs above the threshold in one task, two below it in the other: each task counts one half.
    uneven = [np.ones(8), np.zeros(2)]
    found = profile(uneven, [0.5])
    assert [found.value.tolist(), found.low.tolist(), found.high.tolist()] == [[0.5]] * 3
    # A resample of the second task has none, one or both of its runs above: (1 + 0) / 2, (1 + ½) / 2 or 1.
    mixed = profile([np.ones(8), np.array([0.0, 1.0])], [0.5])
    assert (mixed.value.item(), mixed.low.item(), mixed.high.item()) == (0.75, 0.5, 1.0)
    tau = np.linspace(-1.0, 1.0, 5)
    scores = np.random.default_rng(0).normal(size=(6, 3))
    np.testing.assert_allclose(profile(scores, tau).value, performance_profile(scores, tau))


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(UserError, match="resamples must be at least 1"):
        improvement([[1.0]], [[0.0]], resamples=0)
    with pytest.raises(UserError, match="resamples must be at least 1"):
        bootstrap([[1.0]], resamples=0)
    with pytest.raises(UserError, match="between 0 and 1, but it is 95"):
        interval([[1.0]], confidence=95)
