"""All observers that write a run directory, in the required order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from adaqn.base.exact_file import ExactFile
from adaqn.runs.checkpoint import Checkpointer, CheckpointStore
from adaqn.runs.config import RunConfig
from adaqn.runs.directory import RunDirectory
from adaqn.runs.recorders.best_model import BestModelRecorder
from adaqn.runs.recorders.exact_tables import (
    EpisodesRecorder,
    EvaluationsRecorder,
    ExactRecorder,
    MembersRecorder,
    SelectionRecorder,
    TrialsRecorder,
)
from adaqn.runs.recorders.progress import ProgressRecorder, Sink, Stopwatch
from adaqn.runs.recorders.sinks import CsvSink, TensorBoardSink, WandbSink
from adaqn.runs.recorders.summary import SummaryWriter
from adaqn.training.observers import Observer
from adaqn.training.trainer import Trainer


@dataclass(frozen=True)
class RunRecorders:
    """The observers that write one run directory."""

    recorders: tuple[Observer[Trainer], ...]
    best_model: BestModelRecorder  # one of the recorders; the model to save must be bound to it
    progress: ProgressRecorder
    checkpointer: Checkpointer
    summary: SummaryWriter

    def observers(self, callbacks: Sequence[Observer[Trainer]] = ()) -> list[Observer[Trainer]]:
        """All observers of the run.

        Metrics are logged after the callbacks, because they include the values that callbacks recorded. A checkpoint is
        saved after all other observers have handled its step, and the summary, which marks the run as finished, is
        written after the last checkpoint. Exact files that callbacks write to the run directory are covered too.
        """
        self.checkpointer.include([file for callback in callbacks for file in callback.exact_files()])
        return [*self.recorders, *callbacks, self.progress, self.checkpointer, self.summary]


def recorders_for(
    directory: RunDirectory,
    *,
    log_interval: int,
    checkpoint_interval: int,
    wandb_project: str | None = None,
    config: RunConfig | None = None,  # shown by W&B, and checked when a run is resumed
    extra_tables: Collection[str] = (),  # specific to the algorithm
) -> RunRecorders:
    """The recorders of a run, new or resumed; intervals are in environment steps."""
    stopwatch = Stopwatch()
    tables: list[ExactRecorder] = [
        EpisodesRecorder(ExactFile(directory.episodes)),
        SelectionRecorder(ExactFile(directory.selection)),
        MembersRecorder(ExactFile(directory.members)),
    ]
    if "evaluations" in extra_tables:
        tables.append(EvaluationsRecorder(ExactFile(directory.evaluations)))
    if "trials" in extra_tables:
        tables.append(TrialsRecorder(ExactFile(directory.trials)))
    learning_starts = 0 if config is None else getattr(config.settings, "learning_starts", 0)
    best_model = BestModelRecorder(ExactFile(directory.best_model_table), directory.best_model, learning_starts)
    tables.append(best_model)
    sinks: list[Sink] = [CsvSink(directory.progress), TensorBoardSink(directory.tensorboard)]
    if wandb_project is not None:
        name = directory.path.resolve().name
        sinks.append(WandbSink(directory.wandb, wandb_project, name, {} if config is None else config.to_dict()))
    return RunRecorders(
        recorders=tuple(tables),
        best_model=best_model,
        progress=ProgressRecorder(log_interval, sinks, stopwatch),
        checkpointer=Checkpointer(
            CheckpointStore(directory.checkpoint),
            checkpoint_interval,
            directory,
            [table.file for table in tables],
            stopwatch,
            config,
        ),
        summary=SummaryWriter(directory, stopwatch),
    )
