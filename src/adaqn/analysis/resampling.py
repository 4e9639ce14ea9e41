"""Stratified bootstrap: runs are drawn anew within each task, and a statistic is computed from each such draw.

The intervals are percentile intervals. The same seed gives the same draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adaqn.analysis.metrics import (
    Floats,
    by_task,
    iqm,
    mean,
    performance_profile,
    pooled,
    probability_of_improvement,
    require_same_tasks,
    single_scores,
    wins,
)
from adaqn.base.errors import UserError

RESAMPLES = 2000
CONFIDENCE = 0.95
_CHUNK = 4_000_000  # scores that are held at a time


class Statistic(Protocol):
    """An aggregate over an axis, such as `iqm`, `median`, `mean` or `numpy.max`."""

    def __call__(self, scores: Floats, /, *, axis: int) -> ArrayLike:
        """The statistic over the axis."""
        ...


class Interval(NamedTuple):
    """A statistic of all runs, and the bounds between which the middle of its bootstrap distribution lies."""

    value: Floats  # [...]
    low: Floats  # [...]
    high: Floats  # [...]


def bootstrap(
    scores: ArrayLike | Sequence[ArrayLike],
    statistic: Statistic = iqm,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Floats:
    """The statistic of each resample, over all runs of all tasks. `scores` [runs, tasks, ...] -> [resamples, ...]

    A resample has as many runs of each task as there are, drawn with replacement from those of the task, independently
    of the other tasks. A run is drawn with its whole curve.
    """
    _require_resamples(resamples)
    tasks = by_task(scores)
    drawn = _draws([len(task) for task in tasks], resamples, seed)
    rest = tasks[0].shape[1:]
    # The runs last: sorting them, which most statistics do, is quick along contiguous memory.
    runs = np.ascontiguousarray(np.moveaxis(np.concatenate(tasks), 0, -1)).reshape(-1, drawn.shape[1])
    result = np.empty((resamples, len(runs)))
    step = max(1, _CHUNK // max(1, runs.size))
    for first in range(0, resamples, step):
        part = drawn[first : first + step]
        resampled = np.take(runs, part, axis=1)  # [rest, part, runs]
        result[first : first + step] = np.asarray(statistic(resampled, axis=-1)).T
    return result.reshape(resamples, *rest)


def interval(
    scores: ArrayLike | Sequence[ArrayLike],
    statistic: Statistic = iqm,
    then: Callable[[Floats], ArrayLike] | None = None,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """A statistic with its percentile interval, pointwise where the scores are curves.

    `then` is a function of the statistic's last axis, such as `auc` for the area under the curve of the IQM.
    """
    value, draws = _value_and_draws(scores, statistic, then, resamples, seed)
    return Interval(value, *percentile_bounds(draws, confidence))


def difference(
    x: ArrayLike | Sequence[ArrayLike],
    y: ArrayLike | Sequence[ArrayLike],
    statistic: Statistic = iqm,
    then: Callable[[Floats], ArrayLike] | None = None,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """The statistic of X minus that of Y; the runs of both are drawn independently of each other."""
    require_same_tasks(by_task(x), by_task(y))
    own, own_draws = _value_and_draws(x, statistic, then, resamples, _seed(seed, 0))
    other, other_draws = _value_and_draws(y, statistic, then, resamples, _seed(seed, 1))
    return Interval(own - other, *percentile_bounds(own_draws - other_draws, confidence))


def improvement(
    x: ArrayLike | Sequence[ArrayLike],
    y: ArrayLike | Sequence[ArrayLike],
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """Probability of improvement of X over Y, averaged over tasks, with its interval. `x`, `y` [runs, tasks]"""
    value = probability_of_improvement(x, y)
    _require_resamples(resamples)
    totals = np.zeros(resamples)
    tasks = list(zip(by_task(x), by_task(y), strict=True))
    for index, (own, other) in enumerate(tasks):
        # A resample is how often each run was drawn: its share of the pairs is a product.
        mine = _counts(len(own), resamples, _seed(seed, 2 * index))
        theirs = _counts(len(other), resamples, _seed(seed, 2 * index + 1))
        totals += np.einsum("bn,nm,bm->b", mine, wins(own, other), theirs, optimize=True) / (len(own) * len(other))
    return Interval(np.asarray(value), *percentile_bounds(totals / len(tasks), confidence))


def profile(
    scores: ArrayLike | Sequence[ArrayLike],
    thresholds: ArrayLike,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """The performance profile with its pointwise interval, each task counting the same. [thresholds]"""
    tau = np.asarray(thresholds, np.float64)
    tasks = single_scores(scores)
    above = [(task[:, None] > tau).astype(np.float64) for task in tasks]
    draws = [bootstrap([task], mean, resamples, _seed(seed, index)) for index, task in enumerate(above)]
    return Interval(performance_profile(tasks, tau), *percentile_bounds(np.mean(draws, axis=0), confidence))


def percentile_bounds(draws: Floats, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """The bounds of the middle of the draws along the first axis."""
    if not 0.0 < confidence < 1.0:
        raise UserError(f"confidence must be between 0 and 1, but it is {confidence}")
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(draws, [tail, 100.0 - tail], axis=0)
    return np.asarray(low), np.asarray(high)


def _value_and_draws(
    scores: ArrayLike | Sequence[ArrayLike],
    statistic: Statistic,
    then: Callable[[Floats], ArrayLike] | None,
    resamples: int,
    seed: int,
) -> tuple[Floats, Floats]:
    """The statistic of all runs [...] and of each resample [resamples, ...]."""
    value = np.asarray(statistic(np.moveaxis(pooled(scores), 0, -1), axis=-1), np.float64)
    draws = bootstrap(scores, statistic, resamples, seed)
    if then is not None:
        value, draws = np.asarray(then(value), np.float64), np.asarray(then(draws), np.float64)
    return value, draws


def _require_resamples(resamples: int) -> None:
    if resamples < 1:
        raise UserError(f"resamples must be at least 1, but it is {resamples}")


def _draws(sizes: Sequence[int], resamples: int, seed: int) -> NDArray[np.intp]:
    """Which of the runs of all tasks, one after the other, make up each resample. [resamples, runs of all tasks]"""
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *sizes[:-1]])
    parts = [start + rng.integers(0, size, (resamples, size)) for start, size in zip(starts, sizes, strict=True)]
    return np.concatenate(parts, axis=1)


def _counts(runs: int, resamples: int, seed: int) -> Floats:
    """How often each run is in each resample. [resamples, runs]"""
    return np.random.default_rng(seed).multinomial(runs, np.full(runs, 1.0 / runs), size=resamples).astype(np.float64)


def _seed(seed: int, index: int) -> int:
    """A seed of its own for each of several draws."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])
