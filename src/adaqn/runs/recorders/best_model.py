"""best_model.zip, the model with the highest return so far, and best_model.csv, which records its step and return."""

from __future__ import annotations

import math
from pathlib import Path

from adaqn.agents.protocol import Event, PolicyEvaluation
from adaqn.base.exact_file import ExactFile
from adaqn.runs.reading import EVALUATION, TRAINING, BestModel, read_best_model
from adaqn.runs.recorders.exact_tables import ExactRecorder
from adaqn.training.callbacks import TrainedModel, crossed, next_multiple
from adaqn.training.observers import LATEST, RunView

# Steps between two checks of the training return. Not a setting: the saved model must not depend on logging options.
INTERVAL = 1_000


class BestModelRecorder(ExactRecorder):
    """Saves the model whenever its return is the highest so far, with a row in best_model.csv each time.

    Until the first evaluation, models are compared by the mean return of the last training episodes, every 1 000 steps;
    from then on by evaluations. Its whole state is in the table, which a resumed run continues exactly.
    """

    def __init__(self, file: ExactFile, path: Path, learning_starts: int = 0) -> None:
        super().__init__(file)
        self.best: BestModel | None = None
        self._path = path
        self._learning_starts = learning_starts
        self._model: TrainedModel | None = None
        self._seen = 0  # step of the last call

    def bind(self, model: TrainedModel) -> None:
        """Set the model to save, before the run begins; without a model only the table is written."""
        self._model = model

    def first_line(self, trainer: RunView) -> str:
        """The header."""
        return "step,return,judged_by\n"

    def on_start(self, trainer: RunView) -> None:
        """Start the file, or read the best model so far of a resumed run."""
        super().on_start(trainer)
        self.best = read_best_model(self.file.path)
        self._seen = trainer.clock.step

    def on_step(self, trainer: RunView) -> None:
        """Check the training return every `INTERVAL` steps."""
        step = trainer.clock.step
        if crossed(INTERVAL, self._seen, step):
            self._judge(trainer)
        self._seen = step

    def next_step(self, step: int) -> int:
        """The next multiple of the interval."""
        return next_multiple(INTERVAL, step)

    def on_event(self, trainer: RunView, event: Event) -> None:
        """Check an evaluation; the first one replaces all earlier training returns."""
        if not isinstance(event, PolicyEvaluation):
            return
        first = self.best is None or self.best.judged_by == TRAINING
        if first or self._is_better(event.mean):
            self._keep(BestModel(event.step, event.mean, EVALUATION))

    def on_finish(self, trainer: RunView) -> None:
        """Check the training return at the end, and save the last model if the run was too short to judge any."""
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
