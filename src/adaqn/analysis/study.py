"""The results of a study: its arms with their finished runs, and what each of them is compared as."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from adaqn.agents.algorithms import ALGORITHMS
from adaqn.agents.registry import algorithm, algorithm_names
from adaqn.analysis.loading import StudyRun, find_runs
from adaqn.analysis.metrics import Floats, usual_epoch
from adaqn.base.errors import UserError
from adaqn.base.files import Json, read_yaml
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.config import as_mapping

# An ensemble adapts; a single set of hyperparameters is what grid search is made of; a search tries one trial after the
# other; a population is evaluated member by member; a learner changes the hyperparameters of a single member.
Kind = Literal["ensemble", "single", "search", "population", "learner"]
GRID_SEARCH = "grid-search"  # the choice of a study that says which arms make up the grid

_NAMES = {name: entry.label for name, entry in ALGORITHMS.items()}
_BETWEEN_WORDS = re.compile(r"(?<!\de)-|-(?!\d)")  # every hyphen but the sign of an exponent


@dataclass(frozen=True, eq=False)
class Arm:
    """One labelled configuration, and its finished runs on the seeds that results are reported on."""

    name: str
    kind: Kind
    config: Json  # of one of its runs
    runs: tuple[StudyRun, ...]
    tuning_runs: tuple[StudyRun, ...] = ()  # on seeds that only choose

    @property
    def label(self) -> str:
        """How figures call it: `dqn-25x25` is DQN 25x25, `sac-lr-1e-4` is SAC lr 1e-4."""
        known = [name for name in _NAMES if self.name == name or self.name.startswith(f"{name}-")]
        if not known:
            return self.name
        name = max(known, key=len)
        rest = self.name[len(name) :].strip("-")
        if (name, rest) == ("adadqn", "greedy-behaviour"):
            return "AdaDQN, ε_b = 0"  # as the paper calls it
        return f"{_NAMES[name]} {_BETWEEN_WORDS.sub(' ', rest)}".strip()

    @property
    def settings(self) -> Json:
        """The settings of the algorithm."""
        return as_mapping(f"settings of the arm {self.name}", self.config.get("settings"))

    @property
    def infinite(self) -> bool:
        """Whether its members come from a space."""
        return self.config.get("space") is not None

    @property
    def adapts(self) -> bool:
        """Whether the target is chosen by the lowest loss, which is the paper's method."""
        return self.kind == "ensemble" and self.settings.get("selection", "lowest") == "lowest"

    @cached_property
    def members(self) -> tuple[Hyperparameters, ...]:
        """The members that the runs begin with; different ones for each seed where they are drawn from a space."""
        given = self.config.get("members") or []
        return tuple(Hyperparameters.from_dict(values) for values in given)

    def on(self, environment: str, tuning: bool = False) -> list[StudyRun]:
        """Its runs in one environment, by seed."""
        runs = self.tuning_runs if tuning else self.runs
        return sorted((run for run in runs if run.environment == environment), key=lambda run: run.seed)


@dataclass(frozen=True)
class StudyResults:
    """What is there of a study. Arms without a finished run are not in it."""

    path: Path
    name: str
    arms: tuple[Arm, ...]
    environments: tuple[str, ...]
    epoch: int  # steps that a score is averaged over
    tuning_seeds: tuple[int, ...]
    choices: Mapping[str, Sequence[str]]
    left_out: tuple[str, ...]  # what is not in the statistics, and why
    about: str = ""  # what the study is about, in its own words

    @property
    def main(self) -> Arm | None:
        """The arm that the others are compared with: the first one that adapts."""
        adapting = [arm for arm in self.arms if arm.adapts]
        return adapting[0] if adapting else None

    @property
    def grid(self) -> tuple[Arm, ...]:
        """The single sets of hyperparameters that grid and random search are made of."""
        named = self.choices.get(GRID_SEARCH)
        singles = [arm for arm in self.arms if arm.kind == "single" and not arm.config.get("schedule")]
        return tuple(arm for arm in singles if named is None or arm.name in named)

    @property
    def complete(self) -> tuple[Arm, ...]:
        """The arms with runs in every environment, which alone can be pooled over environments."""
        return tuple(arm for arm in self.arms if all(arm.on(name) for name in self.environments))

    def epochs(self, arm: Arm) -> int:
        """How many epochs all runs of an arm have."""
        return min(run.steps for run in (*arm.runs, *arm.tuning_runs)) // self.epoch

    @property
    def common_epochs(self) -> int:
        """How many epochs all runs of all arms have: arms are compared over these."""
        return min(self.epochs(arm) for arm in self.complete)

    def only(self, environment: str) -> StudyResults:
        """The results in one environment."""
        arms = [
            dataclasses.replace(arm, runs=tuple(arm.on(environment)), tuning_runs=tuple(arm.on(environment, True)))
            for arm in self.arms
            if arm.on(environment)
        ]
        return dataclasses.replace(self, arms=tuple(arms), environments=(environment,))


