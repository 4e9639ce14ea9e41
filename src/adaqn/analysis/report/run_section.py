"""The part of the page about one run."""

from __future__ import annotations

from collections.abc import Sequence

from adaqn.analysis.discounts import discounts_of
from adaqn.analysis.picture import current_members
from adaqn.analysis.report import run_charts
from adaqn.analysis.report.charts import Charts
from adaqn.analysis.report.guard import guarded
from adaqn.analysis.report.lineage import history_charts, lineage, lineage_chart, lineage_words, mutations_table
from adaqn.analysis.report.markup import Markup, details, element, joined, notice
from adaqn.analysis.report.resources import film, resource_charts
from adaqn.analysis.report.run_tables import configuration, members_table
from adaqn.analysis.report.sources import RunSource
from adaqn.analysis.report.trials import is_search, read_trials, trials_table, trials_words
from adaqn.analysis.report.verdict import verdict
from adaqn.analysis.style import member_colours
from adaqn.analysis.summary import rounded
from adaqn.runs.labels import loss_meaning, member_labels
from adaqn.runs.reading import RunData
from adaqn.runs.recorders.summary import FINAL_EPISODES

_STATUS = {
    "finished": "finished",
    "running": "still running",
    "interrupted": "not finished, and no process is working on it",
    "failed": "failed",
    "damaged": "damaged",
}


def run_section(source: RunSource, charts: Charts) -> Markup:
    """Everything about one run; what cannot be read is said."""
    parts: list[Markup] = [_facts(source), *(notice(f"About this run: {note}.") for note in source.notes)]
    if source.problem:
        kind = "This run failed" if source.status == "failed" else "This run is damaged"
        parts.append(notice(f"{kind}: {source.problem}"))
    if source.log:
        parts.append(details("The end of its log", element("pre", source.log), opened=True))
    if source.data is not None:
        parts += _content(source.data, charts)
    if source.run is not None:
        parts.append(element("h3", "Configuration"))
        parts.append(guarded("The configuration", lambda: configuration(source)))
    return joined(parts)


def _facts(source: RunSource) -> Markup:
    """Status, algorithm, steps, results and time in one line."""
    facts = [element("span", _STATUS[source.status], class_=f"status {source.status}")]
    data = source.data
    if data is not None:
        config, summary = data.config, data.summary or {}
        reached = max([0, *data.episodes.step[-1:].tolist(), *data.selection.step[-1:].tolist()])
        facts.append(element("span", f"{config.get('algo')} on {config.get('env')}, seed {config.get('seed')}"))
        steps, end = summary.get("steps"), config.get("steps")
        of = f"{end:,}" if isinstance(end, int) else end
        wanted = f"{steps:,} steps" if isinstance(steps, int) else f"{reached:,} of {of} steps"
        facts.append(element("span", wanted))
        facts.append(element("span", f"{len(data.episodes.step):,} episodes"))
        final = f"final return (mean of the last {min(FINAL_EPISODES, len(data.episodes.step)):,} episodes)"
        for name, label in (("final_return", final), ("auc_return", "mean return over the run")):
            if isinstance(summary.get(name), int | float):
                facts.append(element("span", f"{label} ", element("b", rounded(summary[name]), title=summary[name])))
        elapsed = source.run.seconds if source.run is not None else None
        if elapsed is not None:
            facts.append(element("span", f"{elapsed / 60:,.1f} minutes"))
    facts.append(element("span", source.path, class_="path"))
    return element("p", *facts, class_="facts")


def _content(data: RunData, charts: Charts) -> list[Markup]:
    parts = [element("h3", "Return"), guarded("The returns", lambda: _returns(data, charts))]
    if is_search(data):
        parts += [element("h3", "Trials"), guarded("The trials", lambda: _trials(data))]
    else:
        parts += [element("h3", "Members"), guarded("The members", lambda: _members(data, charts))]
    # The trials of a search also follow each other in members.jsonl, but do not descend from each other.
    if any(member.get("parent") is not None for line in data.members for member in line["members"]):
        parts += [element("h3", "Lineage"), guarded("The lineage", lambda: _lineage(data, charts))]
    parts += [element("h3", "Speed and memory"), guarded("Speed and memory", lambda: _resources(data, charts))]
    shown = guarded("The film", lambda: film(data.path) or Markup(""))
    return [*parts, element("h3", "Film"), shown] if shown else parts


def _returns(data: RunData, charts: Charts) -> Markup:
    if not len(data.episodes.step) and not len(data.evaluations.step):
        return notice("No episode has ended yet.")
    return charts.place(run_charts.returns_chart(data), label="returns over environment steps")


def _members(data: RunData, charts: Charts) -> Markup:
    members = current_members(data)
    if not members:
        return notice("No members are recorded yet.")
    labels = member_labels(members)
    # The two critics of a plain SAC or TD3 are always both in the target.
    chosen = len(members) > (2 if data.sums_up_selections and len(set(members)) == 1 else 1)
    words = verdict(data, labels if chosen else labels[:1])
    parts = [element("p", " ".join(words), class_="verdict"), members_table(data, members)]
    if chosen and len(data.selection.step):
        parts += _over_time(data, labels, charts)
    elif len(members) > 1 and len(data.selection.step):
        parts.append(_losses(data, labels, charts))
    if (discounts := discounts_of(data)) is not None and len(discounts.step):
        what = "that this run learns" if discounts.learned else "of the target member"
        parts.append(charts.place(run_charts.discounts_chart(discounts), f"Discount {what}, over time"))
    return joined(parts)


def _trials(data: RunData) -> Markup:
    trials = read_trials(data)
    words = element("p", " ".join(trials_words(trials)), class_="verdict")
    return joined([words, trials_table(trials)]) if trials else words


def _losses(data: RunData, labels: Sequence[str], charts: Charts) -> Markup:
    note = f"Cumulated loss by member: {loss_meaning(data.sums_up_selections)}. A click on a name hides its curve."
    return charts.place(run_charts.losses_chart(data, labels, member_colours(len(labels))), note)


def _over_time(data: RunData, labels: Sequence[str], charts: Charts) -> list[Markup]:
    pair = data.sums_up_selections
    target, behaviour = run_charts.share_charts(data, labels, member_colours(len(labels)))
    acted = "Who trained the actor" if pair else "Who acted"
    return [
        charts.place(target, "Who was in the target pair over time" if pair else "Who was target over time"),
        charts.place(behaviour, f"{acted} over time; the darker, the larger the share"),
        _losses(data, labels, charts),
    ]


def _lineage(data: RunData, charts: Charts) -> Markup:
    generations = lineage(data)
    last = max([generations[-1][0].step, *data.episodes.step[-1:].tolist(), *data.selection.step[-1:].tolist()])
    note = "A line leads from a parent to its child; points in colour are mutations, which the pointer describes."
    histories = [
        element("div", charts.place(chart, f"{name} over time: members, and the target"), class_="choice",
                data_label=name)
        for name, chart in history_charts(data, generations, last)
    ]  # fmt: skip
    return joined(
        [
            lineage_words(generations),
            charts.place(lineage_chart(generations), note),
            mutations_table(generations),
            element("div", *histories, class_="choices", data_label="hyperparameter"),
        ]
    )


def _resources(data: RunData, charts: Charts) -> Markup:
    found = resource_charts(data)
    if not found:
        return notice("There is no progress.csv with two rows or more, so speed and memory over time are not known.")
    return joined(charts.place(chart, note) for note, chart in found)
