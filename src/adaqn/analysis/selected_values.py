"""Which values of the hyperparameters were selected in a space, over time and over all seeds.

Members from a space differ between runs and generations, so the values of the target members' hyperparameters are
counted instead of the members.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adaqn.analysis.figures.evolution import NUMBERS, WORDS
from adaqn.analysis.loading import StudyRun
from adaqn.analysis.metrics import Floats
from adaqn.analysis.selections import shares_of, spread
from adaqn.analysis.study import Arm
from adaqn.hyperparameters import Hyperparameters
from adaqn.runs.labels import number_label
from adaqn.runs.reading import member_of
from adaqn.runs.standings import selection_weights

MOST_RANGES = 6  # of a number: the stretch between its smallest and its largest value is divided into so many


class ValueShares(NamedTuple):
    """Shares of the V values of one hyperparameter in equal stretches of steps; where there was none, all are 0."""

    edges: Floats  # [bins + 1] environment steps
    values: tuple[str, ...]  # [V] words, or ranges of a number
    shares: Floats  # [bins, V] of the target updates


def has_evolution(arm: Arm) -> bool:
    """Whether the members of an arm come from a space and change, and target updates were made in all runs."""
    return (
        arm.kind in ("ensemble", "population")
        and arm.infinite
        and all(len(run.data.selection.step) and run.data.members for run in arm.runs)
    )


def value_distributions(runs: Sequence[StudyRun], bins: int) -> dict[str, ValueShares]:
    """The hyperparameters of the target members across runs, each run counting the same.

    Only those in which members differ; values that were never selected are left out.
    """
    edges = np.linspace(0.0, max(run.steps for run in runs), bins + 1)
    histories = [_members_over_time(run) for run in runs]
    everyone = [member for history in histories for _, members in history for member in members]
    found = {}
    for name, of in (WORDS | NUMBERS).items():
        names, class_of = _classes(name, [of(member) for member in everyone])
        if len(names) < 2:
            continue
        totals = np.zeros((bins, len(names)))
        for run, history in zip(runs, histories, strict=True):
            classes = [np.array([class_of(of(member)) for member in members]) for _, members in history]
            steps = [step for step, _ in history]
            totals += shares_of(spread(*_selected_classes(run, steps, classes, len(names)), edges))
        ever = totals.sum(axis=0) > 0.0
        selected = tuple(value for value, chosen in zip(names, ever, strict=True) if chosen)
        found[name] = ValueShares(edges, selected, shares_of(totals[:, ever]))
    return found


def _members_over_time(run: StudyRun) -> list[tuple[int, list[Hyperparameters]]]:
    """The members from each generation on."""
    return [(line["step"], [member_of(values) for values in line["members"]]) for line in run.data.members]


def _selected_classes(
    run: StudyRun, steps: list[int], classes: Sequence[np.ndarray], count: int
) -> tuple[Floats, Floats]:
    """The steps between rows of selection.csv, and the target updates of each row by class of value. [n + 1], [n, V]"""
    selection = run.data.selection
    began = int(run.config["settings"].get("learning_starts", 0)) if run.data.sums_up_selections else 0
    knots = np.concatenate([[float(min(began, selection.step[0] - 1))], selection.step])
    weights = selection_weights(run.data)
    # A target update at the step of a generation chose among the members that came out of it.
    place = np.searchsorted(steps, selection.step, side="right") - 1
    amounts = np.zeros((len(selection.step), count))
    for row, at in enumerate(place):
        np.add.at(amounts[row], classes[at], selection.selected[row] * weights[row])
    return knots, amounts


def _classes(name: str, values: Sequence[Any]) -> tuple[tuple[str, ...], Callable[[Any], int]]:
    """The names of the classes of values, and the class of a value: words as they are, numbers in a few ranges."""
    distinct = sorted({value for value in values if value == value})
    unset = ["default"] if any(value != value for value in values) else []  # nan: the setting of the run
    if name in WORDS or len(distinct) <= MOST_RANGES:
        shown = [value if isinstance(value, str) else number_label(value) for value in distinct]
        order = {value: index for index, value in enumerate(distinct)}
        return (*shown, *unset), lambda value: order.get(value, len(distinct))
    spaced = np.geomspace if name == "learning rate" else np.linspace
    bounds = spaced(distinct[0], distinct[-1], MOST_RANGES + 1)
    shown = [number_label(float(f"{bound:.3g}")) for bound in bounds]
    ranges = [f"{low} to {high}" for low, high in itertools.pairwise(shown)]

    def range_of(value: float) -> int:
        if value != value:
            return MOST_RANGES
        return int(np.clip(np.searchsorted(bounds, value, side="right") - 1, 0, MOST_RANGES - 1))

    return (*ranges, *unset), range_of
