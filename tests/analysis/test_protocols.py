"""Grid and random search, running maxima and SEARL's extremes, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from adaqn.analysis import grid_search, random_search, running_maximum
from adaqn.analysis.protocols import member_extremes
from adaqn.runs.reading import Evaluations

# Two sets, two runs, three epochs.
SCORES = np.array([[[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]], [[0.0, 6.0, 1.0], [0.0, 8.0, 3.0]]])


def test_grid_search_has_the_best_set_at_each_epoch() -> None:
    found = grid_search(SCORES)
    assert found.chosen.tolist() == [0, 1, 0]  # means 2 > 0, 3 < 7, 4 > 2
    assert found.scores.tolist() == [[1.0, 6.0, 3.0], [3.0, 8.0, 5.0]]


def test_grid_search_chooses_by_the_iqm() -> None:
    steady, lucky = [[5.0], [5.0], [5.0], [5.0]], [[0.0], [4.0], [4.0], [100.0]]
    assert grid_search(np.array([steady, lucky])).chosen.tolist() == [0]  # the mean would choose the other


def test_grid_search_reports_on_other_runs_than_it_chooses_by() -> None:
    tuning = np.array([[[0.0, 9.0, 9.0]], [[5.0, 0.0, 0.0]]])
    found = grid_search(SCORES, tuning)
    assert found.chosen.tolist() == [1, 0, 0]
    assert found.scores.tolist() == [[0.0, 2.0, 3.0], [0.0, 4.0, 5.0]]


def test_one_trial_of_random_search_is_the_mean_over_the_sets() -> None:
    np.testing.assert_allclose(random_search(SCORES, trials=1), SCORES.mean(axis=0), rtol=1e-12)
    # 8! sequences are too many to go through; each set still comes first equally often.
    eight = np.random.default_rng(0).normal(size=(8, 2, 3)) * 100.0
    np.testing.assert_allclose(random_search(eight, trials=1, sequences=50), eight.mean(axis=0), rtol=1e-9)


def test_later_trials_count_when_they_beat_the_finished_ones() -> None:
    # Run 0, set 0 first: 1 2 3, then set 1 is at 0 (3 counts), 6 (counts), 1 (3 counts). Set 1 first: 0 6 1, then set
    # 0 is at 1 (not above 1: the finished one counts, also 1), 2, 3.
    found = random_search(SCORES[:, :1], trials=2)[0]
    assert found.tolist() == np.array([[1, 2, 3, 3, 6, 3], [0, 6, 1, 1, 2, 3]]).mean(axis=0).tolist()


def test_a_sequence_never_tries_a_set_twice() -> None:
    flat = np.array([[[1.0]], [[2.0]], [[3.0]]])
    # After as many trials as there are sets, the best has been among them for certain.
    assert random_search(flat, trials=3, sequences=500)[0, -1] == 3.0
    assert random_search(flat, trials=9, sequences=500).shape == (1, 3)
    # Best of two different ones: 2, 3, 3.
    assert random_search(flat, trials=2)[0, -1] == pytest.approx(8 / 3, rel=1e-12)
    # By Monte Carlo: the best of two of ten, 1 to 10, is 11 · 2 / 3 in expectation.
    ten = np.arange(1.0, 11.0)[:, None, None]
    assert random_search(ten, trials=2, sequences=40_000)[0, -1] == pytest.approx(22 / 3, abs=0.05)


def test_random_search_chooses_by_the_tuning_runs() -> None:
    scores = np.array([[[10.0]], [[2.0]]])
    tuning = np.array([[[0.0]], [[1.0]]])  # the wrong way round: what looks best there is worse here
    assert random_search(scores, trials=2, tuning=tuning, sequences=100)[0, -1] == 2.0
    assert random_search(scores, trials=2, sequences=100)[0, -1] == 10.0


def test_a_set_without_a_score_is_not_the_best() -> None:
    missing = np.array([[[np.nan, np.nan]], [[-5.0, -4.0]]])
    assert grid_search(missing).chosen.tolist() == [1, 1]
    found = random_search(missing, trials=2)[0]
    # Half of the sequences begin with it, so the expectation is missing, and not one with a return of 0 in its place.
    assert np.isnan(found[:2]).all()
    # The other set has been tried by the end of all of them.
    assert found[-1] == -4.0
    failed = np.array([[[-np.inf]], [[-5.0]]])
    assert random_search(failed, trials=2)[0].tolist() == [-np.inf, -5.0]


def test_random_search_can_be_repeated() -> None:
    np.testing.assert_array_equal(random_search(SCORES, 2, seed=1), random_search(SCORES, 2, seed=1))


def test_a_running_maximum_never_falls() -> None:
    assert running_maximum(np.array([[1.0, 3.0, 2.0], [5.0, 4.0, 6.0]])).tolist() == [[1.0, 3.0, 3.0], [5.0, 5.0, 6.0]]


def test_the_best_and_the_worst_member_of_each_round() -> None:
    rows = [
        (100, 0, 0, 10.0), (120, 0, 0, 20.0), (150, 0, 1, 40.0),  # means 15 and 40
        (200, 1, 0, 8.0), (250, 1, 1, 3.0),
        (290, 2, 0, 99.0),  # the run ended before the other one was evaluated
    ]  # fmt: skip
    step, generation, member, total = (np.array(column) for column in zip(*rows, strict=True))
    found = member_extremes(Evaluations(step, generation, member, total, np.ones(len(rows), np.int64)))
    assert found.step.tolist() == [150, 250]
    assert found.highest.tolist() == [40.0, 8.0]
    assert found.lowest.tolist() == [15.0, 3.0]
