"""The section of a report about a study or several runs: charts, tables, and what they show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from adaqn.analysis.bars import bins_for, colours_of
from adaqn.analysis.figures.profiles import POINTS
from adaqn.analysis.metrics import Floats, auc, iqm, mean, performance_profile
from adaqn.analysis.page import INTERVAL, Page
from adaqn.analysis.picture import running_mean
from adaqn.analysis.report.charts import (
    Chart,
    Charts,
    colour,
    dashes,
    hover,
    legend_below,
    new_chart,
    short,
    step_axis,
    table_of,
    thin,
)
from adaqn.analysis.report.markup import Cell, Markup, details, element, guarded, joined, notice, table
from adaqn.analysis.report.sources import DAMAGE, RunSource, StudySource
from adaqn.analysis.resampling import interval
from adaqn.analysis.scores import RANDOM, Series, StudyScores
from adaqn.analysis.selections import distribution, has_evolution, has_selections, labels_of, value_distributions
from adaqn.analysis.study import Arm, results_of
from adaqn.analysis.style import member_colours
from adaqn.analysis.summary import Estimate, Row, StudySummary, rounded, summary_of

WINDOW = 20  # episodes that a curve is averaged over
MOST_CURVES, CURVE_POINTS = 40, 500


def comparison(runs: Sequence[RunSource], charts: Charts) -> Markup:
    """The table of runs, and the running mean of the returns of each, by environment."""
    parts = [runs_table(runs)]
    environments = dict.fromkeys(str(run.run.environment) for run in runs if run.run is not None and run.data)
    for name in environments:
        own = [run for run in runs if run.run is not None and run.run.environment == name and run.data is not None]
        parts.append(element("h3", name))
        parts.append(_curves_of_runs(own[:MOST_CURVES], charts))
    return joined(parts)


def _curves_of_runs(runs: Sequence[RunSource], charts: Charts) -> Markup:
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


def curves_chart(page: Page, scores: StudyScores) -> Chart:
    """The IQM of every arm, and of grid and random search, with their intervals."""
    chart = new_chart("environment steps", scores.scale.label, height=380)
    step_axis(chart)
    searches = scores.searches
    every = [*scores.series, *([] if searches is None else [searches.grid, searches.random])]
    entries = []
    for series in every:
        look, curve = page.look(series), series.curve
        label = page.label(series)
        source = table_of(
            step=series.steps, value=curve.value, low=curve.low, high=curve.high, arm=[label] * series.epochs
        )
        ink = colour(look.colour)
        band = chart.varea("step", "low", "high", fill_color=ink, fill_alpha=0.15, source=source)
        # On the page, the black of grid search is as grey as random search.
        dash = "dotted" if series.name == RANDOM else dashes(look)
        line = chart.line("step", "value", color=ink, line_dash=dash, line_width=2, source=source)
        drawn = [line, band]
        if series.epochs == 1:
            drawn.append(chart.scatter("step", "value", color=ink, size=7, source=source))
        tips = {"arm": "@arm", "step": "@step{0,0}", "IQM": "@value{0,0.00} [@low{0,0.00}, @high{0,0.00}]"}
        hover(chart, [line], tips)
        entries.append((label, drawn))
    legend_below(chart, entries)
    return chart


def shares_charts(page: Page, arm: Arm, environment: str) -> tuple[Chart, Chart]:
    """Which members were target, and which acted, over time and over all seeds."""
    found = distribution(arm.on(environment), bins_for(page.scores.study.epochs(arm)))
    labels, colours = labels_of(arm), [colour(one) for one in colours_of(page, arm)]
    names = [f"{member}: {label}" for member, label in enumerate(labels)]
    return (
        _stacked(found.edges, found.target, names, colours, "share of target updates", "member"),
        _stacked(found.edges, found.behaviour, names, colours, "share of acting", "member"),
    )


def values_charts(page: Page, arm: Arm, environment: str) -> dict[str, Chart]:
    """For each hyperparameter that varies in a space: which values the target member had, over time and all seeds."""
    found = value_distributions(arm.on(environment), bins_for(page.scores.study.epochs(arm)))
    charts = {}
    for name, (edges, values, shares) in found.items():
        colours = [colour(one) for one in member_colours(len(values))]
        charts[name] = _stacked(edges, shares, values, colours, "share of target updates", name)
    return charts


def _stacked(
    edges: Floats, shares: Floats, labels: Sequence[str], colours: Sequence[str], what: str, kind: str
) -> Chart:
    chart = new_chart("environment steps", what, height=220, y_range=(0.0, 1.0))
    step_axis(chart)
    bottom = np.zeros(len(shares))
    entries = []
    for part, (label, ink) in enumerate(zip(labels, colours, strict=True)):
        top = bottom + shares[:, part]
        bars = chart.quad(
            left="left", right="right", bottom="bottom", top="top", color=ink, line_color="white", line_width=0.3,
            source=table_of(
                left=edges[:-1], right=edges[1:], bottom=bottom, top=top, share=100.0 * shares[:, part],
                label=[label] * len(top),
            ),
        )  # fmt: skip
        hover(chart, [bars], {kind: "@label", "steps": "@left{0,0} to @right{0,0}", what: "@share{0.0} %"})
        entries.append((label, [bars]))
        bottom = top
    legend_below(chart, entries)
    return chart


def ranked(scores: StudyScores) -> list[Series]:
    """The arms, highest AUC first."""
    return sorted(scores.series, key=lambda one: -float(one.area(scores.common_steps).value))


def ranking_chart(page: Page) -> Chart:
    """The AUC of every arm with its interval, highest on top."""
    order, steps = ranked(page.scores), page.scores.common_steps
    chart = new_chart(page.scores.scale.label, "", height=120 + 26 * len(order), y_range=(len(order) - 0.5, -0.5))
    chart.yaxis.ticker = list(range(len(order)))
    chart.yaxis.major_label_overrides = {row: short(one.label, 22) for row, one in enumerate(order)}
    areas = [one.area(steps) for one in order]
    source = table_of(
        row=np.arange(len(order)), value=[float(area.value) for area in areas], low=[float(a.low) for a in areas],
        high=[float(a.high) for a in areas], arm=[one.label for one in order],
        colour=[colour(page.look(one).colour) for one in order],
    )  # fmt: skip
    chart.segment("low", "row", "high", "row", color="colour", line_width=6, alpha=0.5, source=source)
    dots = chart.scatter("value", "row", color="colour", size=9, source=source)
    hover(chart, [dots], {"arm": "@arm", "AUC": "@value{0,0.00} [@low{0,0.00}, @high{0,0.00}]"})
    return chart


def profiles_chart(page: Page) -> Chart:
    """The share of runs whose score in the last common epoch is above each threshold."""
    series = [one.until(page.scores.common_steps) for one in page.scores.series]
    everything = np.concatenate([task for one in series for task in one.final])
    margin = 0.03 * max(float(np.ptp(everything)), 1e-9)
    thresholds = np.linspace(everything.min() - margin, everything.max() + margin, POINTS)
    chart = new_chart(f"{page.scores.scale.label} τ", "share of runs above τ")
    entries = []
    for one in series:
        look, label = page.look(one), page.label(one)
        bounds = interval([(task[:, None] > thresholds).astype(np.float64) for task in one.final], mean)
        share = performance_profile(list(one.final), thresholds)
        source = table_of(τ=thresholds, share=share, low=bounds.low, high=bounds.high, arm=[label] * len(thresholds))
        ink = colour(look.colour)
        band = chart.varea("τ", "low", "high", fill_color=ink, fill_alpha=0.1, source=source)
        line = chart.line("τ", "share", color=ink, line_dash=dashes(look), line_width=2, source=source)
        hover(chart, [line], {"arm": "@arm", "above": "@τ{0,0.00}", "share": "@share{0.00}"})
        entries.append((label, [line, band]))
    legend_below(chart, entries)
    return chart


MOST_LOGS = 20
ENOUGH_SEEDS = 10  # with fewer, bootstrap intervals cover the true value clearly less often than they say


def summary_words(summary: StudySummary) -> Markup:
    """How the main arm compares with the others, and what the intervals do not cover."""
    main = next((row for row in summary.rows if row.series == summary.main), None)
    over = f"over {summary.steps:,} steps in {', '.join(summary.environments)}"
    if main is None:
        best = max(summary.rows, key=lambda row: row.auc.value)
        sentences = [f"{best.label} has the highest AUC {over}: {best.auc}; no arm of this study adapts."]
    else:
        sentences = [f"{main.label} reached a final IQM of {main.final} and an AUC of {main.auc} {over}."]
        others = [(row, row.auc_behind_main) for row in summary.rows if row.auc_behind_main is not None]
        above = [row.label for row, behind in others if behind.low > 0.0]
        below = [row.label for row, behind in others if behind.high < 0.0]
        open_ = [row.label for row, behind in others if behind.low <= 0.0 <= behind.high]
        for labels, what in ((above, "higher than that of"), (below, "lower than that of")):
            if labels:
                sentences.append(
                    f"In these runs its AUC was {what} {_listed(labels)}: the 95% interval of the difference excludes "
                    "0."
                )
        if open_:
            sentences.append(f"These runs do not tell it apart from {_listed(open_)}.")
    sentences.append(_seeds_words(summary))
    if summary.chosen_on_reported_seeds:
        sentences.append("Grid and random search chose on the seeds that they are reported on, which flatters them.")
    return element("p", " ".join(sentences), class_="verdict")


def _seeds_words(summary: StudySummary) -> str:
    """How many seeds the intervals rest on, and so how much they can say."""
    seeds = [max(1, row.runs // len(summary.environments)) for row in summary.rows]
    fewest, most = min(seeds), max(seeds)
    counts = f"{fewest} {'seed' if most == 1 else 'seeds'}" if fewest == most else f"{fewest} to {most} seeds"
    words = f"This rests on {counts} per arm{' and environment' if len(summary.environments) > 1 else ''}"
    if fewest < ENOUGH_SEEDS:
        words += (
            f", which is few: bootstrap intervals over fewer than {ENOUGH_SEEDS} seeds are too narrow, so take a "
            "difference as an indication that more seeds may confirm or not"
        )
    return (
        f"{words}. The intervals are stratified bootstrap intervals over the seeds: they say nothing about other "
        "environments or settings, and they are not corrected for the number of comparisons."
    )


def _listed(names: Sequence[str]) -> str:
    between = "; " if any("," in name for name in names) else ", "  # AdaDQN, ε_b = 0
    return names[0] if len(names) == 1 else f"{between.join(names[:-1])} and {names[-1]}"


def summary_rows(summary: StudySummary) -> Markup:
    """The table that `adaqn figures` writes as summary.json."""
    header = [
        "arm", "runs", "final IQM [95%]", "AUC [95%]", "worst seed: final", "worst seed: AUC", "main's AUC − this",
        "main has higher AUC", "steps/run", "minutes/run",
    ]  # fmt: skip
    main = [index for index, row in enumerate(summary.rows) if row.series == summary.main]
    return table(header, [_row(row) for row in summary.rows], sortable=True, emphasised=main, identifier="summary")


def _row(row: Row) -> list[object]:
    seconds = row.seconds_per_run
    return [
        row.label,
        Cell(row.runs, row.runs),
        _estimate(row.final),
        _estimate(row.auc),
        Cell(rounded(row.worst_final), row.worst_final),
        Cell(rounded(row.worst_auc), row.worst_auc),
        _estimate(row.auc_behind_main),
        _estimate(row.main_improves),
        Cell(f"{row.steps_per_run:,}", row.steps_per_run),
        Cell("–" if seconds is None else rounded(seconds / 60), seconds),
    ]


def _estimate(value: Estimate | None) -> Cell:
    if value is None:
        return Cell("–", None)
    number, _, bounds = str(value).partition(" ")
    return Cell(joined([f"{number} ", element("span", bounds, class_="interval")]), value.value)


def ranks_table(scores: StudyScores) -> Markup:
    """The rank of every arm by AUC, in each environment and over all."""
    order, environments, epochs = ranked(scores), scores.study.environments, scores.study.common_epochs
    areas = np.array([[float(auc(iqm(task, axis=0)[:epochs])) for task in one.scores] for one in order])
    ranks = (-areas).argsort(axis=0, kind="stable").argsort(axis=0, kind="stable") + 1  # [series, environments]
    rows = [
        [Cell(place + 1, place + 1), one.label, *(Cell(int(rank), int(rank)) for rank in ranks[place])]
        for place, one in enumerate(order)
    ]
    header = ["rank", "arm", *(f"in {name}" for name in environments)]
    return table(header, rows, sortable=True)


def failures(runs: Sequence[RunSource]) -> Markup | None:
    """Why runs failed or cannot be read, with the ends of their logs."""
    bad = [run for run in runs if run.status in ("failed", "damaged")]
    if not bad:
        return None
    parts = []
    for number, run in enumerate(bad):
        title = f"{run.name} {'failed' if run.status == 'failed' else 'is damaged'}: {run.problem or 'no reason known'}"
        log = element("pre", run.log) if run.log and number < MOST_LOGS else element("p", "There is no log of it here.")
        parts.append(details(title, log, opened=len(bad) <= 3))
    if len(bad) > MOST_LOGS:
        parts.append(notice(f"Logs are shown of the first {MOST_LOGS} only."))
    return joined(parts)


MOST_SHARES = 40  # pairs of charts of the members


def study_section(study: StudySource, charts: Charts, epoch: int | None) -> Markup:
    """Everything about a study; runs that cannot be read are left out of the statistics, and named."""
    parts = [_facts(study)]
    parts += [notice(f"About {run.name}: {note}.") for run in study.runs for note in run.notes[:1]][:5]
    parts.append(guarded("The results", lambda: _results(study, charts, epoch)))
    failed = failures(study.runs)
    if failed is not None:
        parts += [element("h3", "Failures"), failed]
    parts += [element("h3", "Runs"), runs_table(study.runs)]
    parts.append(element("p", "adaqn report on the directory of one run shows that run in detail.", class_="soft"))
    return joined(parts)


def _facts(study: StudySource) -> Markup:
    counts = Counter(run.status for run in study.runs)
    states = [element("span", f"{count} {status}", class_=f"status {status}") for status, count in counts.items()]
    return element("p", *states, element("span", study.root, class_="path"), class_="facts")


def _results(study: StudySource, charts: Charts, epoch: int | None) -> Markup:
    readable = [source.run for source in study.runs if source.run is not None and source.data is not None]
    readable.sort(key=lambda run: (run.study, run.arm, run.environment, run.seed, str(run.path)))
    if not any(run.summary is not None for run in readable):
        return notice("No run of this study is finished, so there is nothing to compare yet.")
    page = Page(StudyScores(results_of(study.root, readable, epoch)))
    scores = page.scores
    summary = summary_of(scores)
    what = (
        f"Scores: {summary.score}, averaged over epochs of {summary.epoch:,} steps and compared over "
        f"{summary.steps:,} steps; in brackets, 95% stratified bootstrap intervals. The worst seed is the one with the "
        "lowest AUC, averaged over the environments. The bold arm is the main one."
    )
    parts = [
        element("p", f"{scores.study.name}: {scores.study.about}") if scores.study.about else Markup(""),
        summary_words(summary),
        element("h3", "Summary"),
        summary_rows(summary),
        element("p", what, class_="soft"),
        _left_out(study, summary.left_out),
        element("h3", "Learning curves"),
        guarded("The curves", lambda: _curves(page, charts)),
        element("h3", "Selected members"),
        guarded("The selected members", lambda: _shares(page, charts)),
        element("h3", "Ranking"),
        guarded("The ranking", lambda: joined([charts.place(
            ranking_chart(page), f"AUC of the IQM over {summary.steps:,} steps with its 95% interval"
        ), ranks_table(scores)])),
        element("h3", "Performance profiles"),
        guarded("The profiles", lambda: charts.place(
            profiles_chart(page), "Share of runs whose score in the last common epoch is above τ"
        )),
    ]  # fmt: skip
    return joined(parts)


def _left_out(study: StudySource, reasons: tuple[str, ...]) -> Markup:
    said = [*reasons, *(f"{run.path} is damaged" for run in study.runs if run.status == "damaged")]
    if not said:
        return Markup("")
    items = element("ul", *(element("li", reason) for reason in said))
    return details(f"{len(said)} left out of these statistics", items, opened=len(said) <= 5)


def _curves(page: Page, charts: Charts) -> Markup:
    scores = page.scores
    note = f"{INTERVAL}; {page.seeds}. A click on a name hides its curve."
    environments = scores.study.environments
    panels = scores.panels if len(environments) > 1 else []
    shown = [("all environments" if panels else ", ".join(environments), scores)]
    shown += list(zip(environments, panels, strict=False))
    choices = [
        element("div", charts.place(curves_chart(page, one), f"{name}: {note}"), class_="choice",
                data_label=name)
        for name, one in shown
    ]  # fmt: skip
    return element("div", *choices, class_="choices", data_label="environment")


def _shares(page: Page, charts: Charts) -> Markup:
    study = page.scores.study
    arms = sorted((arm for arm in study.arms if has_selections(arm)), key=lambda arm: arm is not study.main)
    choices = []
    for arm, name in [(arm, name) for arm in arms for name in study.environments if arm.on(name)][:MOST_SHARES]:
        try:
            target, behaviour = shares_charts(page, arm, name)
        except DAMAGE as error:
            choices.append(notice(f"{arm.label} in {name} cannot be shown: {error}"))
            continue
        label = f"{arm.label} in {name}"
        pair = [charts.place(target, f"{label}: who was target, over all seeds"),
                charts.place(behaviour, f"{label}: who acted, over all seeds")]  # fmt: skip
        choices.append(element("div", *pair, class_="choice", data_label=label))
    evolving = sorted((arm for arm in study.arms if has_evolution(arm)), key=lambda arm: arm is not study.main)
    for arm, name in [(arm, name) for arm in evolving for name in study.environments if arm.on(name)]:
        if len(choices) >= MOST_SHARES:
            break
        label = f"{arm.label} in {name}"
        choices.append(guarded(label, lambda arm=arm, name=name, label=label: _values(page, charts, arm, name, label)))
    if not choices:
        return notice("No arm has several members and target updates.")
    return element("div", *choices, class_="choices", data_label="arm")


def _values(page: Page, charts: Charts, arm: Arm, environment: str, label: str) -> Markup:
    """The selected values of each hyperparameter, for an arm whose members change."""
    found = values_charts(page, arm, environment)
    parts = [
        charts.place(chart, f"{label}: {name} of the target member, over all seeds") for name, chart in found.items()
    ]
    return element("div", *parts, class_="choice", data_label=label)
