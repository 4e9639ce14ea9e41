"""Reading a run directory, also while the run is in progress or after it was killed."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adaqn.agents.registry import algorithm, algorithm_names
from adaqn.base.checks import count
from adaqn.base.errors import UserError
from adaqn.base.files import Json, json_value, read_text, read_yaml
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.directory import RunDirectory


class Episodes(NamedTuple):
    """The n finished training episodes of a run."""

    step: NDArray[np.int64]  # [n] environment steps taken when it ended
    total: NDArray[np.float64]  # [n] undiscounted return
    length: NDArray[np.int64]  # [n]


class Selections(NamedTuple):
    """The n target updates of a run with K members."""

    step: NDArray[np.int64]  # [n]
    target: NDArray[np.int64]  # [n] member that became the target
    loss: NDArray[np.float64]  # [n, K] cumulated loss, inf for a diverged member
    acted: NDArray[np.float64]  # [n, K] actions since the last target update, or share of updates in the behaviour pair
    selected: NDArray[np.float64]  # [n, K] share of the row's target updates in which the member was in the target
    discount: NDArray[np.float64] | None = None  # [n] of the target, in runs in which it can change


class Evaluations(NamedTuple):
    """The n evaluation episodes of a run."""

    step: NDArray[np.int64]  # [n] environment steps taken when the evaluation was made
    generation: NDArray[np.int64]  # [n] number in members.jsonl
    member: NDArray[np.int64]  # [n]
    total: NDArray[np.float64]  # [n] undiscounted return
    length: NDArray[np.int64]  # [n]


TRAINING, EVALUATION = "training", "evaluation"


class BestModel(NamedTuple):
    """When best_model.zip was last written, and for which return."""

    step: int
    total: float  # mean return; nan if there was no episode to judge by
    judged_by: str  # TRAINING or EVALUATION


@dataclass(frozen=True)
class RunData:
    """The content of a run directory, without the checkpoints."""

    path: Path
    config: Json
    episodes: Episodes
    selection: Selections
    members: list[Json]  # the ensemble at the start and after every generation
    progress: dict[str, NDArray[np.float64]]  # columns by tag, nan where there was no value
    summary: Json | None  # None if the run is not finished
    sums_up_selections: bool  # a row of `selection` summarizes many target updates
    evaluations: Evaluations  # of the policy
    member_evaluations: Evaluations | None  # of the individual members, if the algorithm evaluates them
    best_model: BestModel | None


def read_run(path: str | os.PathLike[str]) -> RunData:
    """Read the files of a run; a file that does not exist yet counts as empty."""
    directory = RunDirectory.open(path)
    config = _read_config(directory.config)
    by_member = _evaluates_members(config)
    return RunData(
        path=directory.path,
        config=config,
        episodes=read_episodes(directory.episodes),
        selection=read_selection(directory.selection),
        members=read_members(directory.members),
        progress=read_progress(directory.progress),
        summary=_parse_json(directory.summary, read_text(directory.summary)) if directory.finished else None,
        sums_up_selections="selected_0" in _read_table(directory.selection)[0],
        evaluations=read_evaluations(directory.policy_evaluations if by_member else directory.evaluations),
        member_evaluations=read_evaluations(directory.evaluations) if by_member else None,
        best_model=read_best_model(directory.best_model_table),
    )


def read_episodes(path: Path) -> Episodes:
    """Read episodes.csv."""
    _, rows = _read_table(path)
    values = _numbers(path, rows, columns=3)
    return Episodes(_whole(path, values[:, 0]), values[:, 1], _whole(path, values[:, 2]))


def read_selection(path: Path) -> Selections:
    """Read selection.csv."""
    header, rows = _read_table(path)
    members = sum(column.startswith("loss_") for column in header)
    has_discount = header[-1:] == ["discount"]
    of_members = len(header) - 2 - has_discount
    if header and (of_members not in (2 * members, 3 * members) or not members):
        raise UserError(
            f"{path} must have the columns step, target, loss_0, ..., acted_0, ..., but it has {','.join(header)!r}"
        )
    values = _numbers(path, rows, columns=max(2, len(header)))
    target = _whole(path, values[:, 1])
    if ((target < 0) | (target >= members)).any():
        raise UserError(f"{path} has losses of {members} members, but its targets include other members")
    blocks = [values[:, first : first + members] for first in range(2, 2 + of_members, max(1, members))]
    # Without `selected` columns, a row is one target update with one target member.
    alone = (target[:, None] == np.arange(members)).astype(np.float64)
    loss, acted, selected = (*blocks, *[alone] * (3 - len(blocks)))
    discount = values[:, -1] if has_discount else None
    return Selections(_whole(path, values[:, 0]), target, loss, acted, selected, discount)


def read_evaluations(path: Path) -> Evaluations:
    """Read evaluations.csv or policy_evaluations.csv."""
    _, rows = _read_table(path)
    values = _numbers(path, rows, columns=5)
    step, generation, member, length = values[:, [0, 1, 2, 4]].astype(np.int64).T
    return Evaluations(step, generation, member, values[:, 3], length)


def read_best_model(path: Path) -> BestModel | None:
    """The last row of best_model.csv, or None if no model was saved yet."""
    _, rows = _read_table(path)
    if not rows:
        return None
    try:
        step, total, judged_by = rows[-1]
        best = BestModel(int(step), float(total), judged_by)
    except ValueError:
        best = None
    if best is None or best.judged_by not in (TRAINING, EVALUATION):
        raise UserError(
            f"the last row of {path} must be a step, a return and {TRAINING} or {EVALUATION}, "
            f"but it is {','.join(rows[-1])!r}"
        )
    return best


def _evaluates_members(config: Mapping[str, Any]) -> bool:
    """Whether evaluations.csv is about individual members, so that policy evaluations are in another file."""
    name = config.get("algo")
    return name in algorithm_names() and "evaluations" in algorithm(name).traits.tables


def read_members(path: Path) -> list[Json]:
    """Read members.jsonl."""
    lines = [_parse_json(path, line) for line in whole_lines(path)]
    for number, line in enumerate(lines, 1):
        members = line.get("members")
        if not isinstance(members, list) or not all(isinstance(values, dict) for values in members):
            raise UserError(f"line {number} of {path} must have a list of members, but it has {members!r}")
        line["step"] = count(f"the step in line {number} of {path}", line.get("step"))
    return lines


def member_of(values: Mapping[str, Any]) -> Hyperparameters:
    """The hyperparameters of a member in a line of members.jsonl."""
    return Hyperparameters.from_dict({k: v for k, v in values.items() if k not in ("parent", "mutation")})


def read_progress(path: Path) -> dict[str, NDArray[np.float64]]:
    """Read progress.csv."""
    header, rows = _read_table(path)
    values = _numbers(path, [[cell or "nan" for cell in row] for row in rows], columns=len(header))
    return {tag: values[:, index] for index, tag in enumerate(header)}


def whole_lines(path: Path, errors: str = "strict") -> list[str]:
    """The complete lines of a file; a killed process may have left an incomplete last one."""
    if not path.exists():
        return []
    try:
        text = path.read_bytes()
        return text[: text.rfind(b"\n") + 1].decode("utf-8", errors).split("\n")[:-1]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path} as text: {error}") from None


def _read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        header, *rows = list(csv.reader(whole_lines(path))) or [[]]
    except csv.Error as error:
        raise UserError(f"{path} is not a table: {error}") from None
    return header, rows


def _numbers(path: Path, rows: list[list[str]], columns: int) -> NDArray[np.float64]:
    """The values of a table without its header. [rows, columns]"""
    values = np.empty((len(rows), columns))
    for index, row in enumerate(rows):
        try:
            values[index] = np.array([float(cell) for cell in row]).reshape(columns)
        except ValueError as error:
            raise UserError(
                f"line {index + 2} of {path} must have {columns} numbers, but it is {','.join(row)!r}"
            ) from error
    return values


def _whole(path: Path, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """A column of steps, lengths or indices as integers. [rows]"""
    wrong = ~(np.abs(values) < 2**53) | (values % 1.0 != 0.0)  # also true for nan
    if wrong.any():
        raise UserError(f"line {int(np.argmax(wrong)) + 2} of {path} has {values[wrong][0]} for a whole number")
    return values.astype(np.int64)


def _parse_json(path: Path, text: str) -> Json:
    values = json_value(str(path), text)
    if not isinstance(values, dict):
        raise UserError(f"{path} must hold an object, but it holds {text[:80]!r}")
    return values


def _read_config(path: Path) -> Json:
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise UserError(f"{path} must hold a mapping of names to values, but it holds {values!r}")
    return values
