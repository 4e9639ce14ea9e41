"""The same statistics as rliable 1.2.0, whose numbers for these scores were computed once, in its own environment."""

from __future__ import annotations

import numpy as np
import pytest

from adaqn.analysis import improvement, interval, iqm, mean, median, optimality_gap, performance_profile

PLACE = np.arange(20 * 6)
X = (np.sin(1.7 * PLACE) + 0.01 * (PLACE % 6) ** 2).reshape(20, 6)
Y = (np.sin(2.3 * PLACE + 1.0) + 0.01 * (PLACE % 6) ** 2).reshape(20, 6)


def test_point_estimates() -> None:
    assert iqm(X) == pytest.approx(0.10098184366103391, rel=1e-12)
    assert mean(X) == pytest.approx(0.09806960014218434, rel=1e-12)
    assert median(mean(X, axis=0)) == pytest.approx(0.05628943752108275, rel=1e-12)  # of the tasks' means
    assert optimality_gap(X) == pytest.approx(0.914402991339483, rel=1e-12)
    np.testing.assert_allclose(performance_profile(X, [-0.5, 0.0, 0.5, 1.0]), [83 / 120, 61 / 120, 47 / 120, 18 / 120])


def test_intervals() -> None:
    # rliable with 20,000 resamples, the last one with 5,000. The widths are 0.40, 0.25, 0.24 and 0.15.
    found = [interval(X, statistic, resamples=20_000) for statistic in (iqm, mean, optimality_gap)]
    found.append(improvement(X, Y, resamples=20_000))
    assert found[-1].value == pytest.approx(0.5058333333333334, rel=1e-12)
    theirs = [(-0.1036, 0.3011), (-0.0274, 0.2235), (0.7924, 1.0370), (0.4304, 0.5817)]
    np.testing.assert_allclose([(one.low, one.high) for one in found], theirs, atol=0.01)
