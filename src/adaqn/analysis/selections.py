"""Which members were selected how often, and which values of their hyperparameters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adaqn.analysis.figures.evolution import NUMBERS, WORDS
from adaqn.analysis.loading import StudyRun
from adaqn.analysis.metrics import Floats
from adaqn.analysis.study import Arm
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.display.labels import member_labels, number_label
from adaqn.runs.display.standings import selection_weights
from adaqn.runs.reading import member_of


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
