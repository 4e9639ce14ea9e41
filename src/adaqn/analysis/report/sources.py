"""What is at the given paths: runs and studies, and what of it cannot be read, with the reason.

A damaged file is a finding, not an error: it is reported on the page, and everything else is shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from adaqn import __version__
from adaqn.analysis.loading import StudyRun, run_directories, run_in
from adaqn.base.errors import UserError
from adaqn.base.files import json_value, read_text
from adaqn.runs.config import CONFIG_VERSION
from adaqn.runs.lock import RunLock
from adaqn.runs.reading import RunData

Status = Literal["finished", "running", "interrupted", "failed", "damaged"]
# What reading a file can raise whose content is not what a run writes.
DAMAGE = (UserError, OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError)
LOG_LINES = 60


@dataclass(frozen=True)
class RunSource:
    """One run directory, as far as it can be read."""

    path: Path
    status: Status
    run: StudyRun | None  # None if not even its configuration can be read
    data: RunData | None = None
    problem: str = ""  # why it is damaged or has failed
    log: str = ""  # the end of what a failed run printed
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the page calls it."""
        if self.run is None:
            return str(self.path)
        return f"{self.run.arm}, {self.run.environment}, seed {self.run.seed}"


@dataclass(frozen=True)
class StudySource:
    """The directory of a study and its runs."""

    root: Path
    runs: tuple[RunSource, ...]


@dataclass
class Sources:
    """Everything that a page is about."""

    studies: list[StudySource] = field(default_factory=list)
    runs: list[RunSource] = field(default_factory=list)
    empty: list[Path] = field(default_factory=list)  # directories without a run, or that have gone


def read_sources(paths: Sequence[Path], confined: bool = False) -> Sources:
    """Read the runs at or below the paths; `confined` leaves out directories that are links to elsewhere."""
    found = Sources()
    for path in paths:
        folders = sorted(run_directories(path), key=_place) if path.is_dir() else []
        logs = sorted(path.glob("logs/*/*/*.failed")) if path.is_dir() else []
        if not folders and not logs:
            found.empty.append(path)
        studies: dict[Path, list[Path]] = {}
        for folder in folders:
            root = _study_root(path, folder)
            if root is None:
                found.runs.append(_read(folder, path, confined))
            else:
                studies.setdefault(root, []).append(folder)
        for log in logs:  # a run that failed before it wrote anything
            place = path / log.relative_to(path / "logs").with_suffix("")
            if place not in studies.setdefault(path, []):
                studies[path].append(place)
        for root, places in studies.items():
            found.studies.append(StudySource(root, tuple(_read(place, path, confined, root) for place in places)))
    return found


def _place(folder: Path) -> tuple[tuple[str, ...], int]:
    """Where a run is listed: by directory, and its seed as a number."""
    name = folder.name
    return (folder.parts[:-1], int(name)) if name.lstrip("-").isdigit() else (folder.parts, 0)


def _study_root(given: Path, folder: Path) -> Path | None:
    """The directory of the study that a run belongs to, at or below the given path."""
    parents = folder.relative_to(given).parts
    if len(parents) < 3 or not parents[-1].lstrip("-").isdigit():
        return None
    return given.joinpath(*parents[:-3])


def _read(folder: Path, given: Path, confined: bool, study: Path | None = None) -> RunSource:
    reason, log = ("", "") if study is None else _failure(study, folder)
    try:
        if not (folder / "config.yaml").is_file():
            return RunSource(folder, "failed", None, problem=reason, log=log)
        _require_own_files(folder, given if confined else folder)
        run = run_in(folder)
    except DAMAGE as error:
        return RunSource(folder, "damaged", None, problem=_said(error), log=log)
    notes = _version_notes(run)
    try:
        data, _ = run.data, run.summary
    except DAMAGE as error:
        return RunSource(folder, "damaged", run, problem=_said(error), log=log, notes=notes)
    if data.summary is not None:
        return RunSource(folder, "finished", run, data, notes=(*notes, *_missing_episodes(data)))
    if _is_locked(folder):
        return RunSource(folder, "running", run, data, notes=notes)
    return RunSource(folder, "failed" if reason else "interrupted", run, data, reason, log, notes)


def _require_own_files(folder: Path, root: Path) -> None:
    """Raise if the directory, or a file in it, is a link that leads outside of `root`."""
    limit = os.path.realpath(root)
    for path in (folder, *sorted(folder.iterdir())):
        if not is_inside(path, limit):
            raise UserError(f"{path} is a link that leads outside of {root}, which a report does not follow")


def is_inside(path: Path, root: str | Path) -> bool:
    """Whether a path, with all links resolved, is at or below a directory."""
    limit, real = os.path.realpath(root), os.path.realpath(path)
    return real == limit or real.startswith(limit.rstrip(os.sep) + os.sep)


def _failure(study: Path, folder: Path) -> tuple[str, str]:
    """Why the last attempt of a run failed, and the end of its log."""
    place = study / "logs" / folder.relative_to(study)
    reason = place.with_name(f"{place.name}.failed")
    if not reason.is_file() or not is_inside(reason, study):
        return "", ""
    try:
        values = json_value(str(reason), read_text(reason))
        said = str(values.get("reason")) if isinstance(values, dict) else "for an unknown reason"
    except UserError as error:
        said = str(error)
    log = place.with_name(f"{place.name}.log")
    return said, tail(log) if is_inside(log, study) else ""


def tail(path: Path, lines: int = LOG_LINES) -> str:
    """The last lines of a text file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1000 * lines))
            return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-lines:])
    except OSError:
        return ""


def _version_notes(run: StudyRun) -> tuple[str, ...]:
    """What to tell about a run that another version wrote."""
    notes, version = [], run.config.get("version")
    if version != CONFIG_VERSION:
        newer = isinstance(version, int) and version > CONFIG_VERSION
        notes.append(
            f"its configuration has version {version!r}, {'which is newer than' if newer else 'but'} this adaqn reads "
            f"version {CONFIG_VERSION}, so what is shown may be incomplete"
        )
    try:
        written = str(((run.summary or {}).get("versions") or {}).get("adaqn", ""))
    except DAMAGE:
        written = ""
    if _numbers(written) > _numbers(__version__):
        notes.append(f"it was written by adaqn {written}, which is newer than this {__version__}")
    return tuple(notes)


def _missing_episodes(data: RunData) -> tuple[str, ...]:
    """What to tell about a finished run whose episodes.csv was cut off later."""
    written, found = (data.summary or {}).get("episodes"), len(data.episodes.step)
    if not isinstance(written, int) or written == found:
        return ()
    return (f"its summary.json counts {written:,} episodes, but episodes.csv has {found:,}, so it may be cut off",)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _is_locked(folder: Path) -> bool:
    try:
        RunLock(folder).require_free()
    except UserError:
        return True
    return False


def _said(error: BaseException) -> str:
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"


def fingerprint(paths: Iterable[Path]) -> str:
    """A text that changes when a file of a run or of a log at or below the paths is written."""
    newest, count, size = 0, 0, 0
    for path in paths:
        for folder, inner, files in os.walk(path):
            inner[:] = [name for name in inner if name not in ("checkpoint", "tensorboard", "wandb")]
            for name in files:
                if name.startswith(".") or name == "report.html":
                    continue
                try:
                    status = os.lstat(os.path.join(folder, name))
                except OSError:  # removed meanwhile
                    continue
                newest, count, size = max(newest, status.st_mtime_ns), count + 1, size + status.st_size
    return f"{newest}-{count}-{size}"
