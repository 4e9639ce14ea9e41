"""Where metrics go: a CSV table, TensorBoard, W&B."""

from __future__ import annotations

import csv
import io
import math
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboardX import SummaryWriter

from adaqn.errors import UserError
from adaqn.runs.reading import whole_lines
from adaqn.runs.recorders.progress import Metrics
from adaqn.snapshot import replacing

STEP_TAG = "time/total_timesteps"


class CsvSink:
    """progress.csv: a row per log, a column per tag, empty where a tag has no value."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tags: list[str] = []

    def open(self, step: int) -> None:
        """Keep the whole rows up to this step."""
        self._tags, rows = self._read()
        if self._tags:
            self._rewrite([row for row in rows if _step(row) <= step])

    def write(self, step: int, metrics: Metrics) -> None:
        """Append a row; a tag that was not there before becomes a new column of all rows."""
        new_tags = [tag for tag in metrics if tag not in self._tags]
        if new_tags:
            _, rows = self._read()
            self._tags += new_tags
            self._rewrite(rows)
        with self._path.open("a", newline="") as file:
            file.write(self._lines([{tag: "" if v is None else str(v) for tag, v in metrics.items()}]))

    def close(self) -> None:
        """Nothing is held open."""

    def _read(self) -> tuple[list[str], list[dict[str, str]]]:
        reader = csv.DictReader(whole_lines(self._path, errors="replace"), restval="")
        try:
            rows = list(reader)
            return list(reader.fieldnames or []), rows
        except csv.Error:
            return [], []

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        with replacing(self._path) as file:
            file.write(self._lines([{tag: tag for tag in self._tags}, *rows]).encode())

    def _lines(self, rows: list[dict[str, str]]) -> str:
        text = io.StringIO()
        csv.DictWriter(text, self._tags, restval="", lineterminator="\n").writerows(rows)
        return text.getvalue()


def _step(row: dict[str, str]) -> float:
    """The step of a row; nothing depends on this table, so that a damaged row is dropped and ends no run."""
    try:
        return float(row[STEP_TAG]) if None not in row else math.inf
    except (KeyError, TypeError, ValueError):
        return math.inf


class TensorBoardSink:
    """tensorboard/: the same tags as scalars."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._writer: SummaryWriter | None = None

    def open(self, step: int) -> None:
        """Begin a new file of events; TensorBoard hides what older ones hold of later steps."""
        purge_step = step + 1 if step else None
        self._writer = SummaryWriter(str(self._directory), purge_step=purge_step, flush_secs=10)

    def write(self, step: int, metrics: Metrics) -> None:
        """Write the scalars; of one that is not finite, tensorboardX would complain on every call."""
        assert self._writer is not None, "open comes before write"
        for tag, value in metrics.items():
            if value is not None and math.isfinite(value):
                self._writer.add_scalar(tag, value, step)

    def close(self) -> None:
        """Close the file of events."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class WandbSink:
    """A run of Weights & Biases; the environment variable WANDB_MODE says whether it goes online."""

    def __init__(self, directory: Path, project: str, name: str, config: Mapping[str, Any]) -> None:
        self._wandb = _wandb()  # now, and not after an hour of something else
        self._directory = directory
        self._project = project
        self._name = name
        self._config = dict(config)
        self._run: Any = None

    def open(self, step: int) -> None:
        """Begin the run, or continue it under the name that it had."""
        identity = self._directory / "run-id"
        if step == 0 or not identity.exists():
            self._directory.mkdir(parents=True, exist_ok=True)
            identity.write_text(secrets.token_hex(4) + "\n")
        self._run = self._wandb.init(
            dir=str(self._directory.parent),
            project=self._project,
            name=self._name,
            config=self._config,
            id=identity.read_text().strip(),
            resume="allow" if step else None,
        )

    def write(self, step: int, metrics: Metrics) -> None:
        """Log what has a value."""
        self._run.log({tag: value for tag, value in metrics.items() if value is not None}, step=step)

    def close(self) -> None:
        """Finish the run."""
        if self._run is not None:
            self._run.finish()
            self._run = None


def _wandb() -> Any:
    try:
        import wandb
    except ImportError as error:
        raise UserError(
            "logging to W&B needs the package wandb, which is not installed: pip install adaqn[wandb]"
        ) from error
    return wandb
