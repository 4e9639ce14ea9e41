"""Recorded tiny runs: their actions and events, the files they wrote, and their final state."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adaqn.agents.protocol import Event
from adaqn.api import Model
from adaqn.runs.directory import EXACT_FILES
from adaqn.training.callbacks import BaseCallback
from adaqn.training.trainer import Trainer
from tests.agents.contract.cases import STEPS, Case


class Diary(BaseCallback):
    """Records the actions, the events, and one moment for every operation and every step.

    It can be passed on to a resumed run, and then continues. It interrupts the run at the given moments: after the
    current operation, or after the step.
    """

    def __init__(self, interruptions: Sequence[int] = ()) -> None:
        super().__init__()
        self.interruptions = frozenset(interruptions)
        self.moments: list[tuple[str, int]] = []
        self.actions: list[list[Any]] = []
        self.events: list[Event] = []

    def _on_training_start(self) -> None:
        trainer, agent = self.trainer, self.trainer.agent
        update, perform = agent.update, agent.perform

        def noted_update(state: Any, operation: Any, *others: Any, **several: Any) -> Any:
            self._note(trainer, operation.name)
            return update(state, operation, *others, **several)

        def noted_perform(state: Any, operation: Any, clock: Any, rng: Any) -> Any:
            self._note(trainer, operation.name)
            return perform(state, operation, clock, rng)

        agent.update, agent.perform = noted_update, noted_perform  # of this object only

    def _on_step(self) -> bool:
        assert self.trainer.transitions is not None
        self.actions.append(self.trainer.transitions.action.tolist())
        self._note(self.trainer, "step")
        return True

    def _on_event(self, event: Event) -> None:
        self.events.append(event)

    def _note(self, trainer: Trainer, what: str) -> None:
        if len(self.moments) in self.interruptions:
            trainer.interrupt("SIGTERM")
        self.moments.append((what, trainer.clock.step))

    def in_the_midst(self) -> list[int]:
        """The moments of operations with two more due after them, so that an interruption leaves one pending."""
        steps = [step for _, step in self.moments]
        names = [name for name, _ in self.moments]
        return [m for m in range(len(steps) - 2) if "step" not in names[m : m + 3] and steps[m] == steps[m + 2]]


@dataclass
class WholeRun:
    """A run from its first step to its last."""

    model: Model
    diary: Diary
    directory: Path

    @property
    def state(self) -> dict[str, Any]:
        """The complete final state of the run, in a form that can be compared bit for bit."""
        return contents(self.model.trainer)

    @property
    def files(self) -> dict[str, bytes]:
        """The existing files that must be byte-identical for the same configuration and seed."""
        return {name: (self.directory / name).read_bytes() for name in EXACT_FILES if (self.directory / name).exists()}


def contents(trainer: Trainer) -> dict[str, Any]:
    """Agent, replay buffer, generators, clock and the position in the environments, bit for bit."""
    snapshot, replay = trainer.snapshot(), trainer.replay
    arrays = snapshot.arrays | {f"replay/{n}": a for n, a in replay.rows(replay.oldest, replay.added).items()}
    of_arrays = {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}
    return of_arrays | {"meta": json.dumps(snapshot.meta)}


def whole_run(case: Case, directory: Path, **given: Any) -> WholeRun:
    """An uninterrupted run."""
    model, diary = case.model(**given), Diary()
    model.learn(STEPS, diary, run_dir=directory)
    return WholeRun(model, diary, directory)


def interrupted_run(case: Case, directory: Path, moments: Sequence[int], **given: Any) -> tuple[WholeRun, list[bool]]:
    """The same run, interrupted at these moments and resumed; and whether operations were left pending."""
    diary, left = Diary(moments), []
    with contextlib.suppress(SystemExit):
        case.model(**given).learn(STEPS, diary, run_dir=directory)
    while not (directory / "summary.json").exists():
        left.append(bool(diary.trainer.pending))
        with contextlib.suppress(SystemExit):
            Model.resume(directory, callback=diary)
    model = diary.model
    assert isinstance(model, Model)
    return WholeRun(model, diary, directory), left


def observations(count: int = 16) -> np.ndarray:
    """Some observations within the range of the walk."""
    return np.random.default_rng(7).uniform(-1.0, 1.0, (count, 1)).astype(np.float32)
