"""Training returns averaged per epoch, so that runs whose episodes end at different steps share one axis of steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from adaqn.analysis.metrics import Floats
from adaqn.errors import UserError

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
