"""Tables of members and of trials in a report."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np

from adaqn.analysis.report.lineage import describe
from adaqn.analysis.report.markup import Cell, Markup, details, element, joined, notice, table
from adaqn.analysis.report.sources import RunSource
from adaqn.analysis.summary import rounded
from adaqn.base.files import Json, json_value, yaml_text
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.directory import RunDirectory
from adaqn.runs.display.labels import (
    convolutions_label,
    head_label,
    layers_kind_label,
    layers_label,
    loss_label,
    number_label,
    options_label,
)
from adaqn.runs.display.standings import acting_returns, history_of, selected_shares, selection_weights
from adaqn.runs.reading import RunData, member_of, whole_lines


def members_table(run: RunData, members: Sequence[Hyperparameters]) -> Markup:
    """Hyperparameters and results of the current members."""
    header, columns = hyperparameter_columns(members)
    results = len(run.selection.step) > 0 and run.selection.loss.shape[1] == len(members)
    if not results:
        return table(["member", *header], [[Cell(k, k), *columns[k]] for k in range(len(members))], sortable=True)
    shares, acting, acted = selected_shares(run), acting_returns(history_of(run)), _acted_shares(run)
    diverged = set((run.summary or {}).get("diverged") or ()) | {*np.flatnonzero(np.isinf(run.selection.loss[-1]))}
    last = run.selection.loss[-1]
    role = "trained the actor" if run.sums_up_selections else "acted"
    rows = []
    for k, of in enumerate(acting):
        mean = "–" if of.mean is None else f"{rounded(of.mean)} ({of.episodes:,})"
        rows.append(
            [
                Cell(k, k),
                *columns[k],
                Cell(f"{shares[k]:.1%}", float(shares[k])),
                Cell(f"{acted[k]:.1%}", float(acted[k])),
                Cell(mean, of.mean),
                "yes" if k in diverged else "no",
                Cell(f"{last[k]:.4g}" if np.isfinite(last[k]) else "–", float(last[k])),
            ]
        )
    header = [
        "member", *header, "in the target pair" if run.sums_up_selections else "target", role,
        f"return when it {role} most (episodes)", "diverged", "last loss",
    ]  # fmt: skip
    winner = [int(np.argmax(shares))] if len(set(members)) > 1 else []
    return table(header, rows, sortable=True, emphasised=winner)


def _acted_shares(run: RunData) -> np.ndarray:
    """The share of actions of each member, or of the updates of the actor, over the whole run. [K]"""
    if run.sums_up_selections:
        weights = selection_weights(run)[:, None]
        return (run.selection.acted * weights).sum(axis=0) / max(1.0, float(weights.sum()))
    return run.selection.acted.sum(axis=0) / max(1.0, float(run.selection.acted.sum()))


def hyperparameter_columns(members: Sequence[Hyperparameters]) -> tuple[list[str], list[list[object]]]:
    """Names and cells of the hyperparameters; those that no member has are left out."""
    every: dict[str, list[object]] = {
        "layers": [layers_label(member.hidden) for member in members],
        "kind of layers": ["" if kind == "plain" else kind for kind in map(layers_kind_label, members)],
        "convolutions": [convolutions_label(member) for member in members],
        "activation": [member.activation for member in members],
        "optimizer": [f"{member.optimizer} {options_label(member)}".strip() for member in members],
        "learning rate": [Cell(number_label(member.learning_rate), member.learning_rate) for member in members],
        "trained loss": [loss_label(member) for member in members],
        "head": ["" if member.head == "scalar" else head_label(member) for member in members],
        "discount": ["" if member.discount is None else f"{member.discount:.6g}" for member in members],
    }
    kept = {name: cells for name, cells in every.items() if any(cell != "" for cell in cells)}
    return list(kept), [list(row) for row in zip(*kept.values(), strict=True)]


def configuration(source: RunSource) -> Markup:
    """The configuration, the versions, and the command that repeats the run."""
    assert source.run is not None
    config = source.run.config
    command = f"adaqn train --config {shlex.quote(str(source.path / 'config.yaml'))} --run-dir NEW_DIRECTORY"
    versions: Any = None if source.data is None else (source.data.summary or {}).get("versions")
    parts: list[Markup] = [element("p", "This command repeats the run:"), element("pre", command, class_="command")]
    if source.status in ("interrupted", "failed"):
        parts += [
            element("p", "This command continues it:"),
            element("pre", f"adaqn resume {shlex.quote(str(source.path))}", class_="command"),
        ]
    if isinstance(versions, dict):
        parts.append(table(["package", "version"], [[name, value] for name, value in versions.items()]))
    else:
        parts.append(notice("The versions are recorded when the run is finished."))
    parts.append(details("Configuration", element("pre", yaml_text(config))))
    return joined(parts)


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
