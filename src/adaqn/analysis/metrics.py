"""Metrics of learning curves: per epoch, over seeds and tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.typing import ArrayLike, NDArray

from adaqn.base.errors import UserError

Floats = NDArray[np.float64]
Axis = int | tuple[int, ...] | None

TRIM = 0.25  # of the scores that the IQM leaves out on either side


def by_task(scores: ArrayLike | Sequence[ArrayLike]) -> list[Floats]:
    """One array `[runs, ...]` for each task, of `[runs, tasks, ...]`, of `[runs]` (one task), or of such arrays."""
    if isinstance(scores, (list, tuple)) and all(isinstance(task, np.ndarray) for task in scores):
        tasks = [np.asarray(task, np.float64) for task in scores]
    else:
        try:
            whole = np.asarray(scores, np.float64)
        except ValueError as error:
            raise UserError(
                "scores must be numbers [runs, tasks, ...] or, where tasks have different numbers of runs, a list of "
                f"one NumPy array [runs, ...] for each task, but: {error}"
            ) from None
        tasks = (
            [whole] if whole.ndim == 1 else [whole[:, index] for index in range(whole.shape[1])] if whole.ndim else []
        )
    if not tasks or any(task.ndim == 0 or len(task) == 0 for task in tasks):
        raise UserError("scores must have at least one task with at least one run, but got none")
    if len({task.shape[1:] for task in tasks}) > 1:
        shapes = ", ".join(str(task.shape) for task in tasks)
        raise UserError(f"the tasks must have scores of the same shape behind the runs, but got {shapes}")
    return tasks


def pooled(scores: ArrayLike | Sequence[ArrayLike]) -> Floats:
    """All runs of all tasks one after the other. [runs of all tasks, ...]"""
    return np.concatenate(by_task(scores))


def iqm(scores: ArrayLike, axis: Axis = None) -> Floats:
    """Interquartile mean: the mean of the middle half of the scores, over all axes or the given ones.

    As `scipy.stats.trim_mean(scores, 0.25)`: of n scores, the ⌊n/4⌋ lowest and as many highest are left out. NaN where
    one of the scores is NaN.
    """
    values = _last(scores, axis)
    n = values.shape[-1]
    if n == 0:
        raise UserError("the IQM needs at least one score, but got none")
    cut = int(TRIM * n)
    ordered = np.sort(values, axis=-1)  # NaN comes last
    middle = ordered[..., cut : n - cut].mean(axis=-1)
    return np.where(np.isnan(ordered[..., -1]), np.nan, middle)


def median(scores: ArrayLike, axis: Axis = None) -> Floats:
    """The median over all axes or the given ones."""
    return np.asarray(np.median(_last(scores, axis), axis=-1))


def mean(scores: ArrayLike, axis: Axis = None) -> Floats:
    """The mean over all axes or the given ones."""
    return np.asarray(np.mean(_last(scores, axis), axis=-1))


def optimality_gap(scores: ArrayLike, threshold: float = 1.0, axis: Axis = None) -> Floats:
    """How far the scores fall short of a threshold on average: mean of max(threshold - score, 0). Lower is better."""
    return np.asarray(np.mean(np.maximum(threshold - _last(scores, axis), 0.0), axis=-1))


def auc(curve: ArrayLike, epochs: float | None = None, axis: int = -1) -> Floats:
    """Area under a curve of epoch means, divided by the number of epochs, so that it has the unit of a score.

    A score is the mean over an epoch, so the integral is a sum. With `epochs`, only the first so many count; a part of
    an epoch counts as a part of its score.
    """
    values = np.moveaxis(np.asarray(curve, np.float64), axis, -1)
    n = values.shape[-1]
    until = float(n) if epochs is None else float(epochs)
    if not 0.0 < until <= n:
        raise UserError(f"the area must be that of more than 0 and at most {n} epochs, but got {until:g}")
    weights = np.clip(until - np.arange(math.ceil(until)), 0.0, 1.0)
    return np.asarray(values[..., : len(weights)] @ weights / until, np.float64)


def final_score(curve: ArrayLike, axis: int = -1) -> Floats:
    """The score of the last epoch."""
    return np.take(np.asarray(curve, np.float64), -1, axis=axis)


def worst_seed(scores: ArrayLike) -> int:
    """The run with the lowest area under its curve, averaged over tasks. `scores` [runs, tasks, epochs]"""
    whole = np.asarray(scores, np.float64)
    if whole.ndim != 3:
        raise UserError(f"scores must have three axes, runs, tasks and epochs, but their shape is {whole.shape}")
    return int(np.argmin(auc(whole.mean(axis=1))))


def performance_profile(scores: ArrayLike | Sequence[ArrayLike], thresholds: ArrayLike) -> Floats:
    """Share of the runs, each task counting the same, whose score is above each threshold. [thresholds]"""
    tau = np.asarray(thresholds, np.float64)
    return np.mean([(task[:, None] > tau).mean(axis=0) for task in single_scores(scores)], axis=0)


def probability_of_improvement(x: ArrayLike | Sequence[ArrayLike], y: ArrayLike | Sequence[ArrayLike]) -> float:
    """How likely a run of X has a higher score than one of Y on the same task, averaged over tasks.

    For n runs of X and m of Y it is the Mann-Whitney U statistic divided by nm; a tie counts one half. NaN where one of
    the scores is NaN.
    """
    mine, theirs = single_scores(x), single_scores(y)
    require_same_tasks(mine, theirs)
    return float(np.mean([wins(own, other).mean() for own, other in zip(mine, theirs, strict=True)]))


def single_scores(scores: ArrayLike | Sequence[ArrayLike]) -> list[Floats]:
    """One array [runs] for each task; curves are refused."""
    tasks = by_task(scores)
    if tasks[0].ndim != 1:
        raise UserError(
            f"each run must have one score per task, but there are scores of the shape {tasks[0].shape[1:]}: "
            "take an epoch or an area of each curve first"
        )
    return tasks


def require_same_tasks(x: Sequence[Floats], y: Sequence[Floats]) -> None:
    """Refuse sides that cannot be compared task by task."""
    if len(x) != len(y):
        raise UserError(f"both must have the same tasks, but X has {len(x)} and Y has {len(y)}")
    if x[0].shape[1:] != y[0].shape[1:]:
        raise UserError(
            f"both must have scores of the same shape behind the runs, but X has {x[0].shape[1:]} and Y has "
            f"{y[0].shape[1:]}"
        )


def wins(x: Floats, y: Floats) -> Floats:
    """1 where a run of X has the higher score, ½ at a tie, NaN where one of them is. [n, m]"""
    own, other = x[:, None], y[None, :]
    return np.where(np.isnan(own) | np.isnan(other), np.nan, (own > other) + 0.5 * (own == other))


def _last(scores: ArrayLike, axis: Axis) -> Floats:
    """The scores with the axes that are aggregated as one at the end. [..., n]"""
    values = np.asarray(scores, np.float64)
    if axis is None:
        return values.reshape(-1)
    axes = normalize_axis_tuple(axis, values.ndim)
    kept = [a for a in range(values.ndim) if a not in axes]
    moved = np.transpose(values, [*kept, *axes])
    return moved.reshape(*(values.shape[a] for a in kept), -1)


LEAST_EPOCHS = 20  # of the shortest run, where no epoch is given
# What the paper's figures average over, where runs have at least ten of them.
_PAPER = (("LunarLander", 10_000), ("Atari/", 250_000))


def returns_per_epoch(step: ArrayLike, total: ArrayLike, epoch: int, epochs: int) -> Floats:
    """The mean return of the episodes that end in each epoch. [epochs]

    Epoch e holds the steps (e · epoch, (e + 1) · epoch]. An epoch in which no episode ends has the value of the one
    before it: nothing newer is known of the policy. Before the first episode has ended, it is that episode which was
    being played, so those epochs have the value of the first one that has any, or, if the first episode ends behind all
    epochs, its return. Without episodes all are NaN.
    """
    if epoch < 1 or epochs < 1:
        raise UserError(f"there must be at least one epoch of at least one step, but got {epochs} of {epoch}")
    index, values = (np.asarray(step, np.int64) - 1) // epoch, np.asarray(total, np.float64)
    inside = (index >= 0) & (index < epochs)
    if len(values) and not inside.any():
        return np.full(epochs, values[0])
    index, values = index[inside], values[inside]
    counts = np.bincount(index, minlength=epochs)
    sums = np.bincount(index, values, minlength=epochs)
    known = np.flatnonzero(counts)
    if len(known) == 0:
        return np.full(epochs, np.nan)
    last_known = known[np.maximum(np.searchsorted(known, np.arange(epochs), side="right") - 1, 0)]
    return sums[last_known] / counts[last_known]


def usual_epoch(steps: int, environment: str = "") -> int:
    """The length of an epoch for runs of so many steps.

    It is the paper's for its environments, if that makes ten or more epochs, and otherwise the longest of 1, 2, 5, 10,
    20, 50, ... steps that makes twenty or more.
    """
    for name, epoch in _PAPER:
        if environment.startswith(name) and steps >= 10 * epoch:
            return epoch
    most = max(1, steps // LEAST_EPOCHS)
    power = 10 ** (len(str(most)) - 1)
    return max(factor * power for factor in (1, 2, 5) if factor * power <= most)
