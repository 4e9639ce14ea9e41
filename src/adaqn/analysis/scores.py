"""Scores of the arms of a study: normalized per environment, with intervals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from adaqn.analysis.loading import StudyRun
from adaqn.analysis.metrics import Floats, auc, iqm, returns_per_epoch
from adaqn.analysis.protocols import GridSearch, grid_search, member_extremes, random_search, running_maximum
from adaqn.analysis.resampling import Interval, interval
from adaqn.analysis.study import Arm, StudyResults

HUMAN, WITHIN_STUDY, GIVEN = "human-normalized", "normalized within the study", "normalized by given references"


class Reference(NamedTuple):
    """The returns that become 0 and 1."""

    low: float
    high: float

    def normalize(self, returns: Floats) -> Floats:
        """Map low to 0 and high to 1."""
        return (returns - self.low) / (self.high - self.low)


def atari_game(environment: str) -> str | None:
    """The game of an id such as Atari/Pong, ALE/Pong-v5 or PongNoFrameskip-v4, if its scores are known."""
    match = re.fullmatch(r"(?:Atari/|Atari-|ALE/|ALE-)?([A-Za-z]+?)(?:NoFrameskip)?(?:-v\d+)?", environment)
    return match[1] if match is not None and match[1] in ATARI else None


def human_reference(environment: str) -> Reference | None:
    """Random and human return of an Atari game."""
    game = atari_game(environment)
    return None if game is None else ATARI[game]


def study_reference(curves: Iterable[Floats]) -> Reference:
    """The reference within a study, of the curves [runs, epochs] of all arms in one environment."""
    arms = list(curves)
    low = float(np.mean(np.concatenate([arm[:, 0] for arm in arms])))
    high = float(max(iqm(arm, axis=0).max() for arm in arms))
    return Reference(low, high if high > low else low + 1.0)


# Mean returns of a uniformly random agent and of a human tester in up to 30 minutes of play after up to 30 no-ops, as
# published by Wang et al. (2016) and used for human-normalized scores since.
ATARI = {
    name: Reference(low, high)
    for name, low, high in (
        ("Alien", 227.8, 7127.7), ("Amidar", 5.8, 1719.5), ("Assault", 222.4, 742.0), ("Asterix", 210.0, 8503.3),
        ("Asteroids", 719.1, 47388.7), ("Atlantis", 12850.0, 29028.1), ("BankHeist", 14.2, 753.1),
        ("BattleZone", 2360.0, 37187.5), ("BeamRider", 363.9, 16926.5), ("Berzerk", 123.7, 2630.4),
        ("Bowling", 23.1, 160.7), ("Boxing", 0.1, 12.1), ("Breakout", 1.7, 30.5), ("Centipede", 2090.9, 12017.0),
        ("ChopperCommand", 811.0, 7387.8), ("CrazyClimber", 10780.5, 35829.4), ("Defender", 2874.5, 18688.9),
        ("DemonAttack", 152.1, 1971.0), ("DoubleDunk", -18.6, -16.4), ("Enduro", 0.0, 860.5),
        ("FishingDerby", -91.7, -38.7), ("Freeway", 0.0, 29.6), ("Frostbite", 65.2, 4334.7),
        ("Gopher", 257.6, 2412.5), ("Gravitar", 173.0, 3351.4), ("Hero", 1027.0, 30826.4),
        ("IceHockey", -11.2, 0.9), ("Jamesbond", 29.0, 302.8), ("Kangaroo", 52.0, 3035.0), ("Krull", 1598.0, 2665.5),
        ("KungFuMaster", 258.5, 22736.3), ("MontezumaRevenge", 0.0, 4753.3), ("MsPacman", 307.3, 6951.6),
        ("NameThisGame", 2292.3, 8049.0), ("Phoenix", 761.4, 7242.6), ("Pitfall", -229.4, 6463.7),
        ("Pong", -20.7, 14.6), ("PrivateEye", 24.9, 69571.3), ("Qbert", 163.9, 13455.0),
        ("Riverraid", 1338.5, 17118.0), ("RoadRunner", 11.5, 7845.0), ("Robotank", 2.2, 11.9),
        ("Seaquest", 68.4, 42054.7), ("Skiing", -17098.1, -4336.9), ("Solaris", 1236.3, 12326.7),
        ("SpaceInvaders", 148.0, 1668.7), ("StarGunner", 664.0, 10250.0), ("Surround", -10.0, 6.5),
        ("Tennis", -23.8, -8.3), ("TimePilot", 3568.0, 5229.2), ("Tutankham", 11.4, 167.6),
        ("UpNDown", 533.4, 11693.2), ("Venture", 0.0, 1187.5), ("VideoPinball", 16256.9, 17667.9),
        ("WizardOfWor", 563.5, 4756.5), ("YarsRevenge", 3092.9, 54576.9), ("Zaxxon", 32.5, 9173.3),
    )
}  # fmt: skip


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
