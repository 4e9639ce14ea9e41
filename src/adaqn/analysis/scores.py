"""The score of every run at every epoch, as the paper reports its kind of arm, ready for the statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from adaqn.analysis.epochs import returns_per_epoch
from adaqn.analysis.loading import StudyRun
from adaqn.analysis.metrics import Floats, auc, iqm
from adaqn.analysis.normalization import HUMAN, WITHIN_STUDY, Reference, human_reference, study_reference
from adaqn.analysis.protocols import GridSearch, grid_search, member_extremes, random_search, running_maximum
from adaqn.analysis.resampling import Interval, interval
from adaqn.analysis.study import Arm, StudyResults

GRID, RANDOM = "grid search", "random search"


@dataclass(frozen=True, eq=False)
class Series:
    """One curve of a figure: the scores of an arm, or of a protocol over several arms."""

    name: str
    label: str
    arm: Arm | None  # None for grid and random search
    scores: tuple[Floats, ...]  # by environment: [runs, epochs]
    epoch: int  # environment steps that each epoch of the curve stands for, all of them counted
    seeds: tuple[tuple[int, ...], ...] = ()  # by environment
    _areas: dict[float, Interval] = field(default_factory=dict, repr=False)

    @property
    def epochs(self) -> int:
        """Length of the curve."""
        return self.scores[0].shape[1]

    @property
    def steps(self) -> Floats:
        """Environment steps taken at the end of each epoch."""
        return self.epoch * np.arange(1.0, self.epochs + 1)

    @property
    def runs(self) -> int:
        """Runs of all environments."""
        return sum(len(task) for task in self.scores)

    def until(self, steps: float) -> Series:
        """The part of the curve up to so many environment steps, whole epochs only."""
        last = max(1, min(self.epochs, int(steps // self.epoch)))
        return Series(
            self.name, self.label, self.arm, tuple(task[:, :last] for task in self.scores), self.epoch, self.seeds
        )

    def at_epochs(self, epoch: int, steps: int) -> tuple[Floats, ...]:
        """The scores at shorter epochs up to so many steps, as those of another series, by environment."""
        ends = epoch * np.arange(1, steps // epoch + 1)
        place = np.minimum(-(-ends // self.epoch) - 1, self.epochs - 1)
        return tuple(task[:, place] for task in self.scores)

    @cached_property
    def final(self) -> tuple[Floats, ...]:
        """The scores of the last epoch, by environment. [runs]"""
        return tuple(task[:, -1] for task in self.scores)

    @cached_property
    def curve(self) -> Interval:
        """The IQM at each epoch with its interval."""
        return interval(self.scores)

    def area(self, steps: float | None = None) -> Interval:
        """The area under the curve of the IQM, over all its steps or the first so many, with its interval."""
        until = float(self.epochs) if steps is None else min(float(self.epochs), steps / self.epoch)
        if until not in self._areas:
            self._areas[until] = interval(self.scores, then=lambda curve: auc(curve, until))
        return self._areas[until]

    @cached_property
    def final_score(self) -> Interval:
        """The IQM at the last epoch with its interval."""
        return interval(self.final)

    @cached_property
    def worst(self) -> Floats:
        """The curve of the seed with the lowest area, averaged over environments. [epochs]"""
        return self.worst_until(self.epoch * self.epochs)

    def worst_until(self, steps: float) -> Floats:
        """The curve of the seed with the lowest area over the first so many steps. [epochs]"""
        epochs = min(float(self.epochs), steps / self.epoch)
        shared = sorted(set.intersection(*(set(seeds) for seeds in self.seeds))) if self.seeds else []
        if not shared:
            everything = np.concatenate(self.scores)
            return everything[int(np.argmin(auc(everything, epochs)))]
        by_seed = np.stack(
            [
                np.stack([task[list(own).index(seed)] for task, own in zip(self.scores, self.seeds, strict=True)])
                for seed in shared
            ]
        ).mean(axis=1)
        return by_seed[int(np.argmin(auc(by_seed, epochs)))]


@dataclass(frozen=True)
class Scale:
    """What a score is."""

    references: dict[str, Reference]  # by environment; empty for plain returns
    kind: str = ""

    @property
    def label(self) -> str:
        """What it is called in a sentence."""
        return f"score ({self.kind})" if self.kind else "return"

    @property
    def axis_label(self) -> str:
        """The same in short lines."""
        return self.label.replace(" (", "\n(")

    def apply(self, environment: str, returns: Floats) -> Floats:
        """The scores of returns."""
        return self.references[environment].normalize(returns) if self.references else returns


class StudyScores:
    """The curves of a study, each computed when it is first needed."""

    def __init__(self, study: StudyResults) -> None:
        self.study = study

    @cached_property
    def scale(self) -> Scale:
        """How returns become scores: as they are in one environment, normalized where several are pooled."""
        environments = self.study.environments
        if len(environments) == 1:
            return Scale({})
        human = {name: reference for name in environments if (reference := human_reference(name)) is not None}
        if len(human) == len(environments):
            return Scale(human, HUMAN)
        found = {}
        for name in environments:
            curves = [returns_of(arm, self.study, name)[0] for arm in self.study.arms if arm.on(name)]
            shortest = min(curve.shape[1] for curve in curves)
            found[name] = study_reference([curve[:, :shortest] for curve in curves])
        return Scale(found, WITHIN_STUDY)

    @cached_property
    def series(self) -> list[Series]:
        """The curves of all arms that have runs in every environment; SEARL has two, its best and its worst member."""
        return [series for arm in self.study.complete for series in self._of(arm)]

    def of(self, arm: Arm) -> list[Series]:
        """The curves of one arm."""
        return [series for series in self.series if series.arm is arm]

    @cached_property
    def main(self) -> Series | None:
        """The curve that others are compared with."""
        main = self.study.main
        found = [] if main is None else self.of(main)
        return found[0] if found else None

    @cached_property
    def searches(self) -> Searches | None:
        """Grid and random search, made of the individual runs."""
        return searches_of(self)

    @cached_property
    def common_steps(self) -> int:
        """Environment steps that all arms have: they are compared over these."""
        return self.study.epoch * self.study.common_epochs

    @cached_property
    def panels(self) -> list[StudyScores]:
        """The scores in each environment."""
        return [StudyScores(self.study.only(name)) for name in self.study.environments]

    def _of(self, arm: Arm) -> list[Series]:
        study = self.study
        parts = [returns_of(arm, study, name) for name in study.environments]
        seeds = tuple(tuple(run.seed for run in arm.on(name)) for name in study.environments)
        first, *rest = arm.label.split(" ")
        return [
            Series(
                arm.name + suffix,
                " ".join([first + suffix, *rest]),
                arm,
                tuple(
                    self.scale.apply(name, part[index]) for name, part in zip(study.environments, parts, strict=True)
                ),
                study.epoch,
                seeds,
            )
            for index, suffix in enumerate(("-max", "-min") if arm.kind == "population" else ("",))
        ]


def returns_of(arm: Arm, study: StudyResults, environment: str, tuning: bool = False) -> list[Floats]:
    """Returns of the runs of an arm in one environment, one array [runs, epochs] for each of its curves."""
    runs, epochs = arm.on(environment, tuning), study.epochs(arm)
    if arm.kind == "population":
        both = [_extremes(run, study.epoch, epochs) for run in runs]
        return [np.stack([one[0] for one in both]), np.stack([one[1] for one in both])]
    curves = np.stack([returns_per_epoch(run.episodes.step, run.episodes.total, study.epoch, epochs) for run in runs])
    return [running_maximum(curves) if arm.kind == "search" else curves]


def _extremes(run: StudyRun, epoch: int, epochs: int) -> tuple[Floats, Floats]:
    evaluated = run.data.member_evaluations
    assert evaluated is not None  # a population has them
    found = member_extremes(evaluated)
    highest, lowest = (returns_per_epoch(found.step, values, epoch, epochs) for values in (found.highest, found.lowest))
    return highest, lowest


@dataclass(frozen=True)
class Searches:
    """Grid and random search over the single sets of a study."""

    grid: Series
    random: Series
    chosen: dict[str, Sequence[str]]  # by environment: the arm that grid search has at each epoch
    same_seeds: bool  # choosing and reporting used the same seeds


def searches_of(of: StudyScores) -> Searches | None:
    """The paper's grid and random search, made of the individual runs; None without two sets that have them."""
    study, scale = of.study, of.scale
    arms = [arm for arm in study.grid if arm in study.complete]
    if len(arms) < 2:
        return None
    epochs = min(study.epochs(arm) for arm in arms)
    tuned = all(arm.on(name, tuning=True) for arm in arms for name in study.environments)
    grids, randoms, chosen, all_seeds = [], [], {}, []
    for name in study.environments:
        seeds = sorted(set.intersection(*({run.seed for run in arm.on(name)} for arm in arms)))
        if not seeds:
            return None
        whole = [scale.apply(name, returns_of(arm, study, name)[0])[:, :epochs] for arm in arms]
        places = [[run.seed for run in arm.on(name)] for arm in arms]
        scores = np.stack([own[[at.index(seed) for seed in seeds]] for own, at in zip(whole, places, strict=True)])
        tuning = None
        if tuned:
            other = [scale.apply(name, returns_of(arm, study, name, True)[0])[:, :epochs] for arm in arms]
            tuning = np.stack([iqm(own, axis=0) for own in other])[:, None]  # what sets are judged by
        found: GridSearch = grid_search(scores, tuning)
        grids.append(found.scores)
        randoms.append(random_search(scores, len(arms), tuning))
        chosen[name] = [arms[index].name for index in found.chosen]
        all_seeds.append(tuple(seeds))
    return Searches(
        Series(GRID, "Grid search", None, tuple(grids), study.epoch * len(arms), tuple(all_seeds)),
        Series(RANDOM, "Random search", None, tuple(randoms), study.epoch, tuple(all_seeds)),
        chosen,
        not tuned,
    )
