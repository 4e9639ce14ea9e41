"""The directory of a study: its frozen definition, and how far each run is, told by the run's small files alone.

study.yaml                            the complete definition
ARM/ENVIRONMENT/SEED/                 a run directory
logs/ARM/ENVIRONMENT/SEED.log         what the run printed
logs/ARM/ENVIRONMENT/SEED.failed      why its last attempt failed; gone when it is tried again
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from adaqn.base.errors import UserError
from adaqn.base.files import Json, json_value, make_parent, read_text, read_yaml, replacing, writing, yaml_text
from adaqn.runs.config import RunConfig, read_config
from adaqn.runs.directory import RunDirectory
from adaqn.runs.lock import RunLock
from adaqn.runs.reading import whole_lines
from adaqn.studies.study import (
    WITHOUT_EFFECT,
    RunKey,
    Study,
    arm_values,
    config_differences,
    differences,
    listed,
)

Status = Literal["finished", "running", "interrupted", "failed", "missing"]
_STEP_TAG, _TIME_TAG = "time/total_timesteps", "time/time_elapsed"  # columns of progress.csv
_TAIL = 1 << 14  # bytes of progress.csv in which its last row is


class RunState(NamedTuple):
    """How far a run is."""

    status: Status
    step: int = 0  # environment steps taken
    elapsed: float = 0.0  # seconds of wall-clock time
    reason: str = ""  # why it failed


@dataclass(frozen=True)
class StudyDirectory:
    """Where the runs of a study are."""

    path: Path

    @property
    def definition(self) -> Path:
        """The study, complete."""
        return self.path / "study.yaml"

    def run(self, key: RunKey) -> Path:
        """The directory of a run."""
        return self.path / key.path

    def log(self, key: RunKey) -> Path:
        """What the run printed, in all attempts."""
        return self.path / "logs" / f"{key.path}.log"

    def _failure(self, key: RunKey) -> Path:
        return self.path / "logs" / f"{key.path}.failed"

    def read(self) -> Study:
        """The study that is frozen here."""
        if not self.definition.is_file():
            raise UserError(f"{self.path} is not the directory of a study: it has no study.yaml")
        return Study.from_dict(read_yaml(self.definition), str(self.definition))

    def check(self, study: Study) -> None:
        """Raise if a run that has begun here is not the one that the study describes; nothing is written."""
        begun = [key for key in self._all_runs(study) if self._run_directory(key).config.is_file()]
        if self.definition.is_file():
            self._refuse_changes(self.read(), study, begun)
        shapes: dict[str, tuple[int, ...]] = {}
        for key in begun:
            if key.arm in study.arms and key.environment in study.environments:
                self.check_run(study, key, lambda key=key: _shape(study, key, shapes))

    def check_run(self, study: Study, key: RunKey, shape: Callable[[], tuple[int, ...]] | None = None) -> None:
        """Raise if the run that is there has another configuration than the study gives it."""
        file = self._run_directory(key).config
        recorded = RunConfig.as_given(read_config(file), str(file))
        wanted = self.config(study, key)
        # A run records the members, or the space of a search, that follow from algorithm, seed and environment.
        if (recorded.members, recorded.space) != (wanted.members, wanted.space):
            wanted = wanted.resolved(shape)
        changed = config_differences(recorded, wanted)
        if changed:
            raise UserError(
                f"the run in {file.parent} is not the one that the study {study.name} describes, and nothing was "
                f"changed: {listed(changed)}; name another directory with --dir, or move that run away"
            )

    def config(self, study: Study, key: RunKey) -> RunConfig:
        """The configuration of a run; that of a chosen trial is known when those who choose are finished."""
        if key.arm not in study.retrained:
            return study.config(key)
        chosen = self._best_trial(study, study.retrained[key.arm], key.environment)
        return RunConfig.as_given({**study.values(key), "members": [chosen]}, f"the arm {key.arm}")

    def is_ready(self, study: Study, key: RunKey) -> bool:
        """Whether the configuration of a run is known."""
        search = study.retrained.get(key.arm)
        return search is None or all(
            self.is_finished(RunKey(search, key.environment, seed)) for seed in study.tuning_seeds
        )

    def _best_trial(self, study: Study, search: str, environment: str) -> Json:
        """The hyperparameters of the best among the longest trials that the search made on the tuning seeds."""
        runs = [RunKey(search, environment, seed) for seed in study.tuning_seeds]
        unfinished = [str(key) for key in runs if not self.is_finished(key)]
        if unfinished:
            raise UserError(f"the best trial of {search} is known when {', '.join(unfinished)} are finished")
        files = [self._run_directory(key).trials for key in runs]
        trials = [json_value(str(file), line) for file in files for line in whole_lines(file)]
        trials = [trial for trial in trials if trial["fitness"] is not None]
        if not trials:
            raise UserError(f"no trial of {search} in {environment} succeeded on the tuning seeds")
        longest = max(trial["fidelity"] for trial in trials)
        best = max((trial for trial in trials if trial["fidelity"] == longest), key=lambda trial: trial["fitness"])
        return best["hyperparameters"]

    def freeze(self, study: Study) -> None:
        """Keep the definition, unless it is there already. Call `check` first."""
        text = yaml_text(study.to_dict())
        if self.definition.is_file() and read_text(self.definition) == text:
            return
        make_parent(self.definition)
        with replacing(self.definition) as file:
            file.write(text.encode())

    def state(self, key: RunKey) -> RunState:
        """How far a run is, now."""
        directory = self._run_directory(key)
        if directory.finished:
            summary = _mapping(directory.summary)
            return RunState("finished", int(summary.get("steps", 0)), _seconds(summary.get("time")))
        step, elapsed = _progress(directory.progress)
        if self.is_locked(key):
            return RunState("running", step, elapsed)
        if self._failure(key).is_file():
            return RunState("failed", step, elapsed, str(_mapping(self._failure(key)).get("reason", "")))
        return RunState("interrupted" if directory.config.is_file() else "missing", step, elapsed)

    def is_finished(self, key: RunKey) -> bool:
        """Whether the run went its whole way."""
        return self._run_directory(key).finished

    def has_begun(self, key: RunKey) -> bool:
        """Whether there is a run to resume."""
        return self._run_directory(key).config.is_file()

    def is_locked(self, key: RunKey) -> bool:
        """Whether some process is executing the run."""
        try:
            RunLock(self.run(key)).require_free()
        except UserError:
            return True
        return False

    def mark_failed(self, key: RunKey, reason: str) -> None:
        """Note that an attempt failed."""
        path = self._failure(key)
        make_parent(path)
        with replacing(path) as file:
            file.write(json.dumps({"reason": reason}).encode() + b"\n")

    def clear_failure(self, key: RunKey) -> None:
        """Forget the last attempt, before the next one."""
        path = self._failure(key)
        with writing(path):
            path.unlink(missing_ok=True)

    def discard_checkpoint(self, key: RunKey) -> None:
        """Delete the checkpoint of a finished run, which is most of what it takes on disk."""
        checkpoint = self._run_directory(key).checkpoint
        if self.is_finished(key) and not checkpoint.is_symlink() and checkpoint.is_dir():
            with writing(checkpoint):
                shutil.rmtree(checkpoint)

    def _run_directory(self, key: RunKey) -> RunDirectory:
        return RunDirectory(self.run(key))

    def _all_runs(self, study: Study) -> list[RunKey]:
        """The runs of the study, and those of the definition that is frozen here."""
        known = dict.fromkeys(study.runs())
        if self.definition.is_file():
            known |= dict.fromkeys(self.read().runs())
        return list(known)

    def _refuse_changes(self, before: Study, after: Study, begun: Iterable[RunKey]) -> None:
        """Raise if what has begun would belong to something else. Arms, environments and seeds may be added."""
        begun = list(begun)
        old, new = _comparable(before), _comparable(after)
        touched: list[str] = []
        for kind, of_run in _KINDS.items():
            for label, entry in old[kind].items():
                if entry == new[kind].get(label) or not any(of_run(before, key, label) for key in begun):
                    continue
                touched += differences(
                    {kind: {label: entry}}, {kind: {label: new[kind][label]}} if label in new[kind] else {}
                )
        if touched:
            raise UserError(
                f"the definition of the study in {self.path} has changed, but {len(begun)} of its runs have begun "
                f"with the former one, and nothing was changed: {listed(touched)}; undo the change, or name another "
                "directory with --dir"
            )


# Whether a run depends on an entry of the definition, by the kind of the entry and its label.
_KINDS: dict[str, Callable[[Study, RunKey, object], bool]] = {
    "arms": lambda study, key, label: key.arm == label,
    "environments": lambda study, key, label: key.environment == label,
    "seeds": lambda study, key, label: key.seed == label,
    "tuning_seeds": lambda study, key, label: key.seed == label,
    "choices": lambda study, key, label: key.arm in study.choices.get(str(label), ()),
    "retrained": lambda study, key, label: key.arm == label,
}


def _comparable(study: Study) -> dict[str, dict[Any, Any]]:
    """What two definitions are compared by: defaults of today filled in, and without what changes no run."""
    environment = next(iter(study.environments.values()))
    arms: Json = {}
    for label, values in study.arms.items():
        complete = arm_values(RunConfig.as_given({**values, **environment}, f"the arm {label}"))
        arms[label] = {name: value for name, value in complete.items() if name not in WITHOUT_EFFECT}
    return {
        "arms": arms,
        "environments": dict(study.environments),
        "seeds": dict.fromkeys(study.seeds, "reported on"),
        "tuning_seeds": dict.fromkeys(study.tuning_seeds, "chosen on"),
        "choices": {name: list(arms) for name, arms in study.choices.items()},
        "retrained": {
            arm: {"best_trial_of": search, "chosen_on": sorted(study.tuning_seeds)}
            for arm, search in study.retrained.items()
        },
    }


def _shape(study: Study, key: RunKey, known: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of the observations of a run; one environment of each kind is made to look at it."""
    if key.environment not in known:
        known[key.environment] = study.config(key).environment().observation_shape()
    return known[key.environment]


def _progress(path: Path) -> tuple[int, float]:
    """The step and the seconds in the last row of progress.csv; a run does not depend on this file."""
    with contextlib.suppress(OSError, ValueError, IndexError, UnicodeDecodeError):
        with path.open("rb") as file:
            header = file.readline().decode().strip().split(",")
            file.seek(max(file.tell(), path.stat().st_size - _TAIL))
            rows = file.read().decode().split("\n")[:-1]
        row = dict(zip(header, rows[-1].split(","), strict=True))
        return int(float(row[_STEP_TAG])), float(row.get(_TIME_TAG) or 0.0)
    return 0, 0.0


def _mapping(path: Path) -> Json:
    values = json_value(str(path), read_text(path))
    return values if isinstance(values, dict) else {}


def _seconds(time: object) -> float:
    elapsed = time.get("elapsed") if isinstance(time, dict) else None
    return float(elapsed) if isinstance(elapsed, int | float) else 0.0
