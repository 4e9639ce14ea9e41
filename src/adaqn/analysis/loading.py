"""Finding the runs below a path, and reading them: STUDY/ARM/ENVIRONMENT/SEED/, or any other run directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adaqn.base.errors import UserError
from adaqn.base.files import Json, json_value, path_safe, read_text, read_yaml
from adaqn.runs.directory import RunDirectory
from adaqn.runs.reading import Episodes, RunData, read_episodes, read_progress, read_run, whole_lines

if TYPE_CHECKING:
    import pandas

COLUMNS = ("study", "arm", "environment", "seed", "step", "return", "length")
_STEP, _TIME = "time/total_timesteps", "time/time_elapsed"


@dataclass(frozen=True, eq=False)
class StudyRun:
    """One run directory and its place in a study. Its files are read when they are needed."""

    path: Path
    study: str
    arm: str
    environment: str
    seed: int
    config: Json

    @cached_property
    def episodes(self) -> Episodes:
        """The training episodes."""
        return read_episodes(RunDirectory(self.path).episodes)

    @cached_property
    def data(self) -> RunData:
        """Everything that the directory says."""
        return read_run(self.path)

    @cached_property
    def summary(self) -> Json | None:
        """summary.json, which a run has that is finished."""
        directory = RunDirectory(self.path)
        if not directory.finished:
            return None
        values = json_value(str(directory.summary), read_text(directory.summary))
        if not isinstance(values, dict) or not isinstance(values.get("steps"), int):
            raise UserError(f"{directory.summary} must be an object with the steps of the run, but it has none")
        return values

    @property
    def steps(self) -> int:
        """Environment steps that the finished run took."""
        return 0 if self.summary is None else self.summary["steps"]

    @property
    def seconds(self) -> float | None:
        """Wall-clock time of the whole run."""
        time = (self.summary or {}).get("time")
        elapsed = time.get("elapsed") if isinstance(time, dict) else None
        return float(elapsed) if isinstance(elapsed, int | float) else None

    @property
    def trials(self) -> int | None:
        """How many trials of a search were finished; None for a run that is not one."""
        path = RunDirectory(self.path).trials
        return len(whole_lines(path)) if path.is_file() else None

    @cached_property
    def clock(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Steps and the seconds that had passed then; a straight line where there is no progress.csv."""
        progress = read_progress(RunDirectory(self.path).progress)
        if len(progress.get(_STEP, ())) and _TIME in progress:
            return np.append(0.0, progress[_STEP]), np.append(0.0, progress[_TIME])
        if self.seconds is None or not self.steps:
            return None
        return np.array([0.0, self.steps]), np.array([0.0, self.seconds])


def find_runs(path: str | os.PathLike[str]) -> list[StudyRun]:
    """All runs at or below a path, in the order of their places."""
    root = Path(path)
    if not root.is_dir():
        raise UserError(f"there is no directory {root}")
    runs = [run_in(directory) for directory in run_directories(root)]
    return sorted(runs, key=lambda run: (run.study, run.arm, run.environment, run.seed, str(run.path)))


def load_runs(path: str | os.PathLike[str]) -> pandas.DataFrame | dict[str, NDArray[Any]]:
    """Load all training episodes of all runs at or below a path as one table.

    It has a row for each episode and the columns study, arm, environment, seed, step (environment steps taken when the
    episode ended), return and length: a pandas DataFrame, or a dictionary of NumPy columns if pandas is not installed.
    A run that is not in a study has the name of its directory as its arm. Runs that are not finished are included.
    """
    runs = find_runs(path)
    if not runs:
        raise UserError(f"there are no runs in {path}: no directory in it has a config.yaml that a run wrote")
    counts = [len(run.episodes.step) for run in runs]
    places = {
        name: np.repeat(np.array([getattr(run, name) for run in runs]), counts)
        for name in ("study", "arm", "environment", "seed")
    }
    values = (np.concatenate(column) for column in zip(*(run.episodes for run in runs), strict=True))
    table = places | dict(zip(("step", "return", "length"), values, strict=True))
    try:
        import pandas
    except ImportError:
        return table
    return pandas.DataFrame(table)


def run_directories(root: Path) -> Iterator[Path]:
    """Directories with the configuration of a run; links are followed, but none twice."""
    seen: set[str] = set()
    for folder, inner, files in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            inner.clear()
        elif "config.yaml" in files:
            inner.clear()  # a run has no runs in it
            yield Path(folder)
        seen.add(real)


def run_in(directory: Path) -> StudyRun:
    """The run in a directory with a config.yaml."""
    config = read_yaml(directory / "config.yaml")
    if not isinstance(config, dict):
        raise UserError(f"{directory / 'config.yaml'} must hold a mapping of names to values, but it holds {config!r}")
    whole = Path(os.path.abspath(directory))  # as it is named here, also where it is a link
    seed, identifier = config.get("seed"), str(config.get("env"))
    if whole.name == str(seed):
        label, arm, study = whole.parent.name, whole.parent.parent.name, whole.parent.parent.parent.name
        # A label may stand for more than the id, such as its arguments; the id itself is spelt as it is known.
        environment = identifier if label == path_safe(identifier) else label
    else:
        arm, study, environment = whole.name, whole.parent.name, identifier
    number = seed if isinstance(seed, int) else -1
    return StudyRun(directory, study, arm, environment, number, config)
