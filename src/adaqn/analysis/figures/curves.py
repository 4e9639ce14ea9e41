"""IQM curves with intervals: the adaptive arm beside each single set of hyperparameters, and beside the other arms."""

from __future__ import annotations

from matplotlib.figure import Figure

from adaqn.analysis.bars import NAMED_SETS
from adaqn.analysis.page import INTERVAL, Page, draw_curve
from adaqn.analysis.scores import Series
from adaqn.analysis.style import legend_below, line, new_figure, short_step_axis


def draw(page: Page) -> Figure:
    """Draw one panel, or two where a study has single sets and other arms besides the main one."""
    series = page.scores.series
    single = [one for one in series if one.arm is not None and one.arm.kind == "single"]
    other = [one for one in series if one not in single]
    main = page.scores.main
    panels = [[*single, main], other] if single and main is not None and len(other) > 1 else [[*single, *other]]
    figure = new_figure(2.1 if len(panels) > 1 else 2.5, 5.5 if len(panels) > 1 else 4.4)
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, shown in zip(all_axes, panels, strict=True):
        for one in shown:
            crowded = one in single and len(single) > NAMED_SETS
            draw_curve(axes, page, one, shaded=not crowded)
        short_step_axis(axes, max(one.steps[-1] for one in shown))
        axes.grid()
    all_axes[0].set_ylabel(page.scores.scale.axis_label)
    handles, labels = curve_legend(page, [*other, *reversed(single)])
    legend_below(figure, handles, labels, f"{INTERVAL}; {page.seeds}.")
    return figure


def curve_legend(page: Page, series: list[Series]) -> tuple[list[object], list[str]]:
    """A line and a name for each series; many single sets have one entry together."""
    single = [one for one in series if one.arm is not None and one.arm.kind == "single"]
    together = single if len(single) > NAMED_SETS else []
    handles: list[object] = [line(page.look(one)) for one in series if one not in together]
    labels = [page.label(one) for one in series if one not in together]
    if together:
        darkest = min((page.look(one) for one in together), key=lambda look: sum(look.colour))
        handles.append(line(darkest))
        labels.append(f"{len(together)} single sets, darker: higher AUC")
    return handles, labels
