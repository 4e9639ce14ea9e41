"""Stacked bars of the members of an ensemble over time."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from adaqn.analysis.metrics import Floats
from adaqn.analysis.page import Page
from adaqn.analysis.selections import labels_of
from adaqn.analysis.study import Arm
from adaqn.analysis.style import Colour, member_colours

MOST_BINS = 25
NAMED_SETS = 8  # more of them than these share an entry of a legend


def stacked_bars(axes: Axes, edges: Floats, shares: Floats, colours: Sequence[Colour]) -> None:
    """One bar for each stretch of steps, its parts the shares [bins, K]."""
    bottom = 0.0 * shares[:, 0]
    width = edges[1:] - edges[:-1]
    for member, colour in enumerate(colours):
        axes.bar(
            edges[:-1], shares[:, member], width, bottom, align="edge", color=colour, edgecolor="white", linewidth=0.2
        )
        bottom = bottom + shares[:, member]
    axes.set_ylim(0.0, 1.0)
    axes.set_yticks([0.0, 0.5, 1.0], labels=["0", "", "1"])


def colours_of(page: Page, arm: Arm) -> list[Colour]:
    """The colours of an arm's members: a member that was also trained alone has the colour of that arm."""
    alone = {single.members[0]: page.looks[single.name].colour for single in page.scores.study.grid if single.members}
    if all(member in alone for member in arm.members) and len({*arm.members}) == len(arm.members):
        return [alone[member] for member in arm.members]
    return member_colours(len(arm.members))


def member_legend(page: Page, arm: Arm) -> tuple[list[Patch], list[str]]:
    """A patch and a name for each member; the shades of many single sets are told apart in the ranking only."""
    if len(arm.members) > NAMED_SETS and set(colours_of(page, arm)) <= {look.colour for look in page.looks.values()}:
        return [Patch(color=min(colours_of(page, arm)))], [f"{len(arm.members)} members, darker: higher AUC alone"]
    return [Patch(color=colour) for colour in colours_of(page, arm)], labels_of(arm)


def bins_for(epochs: int) -> int:
    """As many bars as there are epochs, or fewer where they would be too narrow."""
    return epochs if epochs <= MOST_BINS else 20
