"""HTML in which every text from a file is escaped: only `Markup`, which this module makes, is taken as it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

from adaqn.analysis.report.sources import DAMAGE


class Markup(str):
    """Text that is HTML already."""


def element(tag: str, *content: object, **attributes: object) -> Markup:
    """An HTML element; content that is not Markup is escaped, attributes that are None or False are left out.

    `class_` is the attribute `class`, and other underscores in names are hyphens.
    """
    given = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    written = "".join(
        f" {name}" if value is True else f' {name}="{escape(str(value))}"'
        for name, value in given.items()
        if value is not None and value is not False
    )
    return Markup(f"<{tag}{written}>{joined(content)}</{tag}>")


def joined(parts: Iterable[object]) -> Markup:
    """The parts one after the other."""
    return Markup("".join(part if isinstance(part, Markup) else escape(str(part)) for part in parts))


class Cell(NamedTuple):
    """A cell of a table whose column is sorted by a number."""

    shown: object
    value: float | None  # None is sorted last


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    sortable: bool = False,
    emphasised: Iterable[int] = (),
    identifier: str | None = None,
) -> Markup:
    """A table that scrolls on its own if it is wider than the page; the rows at `emphasised` are bold."""
    bold = set(emphasised)
    head = element("thead", element("tr", *(element("th", name, scope="col") for name in header)))
    body = element(
        "tbody",
        *(
            element("tr", *(_cell(cell) for cell in row), class_="main" if index in bold else None)
            for index, row in enumerate(rows)
        ),
    )
    whole = element("table", head, body, class_="sortable" if sortable else None, id=identifier)
    return element("div", whole, class_="wide", tabindex="0")


def _cell(cell: object) -> Markup:
    if not isinstance(cell, Cell):
        return element("td", cell)
    known = cell.value is not None and math.isfinite(cell.value)
    return element("td", cell.shown, class_="number", data_value=repr(float(cell.value or 0.0)) if known else "")


def details(summary: object, *content: object, opened: bool = False) -> Markup:
    """A part that the reader unfolds."""
    return element("details", element("summary", summary), *content, open=opened)


def notice(text: object) -> Markup:
    """A remark about something that is missing or not as expected."""
    return element("p", text, class_="notice")


def guarded(what: str, build: Callable[[], Markup]) -> Markup:
    """A part of the page, or why it cannot be shown."""
    try:
        return build()
    except DAMAGE as error:
        return notice(f"{what} cannot be shown: {error}")
