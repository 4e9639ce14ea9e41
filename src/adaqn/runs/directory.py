"""The run directory: the names of all files in it, and that nothing in it is overwritten unasked."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from adaqn.errors import UserError

# The files that a run writes, relative to its directory. Whatever matches none of these is somebody else's.
# `summary.json` is deleted first, so that half a deletion leaves nothing that looks finished. What W&B wrote
# stays: each of its runs has a directory of its own.
_WRITTEN = (
    (".", r"summary\.json"),
    (".", r"config\.yaml|(episodes|selection|(policy_)?evaluations|progress)\.csv|(members|trials)\.jsonl"),
    (".", r"best_model\.zip|picture\.png|policy\.npz|schedule\.yaml|video\.mp4|(policy_)?evaluations\.csv\.new"),
    (".", r"\.(summary\.json|config\.yaml|progress\.csv|best_model\.zip)\.\d+\.tmp"),
    ("tensorboard", r"events\.out\.tfevents\..+"),
    ("checkpoint", r"step-\d+\.zip|\.step-\d+\.zip\.\d+\.tmp"),
    ("checkpoint/segments", r"rows-\d+-\d+\.zip|\.rows-\d+-\d+\.zip\.\d+\.tmp"),
)


@dataclass(frozen=True)
class RunDirectory:
    """Where one run lives."""

    path: Path

    @classmethod
    def create(cls, path: str | os.PathLike[str], force: bool = False) -> RunDirectory:
        """An empty directory for a new run; with `force`, what a former run wrote there is removed."""
        directory = cls(Path(path))
        try:
            directory.path.mkdir(parents=True, exist_ok=True)
            present = sorted(os.listdir(directory.path))
            if present and not force:
                raise UserError(
                    f"{path} is not empty (it holds {_listed(present)}), and nothing was overwritten: "
                    f"`adaqn resume {path}` continues the run, --force starts it anew"
                )
            directory._remove_written()
        except OSError as error:
            raise UserError(f"cannot make the run directory {path}: {error.strerror or error}") from error
        return directory

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunDirectory:
        """The directory of a run that exists."""
        directory = cls(Path(path))
        if not os.path.isdir(directory.path):
            raise UserError(f"there is no run directory {path}")
        if not os.path.isfile(directory.config):
            raise UserError(f"{path} is not a run directory: it has no config.yaml")
        return directory

    @property
    def config(self) -> Path:
        """All that the run was told, as YAML."""
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
        """What W&B keeps for itself."""
        return self.path / "wandb"

    @property
    def checkpoint(self) -> Path:
        """The last good state."""
        return self.path / "checkpoint"

    @property
    def summary(self) -> Path:
        """The outcome; it exists when the run is finished."""
        return self.path / "summary.json"

    @property
    def finished(self) -> bool:
        """Whether the run went its whole way."""
        return self.summary.is_file()

    def _remove_written(self) -> None:
        for folder, pattern in _WRITTEN:
            directory = self.path / folder
            names = os.listdir(directory) if directory.is_dir() else []
            for name in names:
                if re.fullmatch(pattern, name) and not (directory / name).is_dir():
                    os.unlink(directory / name)
        for folder in ("tensorboard", "checkpoint/segments", "checkpoint"):
            with contextlib.suppress(OSError):  # missing, or with something foreign in it
                os.rmdir(self.path / folder)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:6])
    return f"{shown} and {len(names) - 6} more" if len(names) > 6 else shown
