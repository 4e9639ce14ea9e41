"""best_model.zip, the model with the highest return so far, and best_model.csv, which says how it was judged."""

from __future__ import annotations

import math
from pathlib import Path

from adaqn.agents.events import Event, PolicyEvaluation
from adaqn.exact_file import ExactFile
from adaqn.runs.reading import EVALUATION, TRAINING, BestModel, read_best_model
from adaqn.runs.recorders.exact_tables import ExactRecorder
from adaqn.training.callbacks import TrainedModel, crossed, next_multiple
from adaqn.training.observers import LATEST, RunView

# Steps between two looks at the training return. It is no setting: what is kept must not depend on how a run is logged.
INTERVAL = 1_000


class BestModelRecorder(ExactRecorder):
    """Saves the model whenever its return is the highest so far, with a row in best_model.csv each time.

    Evaluations decide as soon as there is one; until then the mean return of the last training episodes does, looked at
    every thousand steps. All that has to be remembered is in the table, which a resumed run continues exactly.
    """

    def __init__(self, file: ExactFile, path: Path, learning_starts: int = 0) -> None:
        super().__init__(file)
        self.best: BestModel | None = None
        self._path = path
        self._learning_starts = learning_starts
        self._model: TrainedModel | None = None
        self._seen = 0  # the last step that was looked at

    def bind(self, model: TrainedModel) -> None:
        """Make known what is to be saved, before the run begins; a trainer without a model has only the table."""
        self._model = model

    def first_line(self, trainer: RunView) -> str:
        """The header."""
        return "step,return,judged_by\n"

    def on_start(self, trainer: RunView) -> None:
        """Begin the file, or read which model was the best before this resumption."""
        super().on_start(trainer)
        self.best = read_best_model(self.file.path)
        self._seen = trainer.clock.step

    def on_step(self, trainer: RunView) -> None:
        """Look at the training return if it is time."""
        step = trainer.clock.step
        if crossed(INTERVAL, self._seen, step):
            self._judge(trainer)
        self._seen = step

    def next_step(self, step: int) -> int:
        """The next multiple of the interval."""
        return next_multiple(INTERVAL, step)

    def on_event(self, trainer: RunView, event: Event) -> None:
        """Look at an evaluation; the first one counts more than all training returns before it."""
        if not isinstance(event, PolicyEvaluation):
            return
        first = self.best is None or self.best.judged_by == TRAINING
        if first or self._is_better(event.mean):
            self._keep(BestModel(event.step, event.mean, EVALUATION))

    def on_finish(self, trainer: RunView) -> None:
        """Look once more if the last step was none to look at, and keep some model of a run too short to judge any."""
        if trainer.clock.step % INTERVAL:
            self._judge(trainer)
        if self.best is None:
            value = trainer.policy_return(self._recent_returns(trainer))
            self._keep(BestModel(trainer.clock.step, math.nan if value is None else value, TRAINING))

    def _judge(self, trainer: RunView) -> None:
        if self.best is not None and self.best.judged_by == EVALUATION:
            return
        recent = self._recent_returns(trainer)
        value = trainer.policy_return(recent if len(recent) == LATEST else [])
        if value is not None and self._is_better(value):
            self._keep(BestModel(trainer.clock.step, value, TRAINING))

    def _recent_returns(self, trainer: RunView) -> list[float]:
        """Returns of the last episodes that began after learning started."""
        count = trainer.environments.count
        learned = [e.total for e in trainer.recent_episodes if e.step - e.length * count >= self._learning_starts]
        return learned[-LATEST:]

    def _is_better(self, value: float) -> bool:
        return self.best is None or not value <= self.best.total  # anything is better than nan

    def _keep(self, best: BestModel) -> None:
        if self._model is not None:
            self._model.save(self._path)
        self.file.append(f"{best.step},{float(best.total)!r},{best.judged_by}\n")
        self.best = best
