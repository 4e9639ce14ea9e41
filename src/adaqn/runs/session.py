"""A run from its configuration to its end: who watches it, where it is written, how it is interrupted and resumed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from adaqn.errors import EnvironmentFault
from adaqn.replay.memory import require_memory
from adaqn.runs.config import RunConfig, read_config
from adaqn.runs.console import ConsoleReporter, DivergenceWarning, Memory, ProgressLine
from adaqn.runs.directory import RunDirectory
from adaqn.runs.recorders.composition import RunRecorders, recorders_for
from adaqn.snapshot import replacing
from adaqn.training.callbacks import EvalCallback, Model
from adaqn.training.interrupts import on_interrupt
from adaqn.training.observers import Observer
from adaqn.training.trainer import Trainer


class Output(NamedTuple):
    """What a run shows while it lasts."""

    progress_bar: bool = False  # a live line
    console: bool = False  # header, live line, table of the members in the end


class RunSession:
    """One run that is going on in this process."""

    def __init__(self, config: RunConfig, trainer: Trainer, output: Output, directory: RunDirectory | None) -> None:
        self.config = config
        self.trainer = trainer
        self.directory = directory
        self._output = output
        self._recorders: RunRecorders | None = None
        if directory is not None:
            self._recorders = recorders_for(
                directory,
                log_interval=config.log_interval,
                checkpoint_interval=config.checkpoint_interval,
                wandb_project=config.wandb_project,
                config=config,
                extra_tables=trainer.agent.extra_tables,
            )

    @classmethod
    def create(cls, path: Path, config: RunConfig, trainer: Trainer, output: Output, force: bool = False) -> RunSession:
        """A new run in a directory that does not hold one, or whose run is given up with `force`."""
        text = config.to_yaml().encode()
        _require_memory(config, trainer)  # before there is a directory that would be in the way of a second try
        directory = RunDirectory.create(path, force)
        with replacing(directory.config) as file:
            file.write(text)
        return cls(config, trainer, output, directory)

    @classmethod
    def open(cls, path: Path, config: RunConfig, trainer: Trainer, output: Output) -> RunSession:
        """A run that exists; call `restore` to stand where it stood."""
        return cls(config, trainer, output, RunDirectory.open(path))

    @staticmethod
    def read_config(path: Path) -> RunConfig:
        """The configuration of a run that exists."""
        file = RunDirectory.open(path).config
        return RunConfig.from_dict(read_config(file), str(file))

    @property
    def finished(self) -> bool:
        """Whether the run went its whole way."""
        return self.directory is not None and self.directory.finished

    def restore(self) -> None:
        """Put the trainer where the newest whole checkpoint stood."""
        assert self._recorders is not None, "only a run with a directory can be restored"
        self._recorders.checkpointer.restore(self.trainer)

    def run(self, callbacks: Sequence[Observer], model: Model) -> None:
        """Train to the end; SIGINT and SIGTERM end it after a whole step, ready to be resumed if it has a directory."""
        trainer, config = self.trainer, self.config
        if trainer.clock.step == 0:
            _require_memory(config, trainer)
        trainer.clock = trainer.clock._replace(horizon=trainer.clock.horizon or config.steps)
        observers = [*callbacks, *self._evaluation(model), *self._display()]
        if self._recorders is not None:
            observers = self._recorders.observers(observers)
        try:
            with on_interrupt(trainer.interrupt):
                trainer.run(config.steps, observers)
        except EnvironmentFault as fault:
            if self.directory is None:
                raise
            where = shlex.quote(str(self.directory.path))
            raise EnvironmentFault(
                f"{fault}; the run so far is kept, and `adaqn resume {where}` goes on from its last checkpoint"
            ) from fault

    def _evaluation(self, model: Model) -> list[Observer]:
        if self.config.eval_interval is None:
            return []
        # Where members are evaluated one by one, the usual table is theirs.
        evaluated = "evaluations" in self.trainer.agent.extra_tables
        callback = EvalCallback(
            n_eval_episodes=self.config.eval_episodes,
            eval_freq=self.config.eval_interval,
            log_path=None if self.directory is None else self.directory.path,
            log_name="policy_evaluations.csv" if evaluated else "evaluations.csv",
            best_model_save_path=None if self.directory is None else self.directory.path,
            seed=self.config.seed,
            verbose=int(self._output.console),
        )
        callback.bind(model)
        return [callback]

    def _display(self) -> list[Observer]:
        if self._output.console:
            return [
                ConsoleReporter(
                    algorithm=self.config.algo,
                    steps=self.config.steps,
                    gamma=self.config.settings.gamma,
                    memory=Memory(self.trainer.replay.nbytes, self.trainer.agent.parameter_bytes),
                    run_directory=None if self.directory is None else self.directory.path,
                    notes=self.trainer.agent.describe(),
                    conclusion=lambda: self.trainer.agent.conclude(self.trainer.state),
                )
            ]
        return [ProgressLine(self.config.steps)] if self._output.progress_bar else [DivergenceWarning()]


def _require_memory(config: RunConfig, trainer: Trainer) -> None:
    """Refuse a run that would not fit into memory as far as it fills its replay buffer."""
    filled = min(1.0, config.steps / config.settings.buffer_size)
    require_memory(int(trainer.replay.nbytes * filled) + trainer.agent.parameter_bytes)
