"""Which member was target and which acted, over time and over all seeds: the numbers behind the stacked bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from adaqn.analysis.loading import StudyRun
from adaqn.analysis.metrics import Floats
from adaqn.analysis.study import Arm
from adaqn.runs.labels import member_labels
from adaqn.runs.standings import selection_weights


class Distribution(NamedTuple):
    """Shares of K members in equal stretches of steps; where there was none, all are 0."""

    edges: Floats  # [bins + 1] environment steps
    target: Floats  # [bins, K] of the target updates
    behaviour: Floats  # [bins, K] of the actions, or of the updates of the actor


def distribution(runs: Sequence[StudyRun], bins: int) -> Distribution:
    """The distribution of the selected members across runs, each run counting the same. [bins, K]

    A row of selection.csv tells of the steps since the row before it, and counts for all bins that these reach into.
    """
    members = runs[0].data.selection.loss.shape[1]
    edges = np.linspace(0.0, max(run.steps for run in runs), bins + 1)
    target, behaviour = np.zeros((bins, members)), np.zeros((bins, members))
    for run in runs:
        selection = run.data.selection
        pair = run.data.sums_up_selections
        began = int(run.config["settings"].get("learning_starts", 0)) if pair else 0
        knots = np.concatenate([[float(min(began, selection.step[0] - 1))], selection.step])
        weights = selection_weights(run.data)[:, None]
        # Of a pair, a row has shares of its updates; of the others, the number of actions.
        acted = selection.acted * weights if pair else selection.acted
        target += shares_of(spread(knots, selection.selected * weights, edges))
        behaviour += shares_of(spread(knots, acted, edges))
    return Distribution(edges, shares_of(target), shares_of(behaviour))


def spread(knots: Floats, values: Floats, edges: Floats) -> Floats:
    """Amounts [n, K] that accrue evenly between n + 1 knots, as they fall into bins. [bins, K]"""
    totals = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    return np.diff(np.stack([np.interp(edges, knots, total) for total in totals.T], axis=1), axis=0)


def shares_of(totals: Floats) -> Floats:
    """Amounts of each bin as shares of their sum; where that is 0, all are 0."""
    return totals / np.maximum(totals.sum(axis=1, keepdims=True), 1e-300)


def has_selections(arm: Arm) -> bool:
    """Whether the members of an arm are the same in all runs and from start to end, and target updates were made."""
    return (
        arm.kind == "ensemble"
        and not arm.infinite
        and len(arm.members) > 1
        and all(len(run.data.selection.step) and run.config.get("members") == arm.config["members"] for run in arm.runs)
    )


def labels_of(arm: Arm) -> list[str]:
    """Short names of the members."""
    return member_labels(arm.members)
