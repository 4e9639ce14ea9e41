"""Bokeh charts with the look of the page: they fill its width, and their legends hide a curve at a click."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from bokeh.embed import components
from bokeh.models import BasicTickFormatter, ColumnDataSource, HoverTool, Legend
from bokeh.plotting import figure
from bokeh.resources import Resources
from matplotlib.colors import to_hex

from adaqn.analysis.report.markup import Markup, element
from adaqn.analysis.style import BLACK, Colour, Look

Chart = figure
NEUTRAL = "#888888"  # legible on light and on dark
DARKEST = 0.13  # luminance of a curve: a contrast of more than 3 to the dark page, and of more than 5 to the light one
MOST_POINTS = 3000  # of one scatter or curve
LONGEST_NAME = 40


class Charts:
    """The charts of a page, which share one script."""

    def __init__(self) -> None:
        self._charts: list[Chart] = []

    def place(self, chart: Chart, note: str = "", label: str = "") -> Markup:
        """Where the chart is on the page, with a note below it; `label` describes it to a screen reader."""
        self._charts.append(chart)
        # A name from a file cannot imitate the mark, because its brackets are escaped.
        where = element("div", Markup(f"<!--chart {len(self._charts) - 1}-->"), role="img", aria_label=label or note)
        return element("figure", where, element("figcaption", note)) if note else element("figure", where)

    def filled(self, page: str) -> tuple[str, str]:
        """The page with Bokeh's elements in their places, and the script that draws them."""
        if not self._charts:
            return page, ""
        script, divisions = components(self._charts, wrap_script=False)
        for number, division in enumerate(divisions):
            page = page.replace(f"<!--chart {number}-->", division.strip(), 1)
        return page, script

    @property
    def library(self) -> str:
        """Bokeh's own script, from the installed package."""
        return "\n".join(Resources(mode="inline", components=["bokeh"]).js_raw) if self._charts else ""


def new_chart(x_label: str, y_label: str, height: int = 320, **options: Any) -> Chart:
    """An empty chart; `options` are those of Bokeh's figure."""
    chart = figure(
        height=height,
        sizing_mode="stretch_width",
        tools="pan,box_zoom,reset,save",
        toolbar_location="above",
        active_drag=None,  # on a phone, dragging scrolls the page
        x_axis_label=x_label,
        y_axis_label=y_label,
        background_fill_alpha=0.0,
        border_fill_alpha=0.0,
        outline_line_color=None,
        min_border_left=8,
        **options,
    )
    chart.toolbar.logo = None
    chart.toolbar.autohide = True  # shown at the pointer, and not in print
    chart.xgrid.visible = False
    chart.ygrid.grid_line_alpha = 0.35
    for axis in chart.axis:
        axis.axis_label_text_font_style = "normal"
        axis.minor_tick_line_color = None
    return chart


def step_axis(chart: Chart) -> None:
    """Environment steps on the x axis, as whole numbers."""
    chart.xaxis.formatter = BasicTickFormatter(use_scientific=False)
    chart.xaxis.ticker.desired_num_ticks = 4  # pyright: ignore[reportAttributeAccessIssue]


def legend_below(chart: Chart, entries: Sequence[tuple[str, Sequence[Any]]], columns: int = 3) -> None:
    """A legend below the chart: an entry and what it hides at a click."""
    widest = max((len(label) for label, _ in entries), default=1)
    fitting = max(1, min(columns, 44 // (widest + 4)))  # on the width of a phone
    legend = Legend(
        items=[(short(label), list(renderers)) for label, renderers in entries],
        click_policy="hide",
        orientation="horizontal",
        location="left",
        ncols=fitting,
        background_fill_alpha=0.0,
        border_line_color=None,
        label_text_font_size="12px",
        spacing=4,
        padding=4,  # pyright: ignore[reportArgumentType]  (Bokeh's stub lacks the number that it documents)
        glyph_width=18,
    )
    chart.add_layout(legend, "below")
    rows = -(-len(entries) // fitting)
    chart.height = (chart.height or 320) + 24 * rows


def hover(
    chart: Chart, renderers: Sequence[Any], entries: Mapping[str, str], mode: Literal["mouse", "vline"] = "mouse"
) -> None:
    """Show values of the point under the pointer; Bokeh escapes them."""
    chart.add_tools(HoverTool(renderers=list(renderers), tooltips=list(entries.items()), mode=mode))


def table_of(**columns: Any) -> ColumnDataSource:
    """The data of a curve."""
    return ColumnDataSource({name: np.asarray(values) for name, values in columns.items()})


def colour(value: Colour) -> str:
    """A colour for the page; on a dark one, black would vanish, and a very dark colour nearly so."""
    if tuple(value) == BLACK:
        return NEUTRAL
    shade = np.asarray(value[:3], np.float64)
    while luminance(shade) < DARKEST:
        shade = 0.95 * shade + 0.05
    return to_hex(tuple(shade))


def luminance(value: np.ndarray) -> float:
    """The relative luminance of an sRGB colour, from 0 for black to 1 for white (WCAG)."""
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def dashes(look: Look) -> Any:
    """The dashes of a line as Bokeh names them."""
    if look.dashes == "-":
        return "solid"
    if look.dashes == ":":
        return "dotted"
    return [max(1, round(2 * length)) for length in look.dashes[1]]


def short(label: str, longest: int = LONGEST_NAME) -> str:
    """A label for a legend or an axis; `$$` would make Bokeh look for a typesetting script."""
    label = " ".join(label.split()).replace("$$", "$ $").replace("\\", "⧵")
    return label if len(label) <= longest else label[: longest - 1] + "…"


def thin(count: int, most: int = MOST_POINTS) -> slice:
    """Every n-th of so many points, so that no more than `most` are left."""
    return slice(None, None, max(1, -(-count // most)))
