"""The section of a report about one run: its result in words, charts, tables, and the use of resources."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from adaqn.analysis.discounts import discounts_of
from adaqn.analysis.picture import current_members, target_shares
from adaqn.analysis.report import run_charts
from adaqn.analysis.report.charts import Chart, Charts, colour, hover, new_chart, step_axis, table_of, thin
from adaqn.analysis.report.lineage import history_charts, lineage, lineage_chart, lineage_words, mutations_table
from adaqn.analysis.report.markup import Markup, details, element, guarded, joined, notice
from adaqn.analysis.report.run_tables import (
    configuration,
    is_search,
    members_table,
    read_trials,
    trials_table,
    trials_words,
)
from adaqn.analysis.report.sources import RunSource, is_inside
from adaqn.analysis.style import OKABE_ITO, member_colours
from adaqn.analysis.summary import rounded
from adaqn.runs.display.labels import loss_meaning, member_labels
from adaqn.runs.display.standings import acting_returns, history_of, selected_shares, selection_weights
from adaqn.runs.reading import RunData
from adaqn.runs.recorders.summary import FINAL_EPISODES

PARTS = 10  # stretches of the run in which the lead is compared


def verdict(run: RunData, labels: Sequence[str]) -> list[str]:
    """Sentences about the members of a run."""
    if len(labels) < 2:
        return _alone(run)
    if not len(run.selection.step):
        state = "has been made yet" if run.summary is None else "was recorded, as it is short"
        return [f"The run has {len(labels)} members, and no target update {state}."]
    rule = (run.config.get("settings") or {}).get("selection", "lowest")
    sentences = [*_winner(run, labels), *_margin(run, labels), *_returns_in_words(run, labels)]
    if rule != "lowest":
        sentences.append(f"The target was chosen by the rule “{rule}”, so a large share is no sign of a small error.")
    if run.member_evaluations is not None:
        meaning = (
            "To win means to have been the elite, the member with the highest return when a generation was evaluated; "
            "this is one run with one seed."
        )
        return [*sentences, meaning]
    sentences.append(
        "To win means to have predicted the shared target with the smallest error. It does not mean that the policy of "
        "the member has the highest return, nor that it would be the best one on its own: all members learned from the "
        "same experience and the same targets, and this is one run with one seed."
    )
    return sentences


def _alone(run: RunData) -> list[str]:
    """About a run whose members, one or a pair, have the same hyperparameters."""
    sentences = ["This run trains a single set of hyperparameters, so there was no target to choose."]
    if len(run.members) > 1:
        sentences.append(f"A schedule changed them {_times(len(run.members) - 1)}; the last ones are shown here.")
    discounts = discounts_of(run)
    if discounts is not None and discounts.learned and len(discounts.value):
        first, last = discounts.value[0], discounts.value[-1]
        sentences.append(f"It learned its discount, which went from {first:.4g} to {last:.4g}.")
    return sentences


def _percent(share: float) -> str:
    """A whole number of percent that does not turn some into none, or nearly all into all."""
    if 0.0 < share < 0.005:
        return "less than 1%"
    return "more than 99%" if 0.995 < share < 1.0 else f"{share:.0%}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _winner(run: RunData, labels: Sequence[str]) -> list[str]:
    shares = selected_shares(run)
    order = np.argsort(-shares, kind="stable")
    first, second = int(order[0]), int(order[1])
    so_far = "" if run.summary is not None else "So far, "
    updates = f"of the {len(run.selection.step):,} target updates"
    if run.sums_up_selections:
        updates = "of the updates (two members at a time, so the shares add up to 200%)"
    role = "in the target pair" if run.sums_up_selections else "the target"
    opening = f"{so_far}{'m' if so_far else 'M'}ember {first} ({labels[first]})"
    following = f"next is member {second} ({labels[second]}) with {_percent(shares[second])}"
    if not shares[second]:
        following = "no other member was" if len(run.members) < 2 else "no other one of the current members was"
    sentences = [
        f"{opening} {'leads' if so_far else 'won'}: it was {role} in {_percent(shares[first])} {updates}; {following}."
    ]
    if len(run.members) > 1:
        sentences.append(
            f"The members changed in {len(run.members) - 1:,} generations; a share counts only the target updates "
            "since the current member was created."
        )
    return [*sentences, _since(run, labels, first)]


def _since(run: RunData, labels: Sequence[str], winner: int) -> str:
    """From when on the winner was chosen most often, in stretches of a tenth of the run."""
    bins = min(PARTS, len(run.selection.step))
    shares, edges = target_shares(run.selection, len(labels), bins, selection_weights(run))
    leads = shares[winner] >= shares.max(axis=0)
    if not leads[-1]:
        last = int(np.argmax(shares[:, -1]))
        return (
            f"In the last tenth of the run, however, member {last} ({labels[last]}) was chosen more often, in "
            f"{shares[last, -1]:.0%} of the updates."
        )
    behind = np.flatnonzero(~leads)
    if not len(behind):
        return "It was chosen most often in every tenth of the run."
    return f"It has been chosen most often from about step {edges[behind[-1] + 1]:,.0f} on."


def _margin(run: RunData, labels: Sequence[str]) -> list[str]:
    """By how much the lowest loss is below the next one, at the end of the run."""
    losses = run.selection.loss[-max(1, len(run.selection.step) // PARTS) :]
    sound = np.isfinite(losses).all(axis=0)
    if sound.sum() < 2:
        return ["Fewer than two members have finite losses at the end, so their losses cannot be compared."]
    median = np.where(sound, np.median(np.where(np.isfinite(losses), losses, 0.0), axis=0), np.inf)
    first, second = (int(index) for index in np.argsort(median, kind="stable")[:2])
    more = f", {median[second] / median[first] - 1.0:.0%} higher" if median[first] > 0.0 else ""
    return [
        f"In the last tenth of the run, member {first} ({labels[first]}) had the smallest error: a median cumulated "
        f"loss of {median[first]:.4g}, against {median[second]:.4g} of member {second} ({labels[second]}){more}."
    ]


def _returns_in_words(run: RunData, labels: Sequence[str]) -> list[str]:
    acting = acting_returns(history_of(run))
    known = [(of.mean, of.episodes, member) for member, of in enumerate(acting) if of.mean is not None]
    if not known:
        return []
    mean, episodes, member = max(known)
    role = "trained the actor" if run.sums_up_selections else "acted"
    return [
        f"The episodes with the highest mean return are those in which member {member} ({labels[member]}) {role} most: "
        f"{rounded(mean)} over {episodes:,} {'episode' if episodes == 1 else 'episodes'}, at whatever time of the run "
        "they took place."
    ]


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
