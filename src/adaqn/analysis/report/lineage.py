"""How the members of a run in an infinite space descend from each other, and how their hyperparameters change."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from bokeh.models import SingleIntervalTicker

from adaqn.analysis.figures.evolution import NUMBERS, WORDS
from adaqn.analysis.report.charts import NEUTRAL, Chart, colour, hover, legend_below, new_chart, step_axis, table_of
from adaqn.analysis.report.markup import Cell, Markup, details, element, table
from adaqn.analysis.style import OKABE_ITO
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.display.labels import convolutions_label, layers_kind_label, loss_label, member_labels, options_label
from adaqn.runs.reading import RunData, member_of

MOST_ROWS = 400  # of the table of mutations
_TARGET = colour(OKABE_ITO[4])
_KEPT = "kept"
_NUMBERS: dict[str, Callable[[Hyperparameters], float]] = NUMBERS | {
    "max_grad_norm": lambda member: member.max_grad_norm or math.nan,
    "weight_decay": lambda member: member.weight_decay or math.nan,
}
_LOGARITHMIC = ("learning rate", "max_grad_norm", "weight_decay")


class Node(NamedTuple):
    """One place of the ensemble after one generation."""

    generation: int
    step: int
    place: int
    parent: int | None  # place before the generation
    mutation: str | None  # None for a member that goes on as it was
    member: Hyperparameters
    label: str


def lineage(run: RunData) -> list[list[Node]]:
    """The members of every generation, and where each came from."""
    found = []
    for number, line in enumerate(run.members):
        members = [member_of(values) for values in line["members"]]
        labels = member_labels(members)
        found.append(
            [
                Node(int(line.get("generation", number)), line["step"], place, values.get("parent"),
                     values.get("mutation"), member, label)
                for place, (values, member, label) in enumerate(zip(line["members"], members, labels, strict=True))
            ]
        )  # fmt: skip
    return found


def lineage_chart(generations: Sequence[Sequence[Node]]) -> Chart:
    """A tree from left to right: a line from each parent to its child, a coloured point where a mutation was made."""
    places = max(len(nodes) for nodes in generations)
    chart = new_chart("environment steps", "place in the ensemble", height=130 + 26 * places)
    step_axis(chart)
    chart.y_range.flipped = True  # pyright: ignore[reportAttributeAccessIssue]
    chart.yaxis.ticker = list(range(places))
    chart.ygrid.visible = False
    lines = [
        (before[0].step, node.parent, node.step, node.place)
        for before, nodes in itertools.pairwise(generations)
        for node in nodes
        if isinstance(node.parent, int) and 0 <= node.parent < len(before)
    ]
    kinds: dict[str, list[Node]] = {}
    for nodes in generations:
        for node in nodes:
            kinds.setdefault(_kind(node), []).append(node)
    if lines:
        from_step, from_place, step, place = zip(*lines, strict=True)
        ways = table_of(x0=from_step, y0=from_place, x1=step, y1=place)
        chart.segment("x0", "y0", "x1", "y1", color=NEUTRAL, alpha=0.6, source=ways)
    entries = []
    for index, (kind, nodes) in enumerate(sorted(kinds.items(), key=lambda one: one[0] not in ("start", _KEPT))):
        plain = kind in ("start", _KEPT)
        dots = chart.scatter(
            "step", "place", size=5 if plain else 10, line_color=None,
            color=NEUTRAL if plain else colour(OKABE_ITO[index % 6]),
            source=table_of(
                step=[node.step for node in nodes], place=[node.place for node in nodes],
                generation=[node.generation for node in nodes], member=[describe(node.member) for node in nodes],
                origin=[_origin(node) for node in nodes],
            ),
        )  # fmt: skip
        tips = {
            "generation": "@generation",
            "step": "@step{0,0}",
            "place": "@place",
            "member": "@member",
            "": "@origin",
        }
        hover(chart, [dots], tips)
        entries.append((kind, [dots]))
    legend_below(chart, entries)
    return chart


def _kind(node: Node) -> str:
    if node.mutation is None:
        return "start" if node.parent is None else _KEPT
    return str(node.mutation).split(":")[0].split("(")[0].strip()


def _origin(node: Node) -> str:
    if node.parent is None:
        return "sampled from the space"
    return f"from place {node.parent}: {node.mutation or 'as it was'}"


def describe(member: Hyperparameters) -> str:
    """All hyperparameters of a member in one line."""
    kind = layers_kind_label(member)
    words = [
        member.activation,
        f"{member.optimizer} {options_label(member)}".strip(),
        loss_label(member),
        f"{'' if kind == 'plain' else f'{kind} '}layers {'x'.join(map(str, member.hidden)) or 'none'}",
        f"convolutions {convolutions_label(member)}" if member.convolutions else "",
        f"learning rate {member.learning_rate:.3g}",
        "" if member.discount is None else f"discount {member.discount:.6g}",
    ]
    return ", ".join(word for word in words if word)


def mutations_table(generations: Sequence[Sequence[Node]]) -> Markup:
    """The same for readers without JavaScript: a row for each mutation, the last ones if there are many."""
    changed = [node for nodes in generations[1:] for node in nodes if node.mutation is not None]
    rows = [
        [Cell(node.generation, node.generation), Cell(f"{node.step:,}", node.step), Cell(node.place, node.place),
         "–" if node.parent is None else node.parent, node.mutation, describe(node.member)]
        for node in changed[-MOST_ROWS:]
    ]  # fmt: skip
    what = f"{len(changed):,} mutations" + (f", the last {MOST_ROWS} of them" if len(changed) > MOST_ROWS else "")
    header = ["generation", "step", "place", "parent", "mutation", "hyperparameters"]
    return details(what, table(header, rows, sortable=True))


def history_charts(run: RunData, generations: Sequence[Sequence[Node]], last: int) -> list[tuple[str, Chart]]:
    """Each hyperparameter that differs over time: those of all members, and those of the target."""
    every = [node.member for nodes in generations for node in nodes]
    found: list[tuple[str, Chart]] = []
    for name, number in _NUMBERS.items():
        if len({number(member) for member in every}) > 1:
            found.append((name, _history(run, generations, last, name, number)))
    for name, word in WORDS.items():
        values = sorted({word(member) for member in every})
        if len(values) > 1:
            order = {value: float(row) for row, value in enumerate(values)}
            chart = _history(run, generations, last, name, lambda m, word=word, order=order: order[word(m)], values)
            found.append((name, chart))
    return found


def _history(
    run: RunData,
    generations: Sequence[Sequence[Node]],
    last: int,
    name: str,
    value: Callable[[Hyperparameters], float],
    words: Sequence[str] = (),
) -> Chart:
    options: dict[str, Any] = {"y_axis_type": "log"} if name in _LOGARITHMIC else {}
    chart = new_chart("environment steps", name, height=130 + 16 * len(words) if words else 220, **options)
    step_axis(chart)
    if words:
        chart.yaxis.ticker = list(range(len(words)))
        chart.yaxis.major_label_overrides = dict(enumerate(words))
    elif name.endswith("layers"):
        chart.yaxis.ticker = SingleIntervalTicker(interval=1)
    ends = [*(nodes[0].step for nodes in generations[1:]), last]
    shown = [
        (node.step, end, value(node.member), words[int(value(node.member))] if words else f"{value(node.member):.4g}")
        for nodes, end in zip(generations, ends, strict=True)
        for node in nodes
    ]
    start, end, height, text = zip(*shown, strict=True)
    bars = chart.segment(
        "start", "value", "end", "value", color=NEUTRAL, line_width=3, alpha=0.7,
        source=table_of(start=start, end=end, value=height, text=text),
    )  # fmt: skip
    hover(chart, [bars], {"steps": "@start{0,0} to @end{0,0}", name: "@text"})
    entries: list[tuple[str, list[Any]]] = [("members", [bars])]
    selection = run.selection
    if len(selection.step):
        # A target update at the step of a generation chose among the members that came out of it.
        place = np.searchsorted([nodes[0].step for nodes in generations], selection.step, side="right") - 1
        chosen = [value(generations[at][target].member) for at, target in zip(place, selection.target, strict=True)]
        source = table_of(step=selection.step, value=chosen)
        entries.append(("target", [chart.scatter("step", "value", size=4, color=_TARGET, source=source)]))
    legend_below(chart, entries)
    return chart


def lineage_words(generations: Sequence[Sequence[Node]]) -> Markup:
    """How much the ensemble changed, and how far the current members go back."""
    first = [node.place for node in generations[0]]
    ancestors = {place: place for place in first}
    for nodes in generations[1:]:
        ancestors = {
            node.place: ancestors.get(node.parent, -1) if isinstance(node.parent, int) else -1 for node in nodes
        }
    kept = {place for place in ancestors.values() if place >= 0}
    count = len(generations) - 1
    text = (
        f"After {count:,} {'generation' if count == 1 else 'generations'}, the {len(generations[-1])} members descend "
        f"from {len(kept)} of the {len(first)} that the run began with."
    )
    return element("p", text)
