"""The discount of a run's target over time: that of the target member, or the one that the run learns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from adaqn.analysis.metrics import Floats
from adaqn.runs.reading import RunData, member_of


class Discounts(NamedTuple):
    """Discounts at n steps of a run."""

    step: Floats  # [n]
    value: Floats  # [n]
    learned: bool  # by the run itself, rather than that of one of its members


def discounts_of(run: RunData) -> Discounts | None:
    """The discounts of a run in which the discount can change; None for other runs.

    Runs of earlier versions have no column for it in selection.csv: it follows from the members, or is in the logs.
    """
    progress, selection = run.progress, run.selection
    history = [(line["step"], [member_of(values).discount for values in line["members"]]) for line in run.members]
    of_members = {discount for _, members in history for discount in members}
    if selection.discount is not None:
        return Discounts(selection.step.astype(np.float64), selection.discount, learned=len(of_members) < 2)
    tags = [tag for tag in progress if tag.endswith("/discount")]
    if tags:
        known = np.isfinite(progress[tags[0]])
        return Discounts(progress["time/total_timesteps"][known], progress[tags[0]][known], True)
    if len(of_members) < 2 or not len(selection.step):
        return None
    gamma = float((run.config.get("settings") or {}).get("gamma", np.nan))
    # A target update at the step of a generation chose among the members that came out of it.
    place = np.searchsorted([step for step, _ in history], selection.step, side="right") - 1
    chosen = [history[at][1][target] for at, target in zip(place, selection.target, strict=True)]
    values = [gamma if discount is None else discount for discount in chosen]
    return Discounts(selection.step.astype(np.float64), np.asarray(values), False)
