"""The part of the page about a study."""

from __future__ import annotations

from collections import Counter

from adaqn.analysis.page import INTERVAL, Page
from adaqn.analysis.report import study_charts
from adaqn.analysis.report.charts import Charts
from adaqn.analysis.report.guard import guarded
from adaqn.analysis.report.markup import Markup, details, element, joined, notice
from adaqn.analysis.report.several import runs_table
from adaqn.analysis.report.sources import DAMAGE, StudySource
from adaqn.analysis.report.study_tables import failures, ranks_table, summary_rows, summary_words
from adaqn.analysis.scores import StudyScores
from adaqn.analysis.selected_values import has_evolution
from adaqn.analysis.selections import has_selections
from adaqn.analysis.study import Arm, results_of
from adaqn.analysis.summary import summary_of

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
            study_charts.ranking_chart(page), f"AUC of the IQM over {summary.steps:,} steps with its 95% interval"
        ), ranks_table(scores)])),
        element("h3", "Performance profiles"),
        guarded("The profiles", lambda: charts.place(
            study_charts.profiles_chart(page), "Share of runs whose score in the last common epoch is above τ"
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
        element("div", charts.place(study_charts.curves_chart(page, one), f"{name}: {note}"), class_="choice",
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
            target, behaviour = study_charts.shares_charts(page, arm, name)
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
    found = study_charts.values_charts(page, arm, environment)
    parts = [
        charts.place(chart, f"{label}: {name} of the target member, over all seeds") for name, chart in found.items()
    ]
    return element("div", *parts, class_="choice", data_label=label)
