"""The run directory: the names of its files, and checks so that nothing is overwritten unintentionally."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from adaqn.base.errors import UserError
from adaqn.runs.lock import LOCK_NAME

# Files that are byte-identical for the same configuration and seed; checkpoints record their content.
EXACT_FILES = (
    "episodes.csv",
    "selection.csv",
    "members.jsonl",
    "evaluations.csv",
    "policy_evaluations.csv",
    "trials.jsonl",
    "best_model.csv",
)
# The files that a run writes, relative to its directory, in the order in which they are deleted. Other files do not
# belong to the run. `summary.json` is first, so that a partial deletion does not look like a finished run, and
# `config.yaml` is last, because it identifies the directory as a run's. W&B's files are kept: each of its runs has its
# own directory.
_WRITTEN = (
    (".", r"summary\.json"),
    (".", r"(episodes|selection|(policy_)?evaluations|best_model|progress)\.csv|(members|trials)\.jsonl"),
    (".", r"best_model\.zip|picture\.png|report\.html|(best_)?policy\.(npz|onnx)|schedule\.yaml|(best_)?video\.mp4"),
    (".", r"\.(summary\.json|config\.yaml|(progress|(policy_)?evaluations)\.csv|best_model\.zip)\.\d+\.tmp"),
    (".", r"\.(picture\.png|report\.html|(best_)?policy\.(npz|onnx)|schedule\.yaml)\.\d+\.tmp"),
    ("tensorboard", r"events\.out\.tfevents\..+"),
    ("checkpoint", r"(step-\d+|end)\.zip|\.(step-\d+|end)\.zip\.\d+\.tmp"),
    ("checkpoint/segments", r"rows-\d+-\d+\.zip|\.rows-\d+-\d+\.zip\.\d+\.tmp"),
    (".", r"config\.yaml"),
)
_FOLDERS = ("tensorboard", "checkpoint/segments", "checkpoint")
# Files and folders that are written in place instead of being replaced atomically.
_WRITTEN_INTO = (*EXACT_FILES, "progress.csv", *_FOLDERS, "wandb")
# What is left of a run that was killed while it wrote its config.yaml: it has not begun.
_UNBEGUN = re.compile(rf"{re.escape(LOCK_NAME)}|\.config\.yaml\.\d+\.tmp")
# Entries that every `config.yaml` of a run has, unlike that of another program.
_CONFIG_ENTRIES = {b"version", b"algo", b"env", b"steps", b"seed", b"members", b"settings"}


@dataclass(frozen=True)
class RunDirectory:
    """The directory of one run."""

    path: Path

    @classmethod
    def create(cls, path: str | os.PathLike[str], force: bool = False) -> RunDirectory:
        """Create a directory for a new run; with `force`, the files of a previous run are removed from it."""
        directory = cls(Path(path))
        directory.require_room(force)
        directory.make()
        try:
            directory._remove_written()
        except OSError as error:
            raise UserError(f"cannot empty the run directory {path}: {error.strerror or error}") from error
        return directory

    def make(self) -> None:
        """Make the directory, if it does not exist."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make the run directory {self.path}: {error.strerror or error}") from error

    def require_room(self, force: bool) -> None:
        """Raise if a new run cannot use this directory, which need not exist; nothing is changed.

        With `force` it may contain a run, whose files are removed later; other files are neither removed nor
        overwritten, and symbolic links are never followed.
        """
        if not self.path.is_dir():  # if anything is in the way, `make` will raise
            return
        try:
            present = sorted(name for name in os.listdir(self.path) if not _UNBEGUN.fullmatch(name))
            if present and not force:
                raise UserError(
                    f"{self.path} is not empty (it holds {_listed(present)}), and nothing was overwritten: "
                    f"{self._ways()}"
                )
            self.require_no_links()
            names = [os.path.relpath(file, self.path) for file in self._written() if not _UNBEGUN.fullmatch(file.name)]
            if names and not self._holds_run():
                raise UserError(
                    f"{self.path} holds no run, as it has no config.yaml that a run wrote, so --force overwrites "
                    f"nothing there (such as {_listed(names)}): choose another directory, or empty it"
                )
        except OSError as error:
            raise UserError(f"cannot read the run directory {self.path}: {error.strerror or error}") from error

    def require_no_links(self) -> None:
        """Raise if a run would write through a symbolic link; the directory itself may be a link."""
        for name in _WRITTEN_INTO:
            file = self.path / name
            if file.is_symlink():
                raise UserError(
                    f"{file} is a symbolic link, which a run does not write through, and nothing was changed: put the "
                    "files themselves there, or make the whole run directory a link"
                )

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunDirectory:
        """Open the directory of an existing run."""
        directory = cls(Path(path))
        if not os.path.isdir(directory.path):
            raise UserError(f"there is no run directory {path}")
        if not os.path.isfile(directory.config):
            raise UserError(f"{path} is not a run directory: it has no config.yaml")
        return directory

    @property
    def config(self) -> Path:
        """The complete configuration of the run, as YAML."""
        return self.path / "config.yaml"

    @property
    def episodes(self) -> Path:
        """A row per finished training episode."""
        return self.path / "episodes.csv"

    @property
    def selection(self) -> Path:
        """A row per target update."""
        return self.path / "selection.csv"

    @property
    def members(self) -> Path:
        """The ensemble at the start and after every generation."""
        return self.path / "members.jsonl"

    @property
    def evaluations(self) -> Path:
        """A row per evaluation episode."""
        return self.path / "evaluations.csv"

    @property
    def policy_evaluations(self) -> Path:
        """A row per evaluation episode of the policy, if `evaluations` contains those of the members."""
        return self.path / "policy_evaluations.csv"

    @property
    def best_model(self) -> Path:
        """The model with the highest return so far."""
        return self.path / "best_model.zip"

    @property
    def best_model_table(self) -> Path:
        """A row for each time `best_model` was written."""
        return self.path / "best_model.csv"

    @property
    def trials(self) -> Path:
        """The trials of a search."""
        return self.path / "trials.jsonl"

    @property
    def progress(self) -> Path:
        """Metrics over time, the only table with wall-clock values."""
        return self.path / "progress.csv"

    @property
    def tensorboard(self) -> Path:
        """The same metrics for TensorBoard."""
        return self.path / "tensorboard"

    @property
    def wandb(self) -> Path:
        """W&B's own files."""
        return self.path / "wandb"

    @property
    def checkpoint(self) -> Path:
        """Checkpoints of the run, from which it can be resumed."""
        return self.path / "checkpoint"

    @property
    def summary(self) -> Path:
        """The results; exists only if the run is finished."""
        return self.path / "summary.json"

    @property
    def finished(self) -> bool:
        """Whether the run is finished."""
        return self.summary.is_file()

    def holds(self, path: Path) -> bool:
        """Whether this path is directly in the directory."""
        try:
            return os.path.samefile(path.parent, self.path)
        except OSError:  # one of them does not exist
            return path.parent == self.path

    def _ways(self) -> str:
        """What the user can do about a directory that is not empty."""
        if not self._holds_run():
            return "choose another directory, or add --force (in Python force=True) to write a run beside these files"
        return f"`adaqn resume {self.path}` continues the run that is there, --force (in Python force=True) replaces it"

    def _holds_run(self) -> bool:
        """Whether config.yaml has the keys of a run's; it is not parsed, because edits may have made it invalid."""
        try:
            with self.config.open("rb") as file:
                text = file.read(1 << 20)
        except OSError:
            return False
        return set(re.findall(rb"^(\w+):", text, re.MULTILINE)) >= _CONFIG_ENTRIES

    def _written(self) -> list[Path]:
        """The existing files that a run writes, in the order in which they are to be deleted."""
        files: list[Path] = []
        for folder, pattern in _WRITTEN:
            directory = self.path / folder
            names = sorted(os.listdir(directory)) if directory.is_dir() else []
            files += [directory / name for name in names if re.fullmatch(pattern, name)]
        return [file for file in files if file.is_symlink() or not file.is_dir()]

    def _remove_written(self) -> None:
        for file in self._written():
            os.unlink(file)
        for folder in _FOLDERS:
            with contextlib.suppress(OSError):  # missing, or it contains other files
                os.rmdir(self.path / folder)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:6])
    return f"{shown} and {len(names) - 6} more" if len(names) > 6 else shown
