"""Tables for the console: the facts of a run, its members, and their results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import gymnasium
from rich import box
from rich.table import Table

from adaqn.agents.protocol import MemberReport
from adaqn.hyperparameters import Hyperparameters
from adaqn.runs.labels import (
    convolutions_label,
    layers_kind_label,
    layers_label,
    loss_label,
    loss_meaning,
    member_labels,
    number_label,
    options_label,
)
from adaqn.runs.standings import ActingReturn

MOST_ROWS = 20
# The columns of the table of members, with the minimum width of each.
_COLUMNS = {"hidden": 6, "activation": 10, "optimizer": 9, "learning rate": 8, "loss": 5, "discount": 8}


def facts_table(facts: Mapping[str, str]) -> Table:
    """A table with a row per name and value."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, value)
    return table


def members_table(members: Sequence[Hyperparameters], gamma: float, width: int) -> Table:
    """The hyperparameters of every member; for a large ensemble, the first ten and the last ten."""
    convolutional = any(member.convolutions for member in members)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("member", justify="right", no_wrap=True, min_width=6)
    columns = {"convo-\nlutions": 7, **_COLUMNS} if convolutional else _COLUMNS
    for name, least in columns.items():
        # Below 80 columns there is no room for whole words; a wrapped word is better than a lost column.
        table.add_column(name, overflow="fold", min_width=least if width >= 80 else None)
    for index, member in enumerate(members):
        if len(members) > MOST_ROWS and index == MOST_ROWS // 2:
            table.add_row(*["…"] * len(table.columns))
        if len(members) > MOST_ROWS and MOST_ROWS // 2 <= index < len(members) - MOST_ROWS // 2:
            continue
        kind = layers_kind_label(member)
        row = [
            layers_label(member.hidden) + ("" if kind == "plain" else f" {kind}"),
            member.activation,
            f"{member.optimizer} {options_label(member)}".strip(),
            number_label(member.learning_rate),
            loss_label(member),
            f"{gamma if member.discount is None else member.discount:.6g}",
        ]
        table.add_row(str(index), *([convolutions_label(member) or "none"] if convolutional else []), *row)
    return table


def outcome_table(
    reports: Sequence[MemberReport], targets: Collection[int], acting: Sequence[ActingReturn], pair: bool, width: int
) -> Table:
    """Share of selections, loss and return of each member; for a large ensemble, of the most often selected ones.

    Terminals with fewer than 80 columns do not show the loss and the number of episodes.
    """
    roomy = width >= 80
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("member", justify="right", no_wrap=True, min_width=6)
    table.add_column("hyperparameters", overflow="fold", min_width=15)
    table.add_column("in target\npair" if pair else "selected", justify="right", no_wrap=True)
    if roomy:
        table.add_column("cumulated\nloss", justify="right", no_wrap=True)
    table.add_column("return", justify="right", no_wrap=True)
    if roomy:
        table.add_column("episodes", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    labels = member_labels([report.hyperparameters for report in reports])
    shown = list(range(len(reports)))
    if len(reports) > MOST_ROWS:
        shown = sorted(shown, key=lambda index: -reports[index].selected)[:MOST_ROWS]
        table.caption = f"the {MOST_ROWS} most often selected of {len(reports)} members"
    for index in shown:
        report, own = reports[index], acting[index]
        mark = "diverged" if report.diverged else "target" if index in targets else ""
        loss = "-" if report.diverged else f"{report.cumulated_loss:.4g}"
        mean = "-" if own.mean is None else f"{own.mean:,.1f}"
        style = "yellow" if report.diverged else "bold" if index in targets else ""
        numbers = [f"{report.selected:.1%}", loss, mean, f"{own.episodes:,}"]
        table.add_row(str(index), labels[index], *(numbers if roomy else numbers[::2]), mark, style=style)
    return table


def outcome_notes(members: int, pair: bool, one_by_one: bool) -> list[str]:
    """Explanations of the columns of `outcome_table`."""
    if pair:
        return [
            "in target pair: share of the updates in which the critic was one of the two in the target; "
            "the shares add up to 200%",
            f"cumulated loss: {loss_meaning(pair)}",
            "return: mean over the episodes in which the critic trained the actor most",
        ]
    chosen = "generations in which the member was the best" if one_by_one else "target updates that chose the member"
    acted = (
        "return: mean over the episodes that the member played"
        if one_by_one
        else "return: mean over the episodes in which the member acted most (known per target update)"
    )
    notes = [f"selected: share of the {chosen}", f"cumulated loss: {loss_meaning(pair)}", acted]
    return notes if members > 1 else notes[1:2]


def space_label(space: gymnasium.Space) -> str:
    """A short description of a space; Gymnasium's own prints every bound."""
    if isinstance(space, gymnasium.spaces.Box):
        return f"Box {space.shape} {space.dtype}"
    if isinstance(space, gymnasium.spaces.Discrete):
        return f"Discrete {int(space.n)}"
    return str(space)
