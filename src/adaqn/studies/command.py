"""What `adaqn study` does, once argv has been read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from adaqn.base.checks import count
from adaqn.base.errors import UserError
from adaqn.base.output import fitting, print_line
from adaqn.networks.xla.threads import available_cores
from adaqn.runs.display.progress import standard_console
from adaqn.studies.cost import cost_table, costs, measurements
from adaqn.studies.definition import STUDIES, matching_arms, read_study
from adaqn.studies.directory import StudyDirectory
from adaqn.studies.display import StudyDisplay
from adaqn.studies.execution import Execution, Failure, StudyInterrupted
from adaqn.studies.launchers import LAUNCHERS, Options, open_launcher
from adaqn.studies.study import RunKey, Study, seeds_from_text


class Request(NamedTuple):
    """What a user asks of a study."""

    study: str  # a file, the name of a preset, or the directory of a study
    scale: str | None = None
    directory: Path | None = None
    launcher: str = "local"
    jobs: int | None = None
    retries: int = 1
    arms: Sequence[str] | None = None
    seeds: Sequence[str] | None = None
    address: str | None = None
    resources: Sequence[str] = ()
    dry_run: bool = False
    no_calibration: bool = False
    discard_checkpoints: bool = False


def run_study(request: Request) -> int:
    """Bring the runs of a study to their end; the exit status is 0, 1 if some failed, 128 + signal if interrupted."""
    study, directory = _asked_for(request)
    retries = count("--retries", request.retries)
    keys = _chosen(study, request.arms, request.seeds)
    directory.check(study)
    console = standard_console()
    options = Options(directory.path.resolve(), request.jobs, request.address, _resources(request.resources))
    LAUNCHERS.require(request.launcher)
    jobs = available_cores() if request.jobs is None else count("--jobs", request.jobs, low=1)
    launcher = None
    if not request.dry_run:  # before the calibration, so that nobody waits for that to learn what is wrong here
        launcher = open_launcher(request.launcher, options)
        directory.freeze(study)
    measured = {}
    if not request.no_calibration:
        measured = measurements(study, directory, keys, min(jobs, available_cores()), console, keep=not request.dry_run)
    rows = costs(study, directory, keys, measured)
    if rows:
        console.print(cost_table(study, rows, jobs))
    if launcher is None:
        return 0
    pace = {arm: 1.0 / max(found.steps_per_second, 1e-9) for arm, found in measured.items()}
    stopped: StudyInterrupted | None = None
    failures: list[Failure] = []
    with StudyDisplay(study, keys, pace, console) as display:
        execution = Execution(
            directory,
            keys,
            launcher,
            retries,
            display,
            memory=lambda key: measured[key.arm].memory if key.arm in measured else 0,
            is_ready=lambda key: directory.is_ready(study, key),
            discard_checkpoints=request.discard_checkpoints,
        )
        try:
            failures = execution.run()
        except StudyInterrupted as interrupted:
            stopped = interrupted
    if stopped is not None:
        print_line(f"interrupted by {stopped}: the same command goes on where it stopped")
        return 128 + stopped.signal
    _conclude(directory, keys, failures)
    return 1 if failures else 0


def _asked_for(request: Request) -> tuple[Study, StudyDirectory]:
    """The study of a file or preset, or the one that is frozen in the directory which is named instead."""
    frozen = StudyDirectory(Path(request.study))
    # `Path.is_file` raises for a name that is too long.
    if request.study not in STUDIES.names() and os.path.isfile(frozen.definition):
        study = frozen.read()
        if request.scale not in (None, study.scale):
            raise UserError(f"the study in {frozen.path} has the scale {study.scale}, but got --scale {request.scale}")
        return study, frozen if request.directory is None else StudyDirectory(request.directory)
    study = read_study(request.study, request.scale)
    return study, StudyDirectory(request.directory or default_directory(study))


def default_directory(study: Study) -> Path:
    """Where a study is if nobody says otherwise."""
    return Path("runs") / (study.name if study.scale is None else f"{study.name}-{study.scale}")


def presets() -> dict[str, str]:
    """What each study that comes with adaqn is about, by its name."""
    return {name: " ".join(str(STUDIES.read(name).get("about", "")).split()) for name in STUDIES.names()}


def _conclude(directory: StudyDirectory, keys: Sequence[RunKey], failures: Sequence[Failure]) -> None:
    for failure in failures:
        tries = "1 attempt" if failure.attempts == 1 else f"{failure.attempts} attempts"
        print_line(fitting(f"failed: {failure.key} after {tries}: {failure.reason}"))
        print_line(f"    its log: {failure.log}")
    done = len(keys) - len(failures)
    where = shlex.quote(str(directory.path))
    print_line(
        f"{done} of {len(keys)} runs are finished in {where}"
        + ("; the same command tries the others again" if failures else "")
    )


def _chosen(study: Study, arms: Sequence[str] | None, seeds: Sequence[str] | None) -> list[RunKey]:
    """The runs that a user asks for now; the study itself stays as it is."""
    wanted_arms = list(study.arms) if arms is None else matching_arms(arms, study.arms)
    known = {*study.seeds, *study.tuning_seeds}
    wanted_seeds = known if seeds is None else {seed for text in seeds for seed in seeds_from_text("--seeds", text)}
    for seed in sorted(wanted_seeds - known):
        raise UserError(
            f"the study {study.name} has no seed {seed}: --seeds chooses among its own, {_ranges(sorted(known))}"
        )
    chosen = [key for key in study.runs() if key.arm in wanted_arms and key.seed in wanted_seeds]
    if not chosen:
        raise UserError(
            f"no run of the study {study.name} has such an arm and such a seed: only arms that something is "
            "chosen among run on the tuning seeds"
        )
    return chosen


def _resources(pairs: Sequence[str]) -> Mapping[str, str]:
    """`partition=gpu` as a name and its value."""
    resources: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UserError(f"--resource takes NAME=VALUE, such as partition=gpu, but got {pair!r}")
        resources[name] = value
    return resources


def _ranges(seeds: Sequence[int]) -> str:
    """Numbers in ascending order as text: 0-9, 20."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][1] + 1:
            parts[-1][1] = seed
        else:
            parts.append([seed, seed])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
