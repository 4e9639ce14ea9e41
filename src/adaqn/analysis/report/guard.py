"""Parts of the page that depend on files whose content may not be what a run writes."""

from __future__ import annotations

from collections.abc import Callable

from adaqn.analysis.report.markup import Markup, notice
from adaqn.analysis.report.sources import DAMAGE


def guarded(what: str, build: Callable[[], Markup]) -> Markup:
    """A part of the page, or why it cannot be shown."""
    try:
        return build()
    except DAMAGE as error:
        return notice(f"{what} cannot be shown: {error}")
