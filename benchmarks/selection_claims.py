"""Claims of the paper about which members are selected, judged by the shares that the runs counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from adaqn.analysis.metrics import Floats
from adaqn.analysis.scores import StudyScores
from adaqn.analysis.selections import distribution, has_selections, labels_of
from adaqn.analysis.study import Arm
from benchmarks.claims import ENOUGH, NOT_RUN, WORST, Row, counted, seeds_of, sides

MAINLY = 0.5  # of the target updates, above which a member is mainly selected


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
        own = float(target[index]) if index >= 0 else 0.0
        hardly = self.and_another and float(np.delete(target, index).max()) < 0.005
        agrees = observed(own > MAINLY, seeds_of(arm))
        if agrees == "**yes**" and hardly:
            agrees = "mainly yes, but hardly ever another"
        elif own <= MAINLY and own == target.max():
            agrees += ", though no other more often"
        return [Row(self.text, f"share of target updates: {measured}; {which} alone: {alone.label}", agrees)]


@dataclass(frozen=True)
class Ignores:
    """The member that is worst when trained alone is target less than half as often as it would be by chance."""

    text: str
    arm: str

    def rows(self, scores: StudyScores) -> list[Row]:
        """One row."""
        arm = selecting_arms(scores).get(self.arm)
        worst = next(iter(sides(scores, WORST)), None)
        if arm is None or worst is None or worst.arm is None or worst.arm.members[0] not in arm.members:
            return [Row(self.text.format(worst=WORST), NOT_RUN, "-")]
        share, chance = float(shares(arm)[0][arm.members.index(worst.arm.members[0])]), 1.0 / len(arm.members)
        measured = f"{worst.label} has {share:.0%} of the target updates, {chance:.0%} would be chance"
        agrees = observed(share < 0.5 * chance, seeds_of(arm))
        return [Row(self.text.format(worst=worst.label), measured, agrees)]


@dataclass(frozen=True)
class RisingLearningRate:
    """The target's learning rate in the last fifth of the run is higher than in the first one, by a tenth or more."""

    text: str
    arm: str

    def rows(self, scores: StudyScores) -> list[Row]:
        """One row."""
        arm = selecting_arms(scores).get(self.arm)
        if arm is None:
            return [Row(self.text, NOT_RUN, "-")]
        target = distribution(arm.runs, bins=5).target
        logarithms = np.log([member.learning_rate for member in arm.members])
        first, last = (float(np.exp(target[place] @ logarithms)) for place in (0, -1))
        measured = (
            f"geometric mean of the target's learning rate: {first:.2g} in the first fifth, {last:.2g} in the last"
        )
        return [Row(self.text, measured, observed(last >= 1.1 * first, seeds_of(arm)))]


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
        return [Row(self.text, measured, observed(acted < target, seeds_of(arm)))]


def observed(agrees: bool, seeds: int) -> str:
    """The verdict on what was counted, without an interval."""
    if seeds < ENOUGH:
        return f"{'points that way' if agrees else 'points the other way'}, with {counted(seeds)}"
    return "**yes**" if agrees else "**no**"


def selecting_arms(scores: StudyScores) -> dict[str, Arm]:
    """The arms with several members that stay the same, by name."""
    return {arm.name: arm for arm in scores.study.arms if has_selections(arm)}


def shares(arm: Arm) -> tuple[Floats, Floats]:
    """The shares of the members in the target updates and in the actions of the whole of all runs."""
    found = distribution(arm.runs, bins=1)
    return found.target[0], found.behaviour[0]
