"""A study in words and tables: the summary, the ranks, and the runs that failed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adaqn.analysis.metrics import auc, iqm
from adaqn.analysis.report.markup import Cell, Markup, details, element, joined, notice, table
from adaqn.analysis.report.sources import RunSource
from adaqn.analysis.report.study_charts import ranked
from adaqn.analysis.scores import StudyScores
from adaqn.analysis.summary import Estimate, Row, StudySummary, rounded

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
