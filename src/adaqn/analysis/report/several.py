"""Several runs side by side: a table, and their learning curves in one chart."""

from __future__ import annotations

from collections.abc import Sequence

from adaqn.analysis.picture import running_mean
from adaqn.analysis.report.charts import Charts, colour, hover, legend_below, new_chart, step_axis, table_of, thin
from adaqn.analysis.report.markup import Cell, Markup, element, joined, table
from adaqn.analysis.report.sources import RunSource
from adaqn.analysis.style import member_colours
from adaqn.analysis.summary import rounded

WINDOW = 20  # episodes that a curve is averaged over
MOST_CURVES, CURVE_POINTS = 40, 500


def comparison(runs: Sequence[RunSource], charts: Charts) -> Markup:
    """The table of runs, and the running mean of the returns of each, by environment."""
    parts = [runs_table(runs)]
    environments = dict.fromkeys(str(run.run.environment) for run in runs if run.run is not None and run.data)
    for name in environments:
        own = [run for run in runs if run.run is not None and run.run.environment == name and run.data is not None]
        parts.append(element("h3", name))
        parts.append(_curves(own[:MOST_CURVES], charts))
    return joined(parts)


def _curves(runs: Sequence[RunSource], charts: Charts) -> Markup:
    chart = new_chart("environment steps", "return")
    step_axis(chart)
    entries = []
    for run, ink in zip(runs, member_colours(len(runs)), strict=True):
        assert run.data is not None
        episodes = run.data.episodes
        some = thin(len(episodes.step), CURVE_POINTS)
        mean = running_mean(episodes.total, WINDOW)[some]
        source = table_of(step=episodes.step[some], mean=mean, run=[run.name] * len(mean))
        line = chart.line("step", "mean", color=colour(ink), line_width=2, source=source)
        hover(chart, [line], {"run": "@run", "step": "@step{0,0}", "return": "@mean{0,0.0}"})
        entries.append((run.name, [line]))
    legend_below(chart, entries)
    return charts.place(chart, f"Mean return of the last {WINDOW} episodes. A click on a name hides its curve.")


def runs_table(runs: Sequence[RunSource]) -> Markup:
    """A row for each run: how far it is, what it reached and what it took."""
    rows = []
    for source in runs:
        run, summary = source.run, (source.data.summary or {}) if source.data is not None else {}
        final = summary.get("final_return")
        final = final if isinstance(final, int | float) else None
        seconds = run.seconds if run is not None and source.data else None
        episodes = len(source.data.episodes.step) if source.data is not None else None
        steps = run.steps if run is not None and source.data is not None and source.data.summary else None
        rows.append(
            [
                str(source.path) if run is None else run.arm,
                "" if run is None else run.environment,
                "" if run is None else Cell(run.seed, run.seed),
                element("span", source.status, class_=f"status {source.status}"),
                Cell("–" if steps is None else f"{steps:,}", steps),
                Cell("–" if episodes is None else f"{episodes:,}", episodes),
                Cell("–" if final is None else rounded(final), final),
                Cell("–" if seconds is None else rounded(seconds / 60), seconds),
            ]
        )
    header = ["run", "environment", "seed", "status", "steps", "episodes", "final return", "minutes"]
    return table(header, rows, sortable=True)
