"""What a study costs before it starts: environment steps, time, memory and disk, arm by arm."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from adaqn.base.errors import UserError
from adaqn.base.files import json_value, make_parent, read_text, replacing
from adaqn.studies.calibration import Measurement, calibrate
from adaqn.studies.directory import StudyDirectory
from adaqn.studies.display import duration
from adaqn.studies.study import RunKey, Study

TOO_SHORT = 20_000  # steps of a run that takes less time than its calibration


class ArmCost(NamedTuple):
    """What the open runs of one arm cost."""

    arm: str
    runs: int  # that are not finished
    steps: int  # environment steps that these still take, together
    seconds: float | None  # of one core, together; None if that was not measured
    measured: Measurement | None


def costs(
    study: Study, directory: StudyDirectory, keys: Sequence[RunKey], measured: Mapping[str, Measurement]
) -> list[ArmCost]:
    """The costs of all arms that have open runs."""
    rows: list[ArmCost] = []
    for arm in study.arms:
        states = [directory.state(key) for key in keys if key.arm == arm]
        left = [int(study.arms[arm]["steps"]) - state.step for state in states if state.status != "finished"]
        if left:
            found = measured.get(arm)
            seconds = None if found is None else sum(left) / max(found.steps_per_second, 1e-9)
            rows.append(ArmCost(arm, len(left), sum(left), seconds, found))
    return rows


def measurements(
    study: Study, directory: StudyDirectory, keys: Sequence[RunKey], jobs: int, console: Console, keep: bool
) -> dict[str, Measurement]:
    """Calibrate every arm with open runs in the first environment; `keep` remembers it in the study's directory."""
    first = next(iter(study.environments))
    arms = {
        key.arm: {**study.values(RunKey(key.arm, first, key.seed))}
        for key in keys
        if not directory.is_finished(key) and int(study.arms[key.arm]["steps"]) > TOO_SHORT
    }
    known = _remembered(directory, study)
    missing = {arm: values for arm, values in arms.items() if arm not in known}
    if missing:
        console.print(f"calibrating {len(missing)} arms in {first}: a few seconds of training for each", soft_wrap=True)
        with console.status("calibrating") as status:
            told = lambda done: status.update(f"calibrated {done} of {len(missing)} arms")  # noqa: E731
            known |= calibrate(missing, jobs, told)
        if keep:
            _remember(directory, study, known)
    return {arm: found for arm, found in known.items() if arm in arms}


def cost_table(study: Study, rows: Sequence[ArmCost], jobs: int) -> Table:
    """A row for each arm, and one for all."""
    title = f"study {study.name}" + (f" at the scale {study.scale}" if study.scale else "")
    table = Table(title=title, title_justify="left", caption_justify="left")
    measured = any(row.measured is not None for row in rows)
    columns = ("arm", "runs", "steps", *(("steps/s", "time", "memory/run", "disk/run") if measured else ()))
    for name in columns:
        table.add_column(name, justify="left" if name == "arm" else "right", overflow="fold")
    for row in rows:
        found = row.measured
        cells = (
            row.arm,
            str(row.runs),
            f"{row.steps:,}",
            "" if found is None else f"{found.steps_per_second:,.0f}",
            "" if row.seconds is None else duration(row.seconds),
            "" if found is None else _size(found.memory),
            "" if found is None else _size(found.disk),
        )
        table.add_row(*cells[: len(columns)])
    table.add_section()
    table.add_row(*["all", *_totals(rows)][: len(columns)])
    table.caption = _caption(study, rows, jobs)
    return table


def _totals(rows: Sequence[ArmCost]) -> list[str]:
    seconds = [row.seconds for row in rows if row.seconds is not None]
    disk = sum(row.runs * row.measured.disk for row in rows if row.measured is not None)
    whole = duration(sum(seconds)) if seconds else ""
    steps = f"{sum(row.steps for row in rows):,}"
    return [str(sum(row.runs for row in rows)), steps, "", whole, "", _size(disk) if seconds else ""]


def _caption(study: Study, rows: Sequence[ArmCost], jobs: int) -> str:
    """What the numbers mean, and how long it takes with so many runs at a time."""
    seconds = [row.seconds for row in rows if row.seconds is not None]
    if not seconds:
        short = all(int(study.arms[row.arm]["steps"]) <= TOO_SHORT for row in rows)
        return f"not calibrated: runs of up to {TOO_SHORT:,} steps are not" if short else "not calibrated"
    largest = sorted((row.measured.memory for row in rows if row.measured is not None), reverse=True)
    per_run = max((row.seconds or 0.0) / row.runs for row in rows)
    runs = "1 run" if jobs == 1 else f"{jobs} runs"
    return (
        f"{duration(max(sum(seconds) / jobs, per_run))} with {runs} at a time, which then take up to "
        f"{_size(jobs * largest[0])} of memory; measured in {next(iter(study.environments))}, other environments "
        "and later generations may differ"
    )


def _size(size: int) -> str:
    """Bytes for people."""
    return f"{size / 1e9:,.1f} GB" if size >= 10**9 else f"{size / 1e6:,.0f} MB"


def _cache(directory: StudyDirectory) -> Path:
    return directory.path / "logs" / "calibration.json"


def _identity(study: Study, arm: str) -> str:
    """What a measurement holds for: the machine, and what is trained."""
    return json.dumps([platform.node(), next(iter(study.environments)), study.arms[arm]], sort_keys=True)


def _remembered(directory: StudyDirectory, study: Study) -> dict[str, Measurement]:
    """The measurements of former calls; a file that cannot be read is made anew."""
    try:
        entries = json_value("the calibration", read_text(_cache(directory)))
        known = {entry["identity"]: Measurement(**entry["measurement"]) for entry in entries}
    except (UserError, KeyError, TypeError):
        return {}
    return {arm: known[_identity(study, arm)] for arm in study.arms if _identity(study, arm) in known}


def _remember(directory: StudyDirectory, study: Study, known: Mapping[str, Measurement]) -> None:
    entries = [
        {"arm": arm, "identity": _identity(study, arm), "measurement": found._asdict()} for arm, found in known.items()
    ]
    make_parent(_cache(directory))
    with replacing(_cache(directory)) as file:
        file.write(json.dumps(entries, indent=1).encode() + b"\n")
