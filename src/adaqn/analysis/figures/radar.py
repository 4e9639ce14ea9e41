"""Radar plot of settings: how the methods do where the same settings are varied, as T and M on Atari in the paper."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from adaqn.analysis.metrics import iqm, pooled
from adaqn.analysis.page import NotDrawn, Page
from adaqn.analysis.scores import Series, StudyScores
from adaqn.analysis.study import Arm, StudyResults
from adaqn.analysis.style import legend_below, line, new_figure

_SHORT = {"target_update_interval": "T", "generation_interval": "M"}  # as in the paper
MOST_COLUMNS = 3
LONGEST_BESIDE_OTHERS = 14  # characters of a label that panels in several columns have room for

Setting = tuple[tuple[str, Any], ...]


def draw(page: Page) -> Figure:
    """Draw an axis for each combination of settings and a polygon for each method, over all and each environment."""
    settings = settings_of(page.scores.study)
    axes_names = sorted({setting for by_arm in settings.values() for setting in by_arm.values()}, key=str)
    if len(axes_names) < 3:
        raise NotDrawn("a radar plot needs arms of the same algorithm with three or more combinations of settings")
    study = page.scores.study
    several = len(study.environments) > 1
    parts: list[tuple[str, StudyScores]] = [("all environments" if several else study.environments[0], page.scores)]
    parts += list(zip(study.environments, page.scores.panels, strict=True)) if several else []
    names = [_named(setting) for setting in axes_names]
    widest = max(len(text) for name in names for text in name.split("\n"))
    columns = min(MOST_COLUMNS if widest <= LONGEST_BESIDE_OTHERS else 1, len(parts))
    rows = -(-len(parts) // columns)
    figure = new_figure(2.3 * rows, 5.5 if columns > 1 or widest > LONGEST_BESIDE_OTHERS else 3.6)
    handles: list[Any] = []
    labels: list[str] = []
    for index, (title, scores) in enumerate(parts):
        axes: Any = figure.add_subplot(rows, columns, index + 1, projection="polar")
        angles = np.linspace(0.0, 2 * math.pi, len(axes_names), endpoint=False)
        polygons = _polygons(scores, settings)
        for (name, lowest), values in polygons.items():
            look = page.looks[next(iter(settings[name]))]
            style = ":" if lowest else "-"
            heights = np.array([values.get(setting, np.nan) for setting in axes_names])
            closed = [*range(len(angles)), 0]
            axes.plot(angles[closed], heights[closed], color=look.colour, linestyle=style, marker="o", markersize=2.5)
            if index == 0:
                handles.append(line(look._replace(dashes=style)))
                labels.append(_method(scores, settings, name, lowest))
        everything = [value for values in polygons.values() for value in values.values()]
        low, high = min(everything), max(everything)
        margin = 0.15 * max(high - low, 1e-9)
        axes.set_ylim(low - margin, high + margin)
        axes.set_xticks(angles, labels=names)
        for angle, label in zip(angles, axes.get_xticklabels(), strict=True):  # beside the circle, not over it
            side = math.cos(angle)
            label.set_horizontalalignment("left" if side > 0.3 else "right" if side < -0.3 else "center")
        axes.tick_params(axis="x", pad=2)
        axes.set_yticks(MaxNLocator(nbins=4).tick_values(low, high)[1:-1])
        axes.set_rlabel_position(180 / len(axes_names))
        axes.set_title(title, pad=10)
    end = f"{page.scores.common_steps:,} steps"
    note = f"IQM of the {page.scores.scale.label} in the epoch that ends at {end}; {page.seeds}."
    legend_below(figure, handles, labels, note)
    return figure


def settings_of(study: StudyResults) -> dict[str, dict[str, Setting]]:
    """For each algorithm of which there are several arms, the settings in which these differ, by arm."""
    groups: dict[str, list[Arm]] = defaultdict(list)
    for arm in study.complete:
        groups[str(arm.config.get("algo"))].append(arm)
    found: dict[str, dict[str, Setting]] = {}
    for algo, arms in groups.items():
        names = sorted({*arms[0].settings}, key=list(arms[0].settings).index)
        varied = [name for name in names if len({repr(arm.settings.get(name)) for arm in arms}) > 1]
        if len(arms) > 1 and varied and arms[0].kind != "single":
            order = sorted(
                varied, key=lambda name: (name not in _SHORT, list(_SHORT).index(name) if name in _SHORT else 0)
            )
            found[algo] = {arm.name: tuple((name, arm.settings.get(name)) for name in order) for arm in arms}
    return found


def _polygons(
    scores: StudyScores, settings: dict[str, dict[str, Setting]]
) -> dict[tuple[str, bool], dict[Setting, float]]:
    """The final IQM at each setting; a population has a second polygon, that of its worst member."""
    found: dict[tuple[str, bool], dict[Setting, float]] = defaultdict(dict)
    for series in scores.series:
        for algo, by_arm in settings.items():
            if series.arm is not None and series.arm.name in by_arm:
                until = series.until(scores.common_steps)
                found[algo, _lowest(series)][by_arm[series.arm.name]] = float(iqm(pooled(until.final)))
    return found


def _lowest(series: Series) -> bool:
    return series.arm is not None and series.name == f"{series.arm.name}-min"


def _method(scores: StudyScores, settings: dict[str, dict[str, Setting]], algo: str, lowest: bool) -> str:
    arm = next(arm for arm in scores.study.arms if arm.name in settings[algo])
    plain = Arm(algo, arm.kind, {}, ()).label
    return plain if arm.kind != "population" else f"{plain}-{'min' if lowest else 'max'}"


def _named(setting: Setting) -> str:
    return "\n".join(f"{_SHORT.get(name, name.replace('_', ' '))} = {_plain(value)}" for name, value in setting)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
