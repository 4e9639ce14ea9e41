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
    """The distribution of the selected members across runs, each run counting the same. [bins, K]"""
    members = runs[0].data.selection.loss.shape[1]
    edges = np.linspace(0.0, max(run.steps for run in runs), bins + 1)
    target, behaviour = np.zeros((bins, members)), np.zeros((bins, members))
    for run in runs:
        selection = run.data.selection
        place = np.clip(np.searchsorted(edges, selection.step, side="left") - 1, 0, bins - 1)
        weights = selection_weights(run.data)[:, None]
        for total, values in ((target, selection.selected * weights), (behaviour, selection.acted)):
            own = np.zeros((bins, members))
            np.add.at(own, place, values)
            total += own / np.maximum(own.sum(axis=1, keepdims=True), 1e-300)
    return Distribution(edges, _shares(target), _shares(behaviour))


def _shares(totals: Floats) -> Floats:
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
