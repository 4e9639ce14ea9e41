"""The discount factor over time: that of the target member, or the one that a run learns, beside the returns."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from adaqn.analysis.discounts import discounts_of
from adaqn.analysis.loading import StudyRun
from adaqn.analysis.metrics import Floats, median, returns_per_epoch
from adaqn.analysis.page import INTERVAL, NotDrawn, Page, draw_curve
from adaqn.analysis.style import legend_below, line, new_figure, short_step_axis


def draw(page: Page) -> Figure:
    """Draw the returns and the discount of every run of the arms in which it changes, in each environment."""
    study = page.scores.study
    arms = [arm for arm in study.arms if all(discounts_of(run.data) is not None for run in arm.runs)]
    if not arms:
        raise NotDrawn("no arm has members with different discounts, or learns its discount")
    rows = len(study.environments)
    figure = new_figure(1.9 * rows)
    panels = figure.subplots(rows, 2, sharex="row", squeeze=False)
    for (left, right), panel in zip(panels, page.scores.panels, strict=True):
        name = panel.study.environments[0]
        shown = [one for one in panel.series if one.arm is not None and any(one.arm.name == arm.name for arm in arms)]
        for one in shown:
            draw_curve(left, page, one)
        for arm in arms:
            look, epochs = page.looks[arm.name], study.epochs(arm)
            curves = np.stack([discount_curve(run, study.epoch, epochs) for run in arm.on(name)])
            steps = study.epoch * np.arange(1.0, epochs + 1)
            right.plot(steps, curves.T, color=look.colour, linewidth=0.5, alpha=0.5)
            right.plot(steps, median(curves, axis=0), color=look.colour, linestyle=look.dashes, linewidth=1.6)
        for axes, what in ((left, "return"), (right, "discount")):
            short_step_axis(axes, max(float(one.steps[-1]) for one in shown))
            axes.set_ylabel(what)
            axes.grid()
        left.set_title(name)
        right.set_title("discount of the target")
    handles = [line(page.looks[arm.name]) for arm in arms]
    note = f"{INTERVAL}; {page.seeds}. Discounts: mean over each epoch; thin: one run, thick: median over runs."
    legend_below(figure, handles, [arm.label for arm in arms], note)
    return figure


def discount_curve(run: StudyRun, epoch: int, epochs: int) -> Floats:
    """The mean discount of the target in each epoch. [epochs]"""
    found = discounts_of(run.data)
    assert found is not None, "only arms whose discount changes are drawn"
    return returns_per_epoch(found.step, found.value, epoch, epochs)
