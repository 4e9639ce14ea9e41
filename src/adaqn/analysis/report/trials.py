"""The trials of a search, in words and as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adaqn.analysis.report.lineage import describe
from adaqn.analysis.report.markup import Cell, Markup, element, joined, table
from adaqn.analysis.report.run_tables import hyperparameter_columns
from adaqn.analysis.summary import rounded
from adaqn.files import Json, json_value
from adaqn.hyperparameters import Hyperparameters
from adaqn.runs.directory import RunDirectory
from adaqn.runs.reading import RunData, member_of, whole_lines

MOST_TRIALS = 300


def is_search(run: RunData) -> bool:
    """Whether a run trains one trial after the other."""
    return RunDirectory(run.path).trials.is_file()


def read_trials(run: RunData) -> list[Json]:
    """The finished trials, best first: longer ones come before shorter ones, as the search itself compares them."""
    path = RunDirectory(run.path).trials
    trials = [json_value(str(path), line) for line in whole_lines(path)]
    return sorted(trials, key=lambda trial: (-trial["fidelity"], -_fitness(trial), trial["number"]))


def trials_words(trials: Sequence[Json]) -> list[str]:
    """Which trial is the best one, by how much, and what that does and doesn't mean."""
    sound = [trial for trial in trials if trial["fitness"] is not None]
    if not sound:
        return ["This run trains one set of hyperparameters after the other, and no trial has a result yet."]
    longest = [trial for trial in sound if trial["fidelity"] == sound[0]["fidelity"]]
    labels = [describe(member_of(trial["hyperparameters"])) for trial in longest[:2]]
    first = longest[0]
    sentences = [
        f"This run trained {len(trials):,} {'trial' if len(trials) == 1 else 'trials'}, one set of hyperparameters "
        f"after the other. The best one is trial {first['number']} ({labels[0]}), at steps {first['first_step']:,} to "
        f"{first['last_step']:,}, with a mean return of {rounded(first['fitness'])} at its end"
    ]
    if len(longest) > 1:
        second = longest[1]
        sentences[0] += f"; next is trial {second['number']} ({labels[1]}) with {rounded(second['fitness'])}"
    sentences[0] += "."
    if len(longest) < len(sound):
        sentences.append(
            f"Only the {len(longest):,} longest trials are compared for this, of {first['fidelity']:,} steps."
        )
    sentences.append(
        "Each trial ran once, and the best of several noisy results looks better than it is: train its hyperparameters "
        "again, with other seeds, to see what they reach."
    )
    return sentences


def trials_table(trials: Sequence[Json]) -> Markup:
    """A row for each trial, best first."""
    some = trials[:MOST_TRIALS]
    members: list[Hyperparameters] = [member_of(trial["hyperparameters"]) for trial in some]
    header, columns = hyperparameter_columns(members)
    rows = [
        [
            Cell(trial["number"], trial["number"]),
            *own,
            *(Cell(f"{trial[name]:,}", trial[name]) for name in ("fidelity", "first_step", "last_step")),
            Cell("–" if trial["fitness"] is None else rounded(trial["fitness"]), trial["fitness"]),
        ]
        for trial, own in zip(some, columns, strict=True)
    ]
    more = f" The best {MOST_TRIALS} of {len(trials):,} are shown." if len(trials) > MOST_TRIALS else ""
    note = f"Longer trials first, then by the mean return at the end of the trial.{more}"
    names = ["trial", *header, "steps", "first step", "last step", "return"]
    return joined([table(names, rows, sortable=True), element("p", note, class_="soft")])


def _fitness(trial: Json) -> float:
    return -math.inf if trial["fitness"] is None else float(trial["fitness"])
