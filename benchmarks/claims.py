"""Claims of the paper as data: what is compared, and what the runs of a study say about it.

A side of a comparison is the name of an arm, of one of its curves (`searl-max`), or a role: `best single` and `worst
single` are the arms with one set of hyperparameters that have the highest and lowest AUC, `each single` is all of them,
and `not the best` and `not the worst` are all but one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from adaqn.analysis.metrics import auc
from adaqn.analysis.resampling import Interval, difference
from adaqn.analysis.scores import Series, StudyScores
from adaqn.analysis.study import Arm
from adaqn.analysis.summary import Estimate, rounded

ENOUGH = 5  # seeds of each arm, below which an interval decides nothing
NOT_RUN = "not run yet"
BEST, WORST, EACH = "best single", "worst single", "each single"
NOT_BEST, NOT_WORST = "not the best", "not the worst"
Measure = Literal["AUC", "final IQM"]


class Row(NamedTuple):
    """A row of the table."""

    claim: str
    measured: str
    verdict: str


class Claim(Protocol):
    """Something that the paper says."""

    def rows(self, scores: StudyScores) -> list[Row]:
        """What was measured, and whether it agrees."""
        ...


@dataclass(frozen=True)
class Higher:
    """One side is better than the other; `{high}` and `{low}` in the text are their labels."""

    text: str
    high: str
    low: str
    measure: Measure = "AUC"

    def rows(self, scores: StudyScores) -> list[Row]:
        """A row for each pair."""
        pairs = [(high, low) for high in sides(scores, self.high) for low in sides(scores, self.low)]
        if not pairs:
            return [Row(self.text.format(high=self.high, low=self.low), NOT_RUN, "-")]
        return [self._row(scores, high, low) for high, low in pairs]

    def _row(self, scores: StudyScores, high: Series, low: Series) -> Row:
        found = compared(scores, high, low, self.measure)
        text = self.text.format(high=high.label, low=low.label)
        return Row(text, found.measured, verdict(found.gap, seeds_of(high, low)))


@dataclass(frozen=True)
class Similar:
    """Both sides perform alike, or the first one no better than the second."""

    text: str
    one: str
    other: str
    measure: Measure = "AUC"
    or_worse: bool = False
    or_better: bool = False
    after: float = 1.0  # of the steps, at which the first side is taken; the other one is taken at the end

    def rows(self, scores: StudyScores) -> list[Row]:
        """A row for each pair."""
        pairs = [(one, other) for one in sides(scores, self.one) for other in sides(scores, self.other)]
        if not pairs:
            return [Row(self.text.format(one=self.one, other=self.other), NOT_RUN, "-")]
        return [self._row(scores, one, other) for one, other in pairs]

    def _row(self, scores: StudyScores, one: Series, other: Series) -> Row:
        found, seeds = compared(scores, one, other, self.measure, self.after), seeds_of(one, other)
        if seeds < ENOUGH:
            agrees = f"not decided, with {counted(seeds)}"
        elif found.gap.low > 0.0:
            agrees = "**yes**: even higher" if self.or_better else "**no**: higher"
        elif found.gap.high < 0.0:
            agrees = "**yes**: even lower" if self.or_worse else "**no**: lower"
        else:
            agrees = "no difference shown: the interval contains 0"
        return Row(self.text.format(one=one.label, other=other.label), found.measured, agrees)


@dataclass(frozen=True)
class MoreSampleEfficient:
    """The main arm has a better AUC than grid and random search at the same number of steps, all runs counted."""

    method: str
    remark: str = ""  # where the paper claims it, if not for this experiment

    def rows(self, scores: StudyScores) -> list[Row]:
        """A row for each search, if there are single sets to search among."""
        main, searches = scores.main, scores.searches
        if main is None or searches is None:
            return []
        choice = "chosen and reported on the same seeds" if searches.same_seeds else "chosen on tuning seeds"
        return [
            self._row(scores, main, searches.grid, choice),
            self._row(scores, main, searches.random, f"in expectation; {choice}"),
        ]

    def _row(self, scores: StudyScores, main: Series, search: Series, how: str) -> Row:
        steps, name = scores.common_steps, search.label.lower()
        gap = difference(main.until(steps).scores, search.at_epochs(main.epoch, steps), then=auc)
        reached = np.flatnonzero(search.curve.value >= float(main.curve.value[-1]))
        last = int(search.steps[-1])
        when = f"after {int(search.steps[reached[0]]):,} steps" if len(reached) else f"not within {last:,} steps"
        return Row(
            f"{self.method} is more sample-efficient than {name}: better AUC over the same {steps:,} steps ({how})"
            f"{self.remark}",
            f"{self.method} minus {name}: {signed(gap)}. {search.label} reaches {self.method}'s final IQM {when}",
            verdict(gap, seeds_of(main, search)),
        )


class Compared(NamedTuple):
    """Two sides and their difference."""

    measured: str
    gap: Interval


def compared(scores: StudyScores, one: Series, other: Series, measure: Measure = "AUC", after: float = 1.0) -> Compared:
    """The difference of two curves over the steps that all arms have, or of the first one over a part of them."""
    steps = scores.common_steps
    if measure == "AUC":
        assert after == 1.0  # areas over different steps are not comparable
        gap = difference(one.until(steps).scores, other.until(steps).scores, then=auc)
        values = [float(side.area(steps).value) for side in (one, other)]
    else:
        ends = [one.until(after * steps), other.until(steps)]
        gap = difference(ends[0].final, ends[1].final)
        values = [float(side.final_score.value) for side in ends]
        if after < 1.0:
            measure_of_one = f"IQM at {int(ends[0].steps[-1]):,} steps"
            text = f"{measure_of_one} {rounded(values[0])} against {measure} {rounded(values[1])}"
            return Compared(f"{text}: difference {signed(gap)}", gap)
    return Compared(f"{measure} {rounded(values[0])} against {rounded(values[1])}: difference {signed(gap)}", gap)


def sides(scores: StudyScores, name: str) -> list[Series]:
    """The curves that the side of a comparison names, the best first; none if they have not been run."""
    if name in (BEST, WORST, EACH, NOT_BEST, NOT_WORST):
        singles = [one for one in scores.series if one.arm is not None and one.arm.kind == "single"]
        singles.sort(key=lambda one: -float(one.area(scores.common_steps).value))
        chosen = {BEST: singles[:1], WORST: singles[-1:], NOT_BEST: singles[1:], NOT_WORST: singles[:-1]}
        return chosen.get(name, singles)
    return [one for one in scores.series if one.name == name]


def verdict(gap: Interval, seeds: int) -> str:
    """Whether a difference that is claimed to be above 0 is."""
    if seeds < ENOUGH:
        way = "points that way" if gap.value > 0.0 else "points the other way"
        return f"{way}, with {counted(seeds)}"
    if gap.low > 0.0:
        return "**yes**"
    return "**no**: the other way round" if gap.high < 0.0 else "not decided: the interval contains 0"


def seeds_of(*sides: Series | Arm) -> int:
    """The fewest seeds that one of the sides has in an environment."""
    return min(
        min(Counter(run.environment for run in side.runs).values())
        if isinstance(side, Arm)
        else min(len(task) for task in side.scores)
        for side in sides
    )


def counted(seeds: int) -> str:
    """So many seeds, in words."""
    return f"{seeds} {'seed' if seeds == 1 else 'seeds'}"


def signed(gap: Interval) -> str:
    """A difference with its interval and its sign."""
    estimate = Estimate.of(gap)
    return f"+{estimate}" if estimate.value > 0 else str(estimate)


def claims_table(claims: Sequence[Claim], scores: StudyScores) -> str:
    """A row of Markdown for each claim."""
    lines = ["| the paper says | measured here | does it agree? |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for claim in claims for row in claim.rows(scores)]
    return "\n".join(lines)
