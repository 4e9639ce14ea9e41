"""Claims of the paper as data: what is compared, and what the runs of a study say about it.

A side of a comparison is the name of an arm, of one of its curves (`searl-max`), or a role: `best single` and `worst
single` are the arms with one set of hyperparameters that have the highest and lowest AUC, `each single` is all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from adaqn.analysis.metrics import Floats, auc
from adaqn.analysis.resampling import Interval, difference
from adaqn.analysis.scores import Series, StudyScores
from adaqn.analysis.selections import distribution, has_selections, labels_of
from adaqn.analysis.study import Arm
from adaqn.analysis.summary import Estimate, rounded

ENOUGH = 5  # seeds of each arm, below which an interval decides nothing
NOT_RUN = "not run yet"
BEST, WORST, EACH = "best single", "worst single", "each single"
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
        return Row(text, found.measured, verdict(found.gap, min(high.runs, low.runs)))


@dataclass(frozen=True)
class Similar:
    """Both sides perform alike, or the first one no better than the second."""

    text: str
    one: str
    other: str
    measure: Measure = "AUC"
    or_worse: bool = False
    or_better: bool = False

    def rows(self, scores: StudyScores) -> list[Row]:
        """A row for each pair."""
        pairs = [(one, other) for one in sides(scores, self.one) for other in sides(scores, self.other)]
        if not pairs:
            return [Row(self.text.format(one=self.one, other=self.other), NOT_RUN, "-")]
        return [self._row(scores, one, other) for one, other in pairs]

    def _row(self, scores: StudyScores, one: Series, other: Series) -> Row:
        found, seeds = compared(scores, one, other, self.measure), min(one.runs, other.runs)
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
    """The main arm has a better AUC than grid search at the same number of steps, those of all runs counted."""

    method: str

    def rows(self, scores: StudyScores) -> list[Row]:
        """One row, if there are single sets to search among."""
        main, searches, steps = scores.main, scores.searches, scores.common_steps
        if main is None or searches is None:
            return []
        own = searches.grid
        gap = difference(main.until(steps).scores, own.at_epochs(main.epoch, steps), then=auc)
        reached = np.flatnonzero(own.curve.value >= float(main.curve.value[-1]))
        last = int(own.steps[-1])
        when = f"after {int(own.steps[reached[0]]):,} steps" if len(reached) else f"not within {last:,} steps"
        choice = " (chosen and reported on the same seeds)" if searches.same_seeds else " (chosen on tuning seeds)"
        return [
            Row(
                f"{self.method} is more sample-efficient than grid search: better AUC over the same {steps:,} "
                f"steps{choice}",
                f"{self.method} minus grid search: {signed(gap)}. Grid search reaches {self.method}'s final IQM {when}",
                verdict(gap, min(main.runs, own.runs)),
            )
        ]


@dataclass(frozen=True)
class MainlySelects:
    """An arm's target is mostly the member that is best, or worst, when trained alone."""

    text: str
    arm: str
    single: Literal["best single", "worst single"]
    and_another: bool = False  # the claim also says that others are selected now and then

    def rows(self, scores: StudyScores) -> list[Row]:
        """One row."""
        arm = selecting_arms(scores).get(self.arm)
        alone = next(iter(sides(scores, self.single)), None)
        if arm is None or alone is None or alone.arm is None:
            return [Row(self.text, NOT_RUN, "-")]
        target, _ = shares(arm)
        labels = labels_of(arm)
        index = arm.members.index(alone.arm.members[0]) if alone.arm.members[0] in arm.members else -1
        measured = ", ".join(f"{label} {share:.0%}" for label, share in zip(labels, target, strict=True))
        which = self.single.removesuffix(" single")
        most = int(np.argmax(target)) == index
        hardly = self.and_another and float(np.delete(target, index).max()) < 0.005
        agrees = "**no**" if not most else "mainly yes, but hardly ever another" if hardly else "**yes**"
        return [Row(self.text, f"share of target updates: {measured}; {which} alone: {alone.label}", agrees)]


@dataclass(frozen=True)
class MoreDiverseBehaviour:
    """At the start of the run, the members that act are more diverse than those that are target."""

    text: str
    arm: str

    def rows(self, scores: StudyScores) -> list[Row]:
        """One row, if the arm has been run."""
        arm = selecting_arms(scores).get(self.arm)
        if arm is None:
            return []
        early = distribution(arm.runs, bins=10)
        target, acted = float(early.target[0].max()), float(early.behaviour[0].max())
        measured = f"largest share in the first tenth of the run: {target:.0%} as target, {acted:.0%} of the actions"
        return [Row(self.text, measured, "**yes**" if acted < target else "**no**")]


class Compared(NamedTuple):
    """Two sides and their difference."""

    measured: str
    gap: Interval


def compared(scores: StudyScores, one: Series, other: Series, measure: Measure = "AUC") -> Compared:
    """The difference of two curves over the steps that all arms have."""
    steps = scores.common_steps
    if measure == "AUC":
        gap = difference(one.until(steps).scores, other.until(steps).scores, then=auc)
        values = [float(side.area(steps).value) for side in (one, other)]
    else:
        ends = [side.until(steps) for side in (one, other)]
        gap = difference(ends[0].final, ends[1].final)
        values = [float(side.final_score.value) for side in ends]
    return Compared(f"{measure} {rounded(values[0])} against {rounded(values[1])}: difference {signed(gap)}", gap)


def sides(scores: StudyScores, name: str) -> list[Series]:
    """The curves that the side of a comparison names, the best first; none if they have not been run."""
    if name in (BEST, WORST, EACH):
        singles = [one for one in scores.series if one.arm is not None and one.arm.kind == "single"]
        singles.sort(key=lambda one: -float(one.area(scores.common_steps).value))
        return singles if name == EACH else singles[:1] if name == BEST else singles[-1:]
    return [one for one in scores.series if one.name == name]


def verdict(gap: Interval, seeds: int) -> str:
    """Whether a difference that is claimed to be above 0 is."""
    if seeds < ENOUGH:
        way = "points that way" if gap.value > 0.0 else "points the other way"
        return f"{way}, with {counted(seeds)}"
    if gap.low > 0.0:
        return "**yes**"
    return "**no**: the other way round" if gap.high < 0.0 else "not decided: the interval contains 0"


def counted(seeds: int) -> str:
    """So many seeds, in words."""
    return f"{seeds} {'seed' if seeds == 1 else 'seeds'}"


def signed(gap: Interval) -> str:
    """A difference with its interval and its sign."""
    estimate = Estimate.of(gap)
    return f"+{estimate}" if estimate.value > 0 else str(estimate)


def selecting_arms(scores: StudyScores) -> dict[str, Arm]:
    """The arms with several members that stay the same, by name."""
    return {arm.name: arm for arm in scores.study.arms if has_selections(arm)}


def shares(arm: Arm) -> tuple[Floats, Floats]:
    """The shares of the members in the target updates and in the actions of the whole of all runs."""
    found = distribution(arm.runs, bins=1)
    return found.target[0], found.behaviour[0]


def claims_table(claims: Sequence[Claim], scores: StudyScores) -> str:
    """A row of Markdown for each claim."""
    lines = ["| the paper says | measured here | does it agree? |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for claim in claims for row in claim.rows(scores)]
    return "\n".join(lines)
