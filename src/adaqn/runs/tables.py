"""The tables that a console shows of a run: its facts, its members, and how these did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import gymnasium
from rich import box
from rich.table import Table

from adaqn.agents.protocol import MemberReport
from adaqn.hyperparameters import Hyperparameters
from adaqn.runs.labels import convolutions_label, layers_label, member_labels, number_label, options_label

MOST_ROWS = 20
# The columns of the members and how far a narrow terminal may press each of them together.
_COLUMNS = {"hidden": 6, "activation": 10, "optimizer": 9, "learning rate": 8, "loss": 5, "discount": 8}


def facts_table(facts: Mapping[str, str]) -> Table:
    """Names and values, one below the other."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, value)
    return table


def members_table(members: Sequence[Hyperparameters], gamma: float, width: int) -> Table:
    """The hyperparameters of every member; of a large ensemble, the first ten and the last ten."""
    convolutional = any(member.convolutions for member in members)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("member", justify="right", no_wrap=True)
    columns = {"convo-\nlutions": 7, **_COLUMNS} if convolutional else _COLUMNS
    for name, least in columns.items():
        # Below 80 columns there is no room for whole words; a folded one is better than a lost column.
        table.add_column(name, overflow="fold", min_width=least if width >= 80 else None)
    for index, member in enumerate(members):
        if len(members) > MOST_ROWS and index == MOST_ROWS // 2:
            table.add_row(*["…"] * len(table.columns))
        if len(members) > MOST_ROWS and MOST_ROWS // 2 <= index < len(members) - MOST_ROWS // 2:
            continue
        row = [
            layers_label(member.hidden),
            member.activation,
            f"{member.optimizer} {options_label(member)}".strip(),
            number_label(member.learning_rate),
            member.loss,
            f"{gamma if member.discount is None else member.discount:.6g}",
        ]
        table.add_row(str(index), *([convolutions_label(member) or "none"] if convolutional else []), *row)
    return table


def outcome_table(reports: Sequence[MemberReport], target: int) -> Table:
    """How often each member was selected, and its loss; of a large ensemble, those most often selected."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("member", justify="right", no_wrap=True)
    table.add_column("hyperparameters", overflow="fold", min_width=15)
    table.add_column("selected", justify="right", no_wrap=True)
    table.add_column("cumulated loss", justify="right")
    table.add_column("", no_wrap=True)
    labels = member_labels([report.hyperparameters for report in reports])
    shown = list(range(len(reports)))
    if len(reports) > MOST_ROWS:
        shown = sorted(shown, key=lambda index: -reports[index].selected)[:MOST_ROWS]
        table.caption = f"the {MOST_ROWS} most often selected of {len(reports)} members"
    for index in shown:
        report = reports[index]
        mark = "diverged" if report.diverged else "target" if index == target else ""
        loss = "-" if report.diverged else f"{report.cumulated_loss:.4g}"
        style = "yellow" if report.diverged else "bold" if index == target else ""
        table.add_row(str(index), labels[index], f"{report.selected:.1%}", loss, mark, style=style)
    return table


def space_label(space: gymnasium.Space) -> str:
    """A space in a few words, where Gymnasium prints every bound."""
    if isinstance(space, gymnasium.spaces.Box):
        return f"Box {space.shape} {space.dtype}"
    if isinstance(space, gymnasium.spaces.Discrete):
        return f"Discrete {int(space.n)}"
    return str(space)
