"""Sinks for metrics: a CSV table, TensorBoard and W&B. On failure each raises an OutputFault and nothing else."""

from __future__ import annotations

import csv
import inspect
import io
import math
import os
import secrets
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from tensorboardX.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]
from tensorboardX.record_writer import masked_crc32c
from tensorboardX.summary import scalar

from adaqn.base.errors import OutputFault, UserError
from adaqn.base.files import replacing, write_all, writing
from adaqn.base.plugins import require_extra
from adaqn.runs.reading import whole_lines
from adaqn.runs.recorders.progress import Metrics

STEP_TAG = "time/total_timesteps"


class CsvSink:
    """progress.csv: a row per log, a column per tag, empty if a tag has no value."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tags: list[str] = []

    def open(self, step: int) -> None:
        """Keep the complete rows up to this step."""
        self._tags, rows = self._read()
        if self._tags:
            self._rewrite([row for row in rows if _step(row) <= step])

    def write(self, step: int, metrics: Metrics) -> None:
        """Append a row; a new tag becomes a new column of all rows."""
        new_tags = [tag for tag in metrics if tag not in self._tags]
        if new_tags:
            _, rows = self._read()
            self._tags += new_tags
            self._rewrite(rows)
        with writing(self._path), self._path.open("a", newline="") as file:
            file.write(self._lines([{tag: "" if v is None else str(v) for tag, v in metrics.items()}]))

    def close(self) -> None:
        """Do nothing: no file is kept open."""

    def _read(self) -> tuple[list[str], list[dict[str, str]]]:
        with writing(self._path):
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
    """The step of a row; inf for a damaged row, which is then dropped: it must not end the run."""
    try:
        return float(row[STEP_TAG]) if None not in row else math.inf
    except (KeyError, TypeError, ValueError):
        return math.inf


class TensorBoardSink:
    """tensorboard/: the same tags as scalars.

    Events are written synchronously. tensorboardX's own writer uses a thread, which needs system semaphores (/dev/shm),
    and on which training would wait forever once a full disk has killed it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: BinaryIO | None = None

    def open(self, step: int) -> None:
        """Start a new event file; TensorBoard hides later steps in older files."""
        # Two files that are started within a second must not have the same name.
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{step}"
        with writing(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
            # Unbuffered: a failed write must not be retried when the file is closed.
            self._file = (self._directory / name).open("wb", buffering=0)
        events = [Event(file_version="brain.Event:2")]
        if step:
            events.append(Event(step=step + 1, session_log=SessionLog(status=SessionLog.START)))
        self._append(events)

    def write(self, step: int, metrics: Metrics) -> None:
        """Write the finite scalars."""
        finite = {tag: value for tag, value in metrics.items() if value is not None and math.isfinite(value)}
        self._append([Event(step=step, summary=scalar(tag, value)) for tag, value in finite.items()])

    def close(self) -> None:
        """Close the event file."""
        file, self._file = self._file, None
        if file is not None:
            with writing(self._directory):
                file.close()

    def _append(self, events: Sequence[Event]) -> None:
        """Append each event as a TFRecord: length, checksum of the length, data, checksum of the data."""
        assert self._file is not None, "open comes before write"
        records = []
        for event in events:
            event.wall_time = time.time()
            data = event.SerializeToString()
            length = struct.pack("<Q", len(data))
            records += [length, _checksum(length), data, _checksum(data)]
        try:
            with writing(self._directory):
                write_all(self._file, b"".join(records))
        except OutputFault:
            self.close()
            raise


def _checksum(data: bytes) -> bytes:
    return struct.pack("<I", masked_crc32c(data))


class WandbSink:
    """A Weights & Biases run; the environment variable WANDB_MODE selects online or offline mode."""

    def __init__(self, directory: Path, project: str, name: str, config: Mapping[str, Any]) -> None:
        self._directory = directory
        self._project = project
        self._name = name
        self._config = dict(config)
        self._run: Any = None

    def open(self, step: int) -> None:
        """Start the W&B run, or continue it under its previous id."""
        wandb, identity = require_wandb(), self._directory / "run-id"
        with _wandb_faults():
            if step == 0 or not identity.exists():
                self._directory.mkdir(parents=True, exist_ok=True)
                identity.write_text(secrets.token_hex(4) + "\n")
            self._run = wandb.init(
                dir=str(self._directory.parent),
                project=self._project,
                name=self._name,
                config=self._config,
                id=identity.read_text().strip(),
                resume="allow" if step else None,
            )

    def write(self, step: int, metrics: Metrics) -> None:
        """Log the metrics that have a value."""
        with _wandb_faults():
            self._run.log({tag: value for tag, value in metrics.items() if value is not None}, step=step)

    def close(self) -> None:
        """Finish the W&B run."""
        run, self._run = self._run, None
        if run is not None:
            with _wandb_faults():
                run.finish()


def require_wandb() -> ModuleType:
    """Import wandb; raises if it is not installed, or if it is in online mode without a login.

    Called before a run is created or resumed, so that a failure leaves nothing that blocks a second attempt.
    """
    wandb = require_extra("logging to W&B", "wandb", "wandb")
    with _wandb_faults():
        online = wandb.setup().settings.mode in (None, "online", "run")
        # Older versions cannot check the login without prompting the user.
        can_be_asked = "prompt" in inspect.signature(wandb.login).parameters
        logged_in = not online or not can_be_asked or wandb.login(prompt=False, verify=False)
    if not logged_in:
        raise UserError("W&B has no login here: run `wandb login` first, or set WANDB_MODE=offline to log to files")
    return wandb


@contextmanager
def _wandb_faults() -> Iterator[None]:
    """Convert every exception of W&B, including network errors, into an OutputFault."""
    try:
        yield
    except Exception as error:
        raise OutputFault(f"cannot log to W&B: {' '.join(str(error).split()) or type(error).__name__}") from error
