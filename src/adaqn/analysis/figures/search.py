"""Grid and random search against the adaptive arm, with every environment step counted, and their worst seeds."""

from __future__ import annotations

from matplotlib.figure import Figure

from adaqn.analysis.page import INTERVAL, NotDrawn, Page, draw_curve
from adaqn.analysis.style import GREY, Look, legend_below, line, new_figure, short_step_axis


def draw(page: Page) -> Figure:
    """Draw the main arm, grid search at the steps of all its runs, and random search in expectation."""
    main, searches = page.scores.main, page.scores.searches
    if main is None:
        raise NotDrawn("no arm adapts, so there is nothing to compare grid and random search with")
    if searches is None:
        raise NotDrawn("grid and random search need two or more arms with one set of hyperparameters, on common seeds")
    figure = new_figure(2.4, 4.6)
    axes = figure.subplots()
    shown = [main, searches.grid, searches.random]
    for one in shown:
        draw_curve(axes, page, one)
        look = page.look(one)
        if one is not searches.random:  # an expectation has no seed of its own
            axes.plot(one.steps, one.worst, color=look.colour, linestyle=":", linewidth=0.9)
    short_step_axis(axes, searches.grid.steps[-1], "environment steps, those of all runs counted")
    axes.set_ylabel(page.scores.scale.axis_label)
    axes.grid()
    handles = [line(page.look(one)) for one in shown]
    handles.append(line(Look(GREY, ":"), linewidth=0.9))
    labels = [
        main.label,
        f"Grid search ({len(page.scores.study.grid)} sets)",
        "Random search (expectation)",
        "worst seed",
    ]
    choice = (
        "Grid and random search choose on the seeds that they are reported on, which favours them"
        if searches.same_seeds
        else "Grid and random search choose on tuning seeds and are reported on others"
    )
    legend_below(figure, handles, labels, f"{INTERVAL}; {page.seeds}. {choice}.")
    return figure
