"""How the paper reports methods that are more than one run: pure functions of arrays of epoch scores.

Grid and random search are made of the individual runs of K sets of hyperparameters: `scores` [K, runs, epochs] in one
task. Every environment step that they would take is counted. Where a set is chosen, `tuning` [K, other runs, epochs]
has the runs to choose by; without it, choosing and reporting use the same runs, as in the paper.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adaqn.analysis.metrics import Floats, iqm
from adaqn.runs.reading import Evaluations

SEQUENCES = 2000  # of sets, drawn for the expectation of random search where there are more than these


class GridSearch(NamedTuple):
    """Grid search in one task, at K times the steps of its runs."""

    chosen: NDArray[np.intp]  # [epochs] the set that is best at each epoch
    scores: Floats  # [runs, epochs] of that set


def grid_search(scores: Floats, tuning: Floats | None = None) -> GridSearch:
    """The scores of the set with the highest IQM at each epoch: k*(t) = argmax_k IQM_j(s_k^j(t)).

    Epoch t has taken K times as many environment steps as one run had by then.
    """
    judged = iqm(scores if tuning is None else tuning, axis=1)
    chosen = np.argmax(np.where(np.isnan(judged), -np.inf, judged), axis=0)  # a set without a score is never the best
    return GridSearch(chosen, scores[chosen, :, np.arange(scores.shape[2])].T)


def random_search(
    scores: Floats, trials: int, tuning: Floats | None = None, sequences: int = SEQUENCES, seed: int = 0
) -> Floats:
    """What a random search over the K sets has in expectation, one trial after the other. [runs, trials · epochs]

    The expectation is over sequences of different sets: over all of them if there are few, and by Monte Carlo
    otherwise. While the first trial goes on, its return counts, so that the curve is the mean over the sets. Later a
    trial counts from when it does better than the best of the finished ones, whose final score counts until then.
    """
    sets, runs, epochs = scores.shape
    trials = min(trials, sets)
    rng = np.random.default_rng(seed)
    orders = _orders(sets, sequences, rng)[:, :trials]
    # What a trial is judged by: the IQM of its set in the tuning runs, or its own return.
    judged = np.broadcast_to(scores if tuning is None else iqm(tuning, axis=1)[:, None, :], scores.shape)
    best_judged = np.full((len(orders), runs), -np.inf)
    best_score = np.full((len(orders), runs), np.nan)
    result = np.empty((runs, trials * epochs))
    for trial in range(trials):
        own, own_judged = scores[orders[:, trial]], judged[orders[:, trial]]  # [sequences, runs, epochs]
        # The first trial counts whatever it does, also if it has failed.
        counts = (own_judged > best_judged[:, :, None]) | (trial == 0)
        shown = np.where(counts, own, best_score[:, :, None])
        result[:, trial * epochs : (trial + 1) * epochs] = shown.mean(axis=0)
        better = counts[:, :, -1]
        best_score = np.where(better, own[:, :, -1], best_score)
        best_judged = np.fmax(np.where(better, own_judged[:, :, -1], best_judged), -np.inf)  # anything beats a NaN
    return result


def _orders(sets: int, sequences: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Sequences of the sets in which each is in each place equally often. [sequences or a few more, sets]"""
    if math.factorial(sets) <= sequences:
        return np.array(list(itertools.permutations(range(sets))), np.intp)
    drawn = rng.permuted(np.tile(np.arange(sets), (-(-sequences // sets), 1)), axis=1)
    return np.concatenate([np.roll(drawn, shift, axis=1) for shift in range(sets)])


def running_maximum(scores: Floats) -> Floats:
    """The highest score so far, max_{t' ≤ t} s(t'), as random search and DEHB are reported. [..., epochs]"""
    return np.fmax.accumulate(scores, axis=-1)


class Extremes(NamedTuple):
    """The best and the worst member at each round of evaluations."""

    step: NDArray[np.int64]  # [rounds] when its last episode ended
    highest: Floats  # [rounds] mean return of the best member: SEARL-max
    lowest: Floats  # [rounds] of the worst one: SEARL-min


def member_extremes(evaluations: Evaluations) -> Extremes:
    """SEARL-max and SEARL-min: in each generation, the highest and the lowest mean return of a member.

    The last generation is left out if the run ended before all members were evaluated.
    """
    rounds = np.unique(evaluations.generation)
    members = len(np.unique(evaluations.member))
    step, highest, lowest = [], [], []
    for number in rounds:
        inside = evaluations.generation == number
        member, total = evaluations.member[inside], evaluations.total[inside]
        means = [total[member == each].mean() for each in np.unique(member)]
        if len(means) < members and number == rounds[-1]:
            continue
        step.append(int(evaluations.step[inside].max()))
        highest.append(max(means))
        lowest.append(min(means))
    return Extremes(np.array(step, np.int64), np.array(highest, np.float64), np.array(lowest, np.float64))
