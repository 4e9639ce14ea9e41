"""The exact tables of a run: its episodes, its target updates and its ensemble."""

from __future__ import annotations

import json
import math

import numpy as np

from adaqn.agents.protocol import Event, Generation, MemberEvaluation, TargetUpdate, TrialEnd
from adaqn.base.exact_file import NOTHING, ExactFile
from adaqn.members.evolution import Descendant
from adaqn.training.evaluation import EVALUATIONS_HEADER, evaluation_row
from adaqn.training.observers import Episode, Observer, RunView

EPISODES_HEADER = "step,return,length\n"
DISCOUNT = "discount"  # column of selection.csv


class ExactRecorder(Observer[RunView]):
    """Appends to one exact file, which may start with a header known at the start of the run."""

    def __init__(self, file: ExactFile) -> None:
        self.file = file

    def first_line(self, trainer: RunView) -> str:
        """The header of the file; empty where it has none."""
        return ""

    def on_start(self, trainer: RunView) -> None:
        """Start the file, or truncate what a killed process wrote after the checkpoint."""
        if self.file.written == NOTHING:
            self.file.append(self.first_line(trainer))
        else:
            self.file.cut()

    def on_close(self, trainer: RunView) -> None:
        """Close the file."""
        self.file.close()


class EpisodesRecorder(ExactRecorder):
    """episodes.csv: a row per finished training episode."""

    def first_line(self, trainer: RunView) -> str:
        """The header."""
        return EPISODES_HEADER

    def on_episode(self, trainer: RunView, episode: Episode) -> None:
        """Write its row; `repr` of a float parses back to the same float."""
        self.file.append(f"{episode.step},{float(episode.total)!r},{episode.length}\n")


class SelectionRecorder(ExactRecorder):
    """selection.csv: a row per target update, with the losses it was based on, and actions per member since the last.

    If a row summarizes many target updates, it also has the share of them in which each member was selected. In runs in
    which the target's discount can change, its discount is the last column.
    """

    _has_discount = False

    def first_line(self, trainer: RunView) -> str:
        """The header."""
        members = trainer.report().members
        names = ("loss", "acted", "selected") if trainer.traits.sums_up_selections else ("loss", "acted")
        columns = ["step", "target", *(f"{name}_{k}" for name in names for k in range(len(members)))]
        # Members that differ in their discount do so from the start, also in a space that varies it.
        several = len({member.hyperparameters.discount for member in members}) > 1
        last = [DISCOUNT] if several or trainer.traits.learns_hyperparameters else []
        return ",".join([*columns, *last]) + "\n"

    def on_start(self, trainer: RunView) -> None:
        """Start the file, or continue it with the columns that it has."""
        super().on_start(trainer)
        with open(self.file.path, encoding="utf-8") as file:
            self._has_discount = file.readline().rstrip("\n").endswith(f",{DISCOUNT}")

    def on_event(self, trainer: RunView, event: Event) -> None:
        """Write the row of a target update; losses have the fewest digits that identify the float32 value."""
        if isinstance(event, TargetUpdate):
            discount = (math.nan if event.discount is None else event.discount,) if self._has_discount else ()
            numbers = (*event.cumulated_loss, *event.acted, *(event.selected or ()), *discount)
            row = [str(event.step), str(event.target), *map(_shortest, numbers)]
            self.file.append(",".join(row) + "\n")


def _shortest(value: float) -> str:
    return str(np.float32(value)) if isinstance(value, float) else str(value)


class MembersRecorder(ExactRecorder):
    """members.jsonl: the ensemble at the start and after every generation, with parents."""

    def first_line(self, trainer: RunView) -> str:
        """The initial members, which have no parents."""
        report = trainer.report().members
        members = tuple(Descendant(member.hyperparameters, None, None) for member in report)
        return _generation_line(Generation(trainer.clock.step, 0, members))

    def on_event(self, trainer: RunView, event: Event) -> None:
        """Write the line of a generation."""
        if isinstance(event, Generation):
            self.file.append(_generation_line(event))


def _generation_line(event: Generation) -> str:
    members = [
        member.hyperparameters.to_dict() | {"parent": member.parent, "mutation": member.mutation}
        for member in event.members
    ]
    return json.dumps({"step": event.step, "generation": event.number, "members": members}) + "\n"


class EvaluationsRecorder(ExactRecorder):
    """evaluations.csv of an algorithm that evaluates its members individually: a row per episode."""

    def first_line(self, trainer: RunView) -> str:
        """The header."""
        return EVALUATIONS_HEADER

    def on_event(self, trainer: RunView, event: Event) -> None:
        """Write the row of an episode."""
        if isinstance(event, MemberEvaluation):
            self.file.append(evaluation_row(event))


class TrialsRecorder(ExactRecorder):
    """trials.jsonl: a line per finished trial of a search."""

    def on_event(self, trainer: RunView, event: Event) -> None:
        """Write the line of a trial."""
        if isinstance(event, TrialEnd):
            values = event._asdict() | {"hyperparameters": event.hyperparameters.to_dict()}
            self.file.append(json.dumps(values) + "\n")
