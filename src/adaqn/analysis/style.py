"""How our figures look: colours that colour-blind readers can tell apart, sizes for a page, axes of steps."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

SOFTWARE = "adaqn"  # by which our pictures are known

Colour = tuple[float, float, float]

# Okabe and Ito's palette as lines take from it: blue, green, purple, sky blue, vermillion, orange, black.
OKABE_ITO: tuple[Colour, ...] = tuple(
    to_rgb(colour) for colour in ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#E69F00", "#000000")
)
BLACK, GREY = to_rgb("#000000"), to_rgb("#7F7F7F")
_DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))
_SHADES = ("YlOrBr", 0.35, 0.95)  # of single sets of hyperparameters: the lightness alone tells them apart

WIDTH = 5.5  # inches, that of a page's text; nothing is written smaller than 7 points at this size
RC: Any = {  # matplotlib has a type for the names of these
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.3,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,  # text stays text
    "figure.constrained_layout.use": True,
}
NOTE: dict[str, Any] = {"fontsize": 7, "color": "0.35"}


class Look(NamedTuple):
    """How a line is drawn."""

    colour: Colour
    dashes: Any = "-"


def looks(names: Sequence[str], shaded: Sequence[str] = ()) -> dict[str, Look]:
    """A look for each name; those of `shaded` have one colour, the darker the later they are named."""
    found = {
        name: Look(OKABE_ITO[index % len(OKABE_ITO)], _DASHES[index // len(OKABE_ITO) % len(_DASHES)])
        for index, name in enumerate(names)
    }
    name, low, high = _SHADES
    shades = matplotlib.colormaps[name](np.linspace(low, high, max(1, len(shaded))))[:, :3]
    return found | {one: Look(_colour(shade), _DASHES[1]) for one, shade in zip(shaded, shades, strict=False)}


def member_colours(members: int) -> list[Colour]:
    """One colour per member: from a palette as long as it lasts, along a gradient beyond it."""
    if members <= len(OKABE_ITO):
        return list(OKABE_ITO[:members])
    if members <= 20:
        palette = matplotlib.colormaps["tab20"]  # strong and pale in turns; the strong ones come first
        return [_colour(palette(2 * index if index < 10 else 2 * index - 19)) for index in range(members)]
    gradient = matplotlib.colormaps["turbo"]
    return [_colour(gradient(share)) for share in np.linspace(0.05, 0.95, members)]


def _colour(values: Any) -> Colour:
    red, green, blue = (float(value) for value in values[:3])
    return red, green, blue


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure of so many inches."""
    return Figure(figsize=(width, height), dpi=200, layout="constrained")


def step_axis(axes: Axes, label: str = "environment steps") -> None:
    """Whole numbers of steps along the x axis."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    axes.set_xlabel(label)


def short_step_axis(axes: Axes, last: float, label: str = "environment steps", ticks: int = 5) -> None:
    """Steps along a narrow x axis from 0, in thousands or millions."""
    axes.set_xlim(0.0, last)
    unit, name = (1e6, "M") if last >= 2e6 else (1e3, "k") if last >= 2e3 else (1.0, "")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step / unit:g}{name if step else ''}"))
    axes.set_xlabel(label)


def wrapped(figure: Figure, text: str) -> str:
    """A note in lines as wide as the figure."""
    return textwrap.fill(text, int(figure.get_figwidth() * 17))


def legend_below(figure: Figure, handles: Sequence[Any], labels: Sequence[str], note: str = "") -> None:
    """A legend under all panels with a note above it; the figure grows by their height, so no panel shrinks."""
    widest = max((len(label) for label in labels), default=1)
    columns = max(1, min(len(labels), int(figure.get_figwidth() * 17 / (widest + 7))))
    lines = len(wrapped(figure, note).split("\n")) if note else 0
    rows = -(-len(labels) // columns)
    figure.set_figheight(figure.get_figheight() + 0.14 * (lines + rows) + 0.12)
    legend = figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, handlelength=2.2, columnspacing=1.4,
        labelspacing=0.35,
    )  # fmt: skip
    if note:
        legend.set_title(wrapped(figure, note), prop=FontProperties(size=NOTE["fontsize"]))
        legend.get_title().set_color(NOTE["color"])
        legend.get_title().set_multialignment("center")


def line(look: Look, **options: Any) -> Line2D:
    """A line for a legend."""
    return Line2D([], [], color=look.colour, linestyle=look.dashes, **options)


def metadata(kind: str) -> dict[str, Any] | None:
    """What a file of this kind says of its origin; without times, so that the same figure is the same file."""
    if kind == "png":
        return {"Software": SOFTWARE}
    return {"Creator": SOFTWARE, "Producer": None, "CreationDate": None} if kind == "pdf" else None


def drawn_here(path: Path) -> bool:
    """Whether a file is a picture or a table that adaqn wrote."""
    try:
        if path.suffix == ".png":
            with Image.open(path) as image:
                return image.info.get("Software") == SOFTWARE
        if path.suffix == ".pdf":
            return b"/Creator (adaqn)" in path.read_bytes()
        if path.suffix == ".json":
            values = json.loads(path.read_bytes())
            return isinstance(values, dict) and "adaqn" in values
        return path.read_bytes().startswith(b"series,")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return False