def read_results(path: str | os.PathLike[str], epoch: int | None = None) -> StudyResults:
    """The results in the directory of a study; without study.yaml, its arms are those that there are directories of."""
    return results_of(Path(path), find_runs(path), epoch)


def results_of(root: Path, found: Sequence[StudyRun], epoch: int | None = None) -> StudyResults:
    """The results of runs that were found in the directory of a study."""
    if not found:
        raise UserError(f"there are no runs in {root}: the directory of a study has ARM/ENVIRONMENT/SEED in it")
    names = sorted({run.study for run in found})
    if len(names) > 1:
        raise UserError(f"{root} has runs of several studies ({', '.join(names)}): name the directory of one of them")
    definition = _definition(root)
    tuning = _seeds(root, definition)
    finished = [run for run in found if run.summary is not None]
    left_out = [f"{run.arm}/{run.environment}/{run.seed} is not finished" for run in found if run.summary is None]
    silent = [run for run in finished if not len(_returns(run))]
    left_out += [f"{run.arm}/{run.environment}/{run.seed} has no episode that ended" for run in silent]
    broken = [run for run in finished if not np.isfinite(_returns(run)).all()]
    left_out += [f"{run.arm}/{run.environment}/{run.seed} has returns that are not finite" for run in broken]
    usable = [run for run in finished if run not in silent and run not in broken]
    arms = [
        arm for name in _order(definition, found) if (arm := _arm(name, [r for r in usable if r.arm == name], tuning))
    ]
    with_runs = {arm.name for arm in arms}
    left_out += [f"{name} has no finished run" for name in _order(definition, found) if name not in with_runs]
    if not arms:
        raise UserError(f"no run in {root} is finished: there is nothing to compare yet")
    if "arms" not in definition:
        # The paper's method first, then what it is made of or compared with.
        arms.sort(key=lambda arm: (not arm.adapts, arm.kind != "ensemble", arm.kind == "single", len(arm.name)))
    environments = tuple(dict.fromkeys(run.environment for arm in arms for run in arm.runs))
    shortest = min(run.steps for arm in arms for run in (*arm.runs, *arm.tuning_runs))
    if epoch is None:
        epoch = usual_epoch(shortest, environments[0])
    elif not 1 <= epoch <= shortest:
        raise UserError(f"an epoch must have 1 to {shortest:,} steps, as the shortest run has, but got {epoch:,}")
    study = StudyResults(
        root, str(definition.get("name", names[0])), tuple(arms), environments, epoch, tuning,
        definition.get("choices") or {}, (), str(definition.get("about") or ""),
    )  # fmt: skip
    partial = [f"{arm.name} does not have runs in every environment" for arm in arms if arm not in study.complete]
    if len(partial) == len(arms):
        raise UserError(f"no arm in {root} has a finished run in every environment: {', '.join(environments)}")
    return dataclasses.replace(study, left_out=tuple([*left_out, *partial]))


def _arm(name: str, runs: Sequence[StudyRun], tuning: Sequence[int]) -> Arm | None:
    reported = tuple(run for run in runs if run.seed not in tuning)
    if not reported:
        return None
    config = reported[0].config
    return Arm(name, _kind(config), config, reported, tuple(run for run in runs if run.seed in tuning))


def _kind(config: Json) -> Kind:
    if config.get("algo") not in algorithm_names():  # of a plug-in that is not installed here
        return "single" if len(config.get("members") or []) == 1 else "ensemble"
    chosen = algorithm(config["algo"], config.get("base"))
    if chosen.base is not None:
        return "search"
    if "evaluations" in chosen.traits.tables:
        return "population"
    if chosen.traits.learns_hyperparameters:
        return "learner"
    return "ensemble" if chosen.copies is None else "single"


def _returns(run: StudyRun) -> Floats:
    """The returns that the run is judged by; of a population, those of its members in evaluations."""
    evaluated = run.data.member_evaluations if _kind(run.config) == "population" else None
    return run.episodes.total if evaluated is None else evaluated.total


def _definition(root: Path) -> Json:
    path = root / "study.yaml"
    return as_mapping(str(path), read_yaml(path)) if path.is_file() else {}


def _seeds(root: Path, definition: Json) -> tuple[int, ...]:
    given = definition.get("tuning_seeds") or []
    if not isinstance(given, list) or not all(isinstance(seed, int) for seed in given):
        raise UserError(f"tuning_seeds in {root / 'study.yaml'} must be a list of whole numbers, but got {given!r}")
    return tuple(given)


def _order(definition: Json, runs: Sequence[StudyRun]) -> list[str]:
    """The names of the arms, as the study lists them or in alphabetical order."""
    listed = definition.get("arms")
    names = [str(name) for name in listed] if isinstance(listed, Mapping) else []
    return [*names, *sorted({run.arm for run in runs} - {*names})]
