"""Speed, compilation and memory of a run over time, and its film."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np

from adaqn.analysis.report.charts import Chart, colour, hover, new_chart, step_axis, table_of, thin
from adaqn.analysis.report.markup import Markup, element, notice
from adaqn.analysis.report.sources import is_inside
from adaqn.analysis.style import OKABE_ITO
from adaqn.runs.reading import RunData

LARGEST_FILM = 3_000_000  # bytes that are embedded
_STEP, _TIME = "time/total_timesteps", "time/time_elapsed"
_FILMS = {"video.mp4": "video/mp4", "best_video.mp4": "video/mp4", "video.gif": "image/gif"}
# Tag of progress.csv, what the axis says, and what the chart shows.
_TAGS = {
    "time/compile_seconds": ("seconds", "Compilation: seconds that this process has spent compiling so far"),
    "time/memory_mb": ("MB", "Memory of the process"),
}


def resource_charts(run: RunData) -> list[tuple[str, Chart]]:
    """Steps per second in each log interval, and what else progress.csv has of time and memory."""
    progress = run.progress
    if len(progress.get(_STEP, ())) < 2:
        return []
    found = []
    if _TIME in progress:
        timed = np.isfinite(progress[_TIME])
        step, elapsed = np.append(0.0, progress[_STEP][timed]), np.append(0.0, progress[_TIME][timed])
        passed = np.diff(elapsed)
        speed = np.divide(np.diff(step), passed, out=np.full(len(passed), np.nan), where=passed > 0.0)
        found.append(("Speed: environment steps per second in each log interval", _curve(step[1:], speed, "steps/s")))
    for tag, (unit, what) in _TAGS.items():
        values = progress.get(tag)
        if values is not None and np.isfinite(values).any():
            found.append((what, _curve(progress[_STEP], values, unit)))
    return found


def _curve(step: np.ndarray, values: np.ndarray, unit: str) -> Chart:
    chart = new_chart("environment steps", unit, height=200)
    step_axis(chart)
    chart.y_range.start = 0.0  # pyright: ignore[reportAttributeAccessIssue]
    sound = np.isfinite(values)
    step, values = step[sound], values[sound]
    some = thin(len(step))
    source = table_of(step=step[some], value=values[some])
    line = chart.line("step", "value", color=colour(OKABE_ITO[0]), line_width=2, source=source)
    if len(step) == 1:
        chart.scatter("step", "value", color=colour(OKABE_ITO[0]), size=7, source=source)
    hover(chart, [line], {"step": "@step{0,0}", unit: "@value{0,0.0}"}, mode="vline")
    return chart


def film(folder: Path) -> Markup | None:
    """The film of the policy, embedded; a large one is only named."""
    for name, kind in _FILMS.items():
        path = folder / name
        if not path.is_file() or not is_inside(path, folder):
            continue
        data = path.read_bytes() if path.stat().st_size <= LARGEST_FILM else b""
        if not data:
            return notice(
                f"The film {path} is empty or larger than {LARGEST_FILM / 1e6:.0f} MB, so it is not embedded."
            )
        source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        if kind == "image/gif":
            return Markup(f'<img class="film" alt="film of the policy" src="{source}">')
        return element("video", controls=True, loop=True, muted=True, class_="film", src=source)
    return None
