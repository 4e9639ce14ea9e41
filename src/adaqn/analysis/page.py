"""What all figures of a study share: its scores, one look for each arm, and how a curve is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from matplotlib.axes import Axes

from adaqn.analysis.metrics import auc, iqm, pooled
from adaqn.analysis.scores import GRID, RANDOM, Series, StudyScores
from adaqn.analysis.style import BLACK, GREY, Look, looks

INTERVAL = "Lines: IQM; shaded: 95% stratified bootstrap intervals"


class NotDrawn(Exception):
    """The study does not have what a figure shows; the message says what is missing."""


@dataclass(frozen=True)
class Page:
    """What every figure of a study is drawn from."""

    scores: StudyScores

    @cached_property
    def looks(self) -> dict[str, Look]:
        """By the name of an arm, the same in all figures; single sets are the darker the higher their AUC is."""
        arms = self.scores.study.arms
        areas = {
            series.arm.name: float(auc(iqm(pooled(series.scores), axis=0)))
            for series in self.scores.series
            if series.arm is not None
        }
        shaded = sorted(
            (arm.name for arm in arms if arm.kind == "single"), key=lambda name: areas.get(name, float("-inf"))
        )
        found = looks([arm.name for arm in arms if arm.kind != "single"], shaded)
        return found | {GRID: Look(BLACK), RANDOM: Look(GREY)}

    def look(self, series: Series) -> Look:
        """How a curve is drawn; that of SEARL's worst member is dotted."""
        own = self.looks[series.name if series.arm is None else series.arm.name]
        lowest = series.arm is not None and series.name == f"{series.arm.name}-min"
        return own._replace(dashes=":") if lowest else own

    def label(self, series: Series) -> str:
        """What a legend calls a curve."""
        search = series.arm is not None and series.arm.kind == "search"
        return f"{series.label} (best so far)" if search else series.label

    @cached_property
    def seeds(self) -> str:
        """How many runs are behind the curves."""
        counts = sorted({len(task) for series in self.scores.series for task in series.scores})
        many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        each = " per environment" if len(self.scores.study.environments) > 1 else ""
        return f"{many} {'seed' if counts == [1] else 'seeds'}{each}"


def draw_curve(axes: Axes, page: Page, series: Series, shaded: bool = True) -> None:
    """The IQM of a series, and its interval as a shaded region."""
    look, curve = page.look(series), series.curve
    marker = "o" if series.epochs == 1 else None
    axes.plot(series.steps, curve.value, color=look.colour, linestyle=look.dashes, marker=marker)
    if shaded:
        axes.fill_between(series.steps, curve.low, curve.high, color=look.colour, alpha=0.18, linewidth=0)
