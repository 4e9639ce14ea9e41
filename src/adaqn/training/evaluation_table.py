"""The table of evaluation episodes (evaluations.csv or policy_evaluations.csv): its row format, and its writer."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np

from adaqn.agents.events import MemberEvaluation
from adaqn.errors import UserError
from adaqn.exact_file import ExactFile, Written
from adaqn.files import replacing, writing
from adaqn.training.evaluation import EvaluationResult

EVALUATIONS_HEADER = "step,generation,member,return,length\n"


def evaluation_row(episode: MemberEvaluation) -> str:
    """The row of an episode; `repr` of a float parses back to the same float."""
    step, generation, member, total, length = episode
    return f"{step},{generation},{member},{float(total)!r},{length}\n"


class EvaluationLog:
    """A file with a row per evaluation episode."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = ExactFile(path)
        self._opened = False

    def check(self) -> None:
        """Raise if the file exists and is not a log of evaluations, so that it is not overwritten."""
        if os.path.lexists(self.path):
            self._read()

    def open(self, step: int) -> list[float]:
        """Continue at this step: drop later rows, and return the mean return of each earlier evaluation.

        Later rows come from a process that was killed after the checkpoint from which the run is resumed. If this log
        is opened again for another call of `learn`, all rows are kept.
        """
        present = os.path.lexists(self.path)
        rows = self._read() if present else []
        kept = [row for row in rows if self._opened or row.step <= step]
        text = "".join([EVALUATIONS_HEADER, *map(evaluation_row, kept)]).encode()
        if not present or self.path.read_bytes() != text:
            with writing(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.path) as file:
                file.write(text)
        self.file.resume(Written.of(text))
        if self._opened:
            return []
        self._opened = True
        returns: dict[int, list[float]] = {}
        for row in kept:
            returns.setdefault(row.step, []).append(row.total)
        return [float(np.mean(values)) for values in returns.values()]

    def append(self, step: int, generation: int, member: int, result: EvaluationResult) -> None:
        """Append the episodes of one evaluation."""
        episodes = zip(result.returns, result.lengths, strict=True)
        rows = [evaluation_row(MemberEvaluation(step, generation, member, *episode)) for episode in episodes]
        self.file.append("".join(rows))

    def close(self) -> None:
        """Close the file; the log can be opened again."""
        self.file.close()

    def _read(self) -> list[MemberEvaluation]:
        try:
            with self.path.open(newline="", encoding="utf-8", errors="replace") as file:
                text = file.read()
            # A killed process can leave an incomplete last row; it is newer than any checkpoint and will be rewritten.
            whole = text[: text.rfind("\n") + 1] or text
            header, *rows = list(csv.reader(whole.splitlines())) or [[]]
        except (OSError, csv.Error) as error:
            raise UserError(f"cannot read {self.path} as a log of evaluations: {error}") from error
        columns = EVALUATIONS_HEADER.strip()
        if ",".join(header) != columns:
            raise UserError(
                f"{self.path} must begin with {columns}, but got {','.join(header)[:80]}: it is "
                "not a log of evaluations, and was not overwritten"
            )
        return [self._episode(row) for row in rows]

    def _episode(self, row: list[str]) -> MemberEvaluation:
        try:
            step, generation, member, total, length = row
            return MemberEvaluation(int(step), int(generation), int(member), float(total), int(length))
        except ValueError:
            raise UserError(f"{self.path} must hold numbers, but one of its lines is {','.join(row)!r}") from None
