"""The tables of one run: its members, its configuration, and how to repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np

from adaqn.analysis.report.markup import Cell, Markup, details, element, joined, notice, table
from adaqn.analysis.report.sources import RunSource
from adaqn.analysis.summary import rounded
from adaqn.files import yaml_text
from adaqn.hyperparameters import Hyperparameters
from adaqn.runs.labels import (
    convolutions_label,
    head_label,
    layers_kind_label,
    layers_label,
    loss_label,
    number_label,
    options_label,
)
from adaqn.runs.reading import RunData
from adaqn.runs.standings import acting_returns, history_of, selected_shares, selection_weights


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
