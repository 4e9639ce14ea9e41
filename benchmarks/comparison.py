"""The numbers of `versus`: final score, area under the curve, and the two verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.learning_curve import Curve

EPOCHS = 20  # of 5 % of the steps each
LAST_SHARE = 0.2
AUC_TOLERANCE = 0.1


class Score(NamedTuple):
    """The final return and AUC of one run."""

    seed: int
    final: float  # mean return of the last 20 % of its episodes
    auc: float  # mean over the epochs of the mean return in each


class Verdict(NamedTuple):
    """Our scores and the peer's; the final score is not comparable with fewer than three runs in all."""

    ours_final: float
    peer_final: float
    pooled_sd: float  # NaN if both sides have one seed
    final_error: float  # standard error of the difference between the sides; NaN if either has one seed
    ours_auc: float
    peer_auc: float
    auc_error: float
    final_holds: bool
    auc_holds: bool


def final_return(curve: Curve) -> float:
    """The mean return of the last 20 % of the episodes (at least one episode)."""
    returns = [episode.total for episode in curve.episodes]
    return float(np.mean(returns[-math.ceil(LAST_SHARE * len(returns)) :]))


def epoch_returns(curve: Curve) -> np.ndarray:
    """The mean return of the episodes that ended in each epoch. [EPOCHS]

    An epoch without a finished episode repeats the previous value; epochs before the first finished episode have that
    episode's return.
    """
    epochs: list[list[float]] = [[] for _ in range(EPOCHS)]
    for episode in curve.episodes:
        # Steps count from 1: the last step of an epoch still belongs to it.
        epochs[(episode.step - 1) * EPOCHS // curve.steps].append(episode.total)
    means: list[float] = []
    known = curve.episodes[0].total if not epochs[0] else 0.0
    for returns in epochs:
        known = float(np.mean(returns)) if returns else known
        means.append(known)
    return np.array(means)


def score(curve: Curve) -> Score:
    """The final return and AUC of one run."""
    return Score(curve.seed, final_return(curve), float(epoch_returns(curve).mean()))


def pooled_deviation(first: Sequence[float], second: Sequence[float]) -> float:
    """The standard deviation within the two samples, pooled by their degrees of freedom."""
    freedom = len(first) + len(second) - 2
    if freedom == 0:
        return math.nan
    squares = sum(float(np.sum((np.array(sample) - np.mean(sample)) ** 2)) for sample in (first, second))
    return math.sqrt(squares / freedom)


def difference_error(first: Sequence[float], second: Sequence[float]) -> float:
    """The standard error of the difference between the means of two samples."""
    if min(len(first), len(second)) < 2:
        return math.nan
    return math.sqrt(sum(float(np.var(sample, ddof=1)) / len(sample) for sample in (first, second)))


def verdict(ours: Sequence[Score], peer: Sequence[Score]) -> Verdict:
    """Whether our final return is within one pooled deviation of the peer's, and our AUC at least 0.9 of the peer's.

    0.9 of a negative AUC would require MORE than the peer's, so the tolerance is a distance: 10 % of the magnitude of
    the peer's AUC. If that is positive, the limit is exactly 0.9 of it.
    """
    ours_final, peer_final = _mean(run.final for run in ours), _mean(run.final for run in peer)
    ours_auc, peer_auc = _mean(run.auc for run in ours), _mean(run.auc for run in peer)
    deviation = pooled_deviation([run.final for run in ours], [run.final for run in peer])
    return Verdict(
        ours_final,
        peer_final,
        deviation,
        difference_error([run.final for run in ours], [run.final for run in peer]),
        ours_auc,
        peer_auc,
        difference_error([run.auc for run in ours], [run.auc for run in peer]),
        final_holds=ours_final >= peer_final - deviation,  # False with NaN
        auc_holds=ours_auc >= peer_auc - AUC_TOLERANCE * abs(peer_auc),
    )


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
