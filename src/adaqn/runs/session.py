"""A run from its configuration to its end: its observers, its directory, interruption and resumption."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import jax

from adaqn.base.checks import count
from adaqn.base.errors import EnvironmentFault, MemoryFault, OutputFault, UserError
from adaqn.base.files import read_text, replacing, writing
from adaqn.replay.memory import require_memory
from adaqn.runs.checkpoint import CheckpointStore
from adaqn.runs.config import RunConfig, extended, read_config
from adaqn.runs.directory import RunDirectory
from adaqn.runs.display.console import ConsoleReporter, DivergenceWarning, Memory
from adaqn.runs.display.progress import ProgressLine
from adaqn.runs.lock import RunLock
from adaqn.runs.recorders.composition import RunRecorders, recorders_for
from adaqn.runs.recorders.sinks import require_wandb
from adaqn.training.callbacks import BaseCallback, EvalCallback, TrainedModel
from adaqn.training.interrupts import on_interrupt
from adaqn.training.observers import Observer
from adaqn.training.trainer import Trainer


class Output(NamedTuple):
    """What a run prints."""

    progress_bar: bool = False  # a live line
    console: bool = False  # header, live line, table of the members at the end
    notes: tuple[str, ...] = ()  # lines for the header


class Standing(NamedTuple):
    """What the end of a run is determined from; it is no longer true once another process goes on with the run."""

    config: str  # config.yaml
    done: int  # steps of the newest checkpoint


class RunSession:
    """One run in this process."""

    def __init__(
        self,
        config: RunConfig,
        trainer: Trainer,
        output: Output,
        directory: RunDirectory | None,
        extends: bool = False,  # the run gets a different end than the one in its directory
        standing: Standing | None = None,  # of an existing run when its configuration was read
    ) -> None:
        self.config = config
        self.trainer = trainer
        self.directory = directory
        self._output = output
        self._extends = extends
        self._standing = standing
        self._lock: RunLock | None = None  # set while this process may write to the directory
        self._recorders: RunRecorders | None = None
        if directory is not None:
            self._recorders = recorders_for(
                directory,
                log_interval=config.log_interval,
                checkpoint_interval=config.checkpoint_interval,
                wandb_project=config.wandb_project,
                config=config,
                extra_tables=trainer.traits.tables,
            )

    @classmethod
    def create(
        cls,
        path: Path,
        config: RunConfig,
        trainer: Trainer,
        output: Output,
        force: bool = False,
        callbacks: Sequence[Observer[Trainer]] = (),
    ) -> RunSession:
        """Create a run in a directory without one, or replace the run there with `force`.

        The directory is locked for this process until `run` ends or `close` is called. `callbacks` are those that will
        be passed to `run`; they are checked here, before anything is removed.
        """
        text = config.to_yaml().encode()
        _require_memory(config, trainer)  # before making a directory, which would block a second attempt
        _require_wandb(config)
        directory = RunDirectory(path)
        session = cls(config, trainer, output, directory)
        assert session._recorders is not None
        session._recorders.observers(callbacks)  # raises if two of them write the same file
        RunLock(path).require_free()
        directory.require_room(force)  # before writing a lock file to a directory that may not be a run's
        directory.make()
        with session._locked():
            RunDirectory.create(path, force)
            with replacing(directory.config) as file:
                file.write(text)
        return session

    @classmethod
    def open(
        cls,
        path: Path,
        config: RunConfig,
        trainer: Trainer,
        output: Output,
        extends: bool = False,
        standing: Standing | None = None,
    ) -> RunSession:
        """Open an existing run; call `restore` to load its state.

        `standing` was read without the lock, before the configuration; `restore` verifies that it still holds.
        """
        return cls(config, trainer, output, RunDirectory.open(path), extends, standing)

    @staticmethod
    def standing(path: Path) -> Standing:
        """The standing of an existing run now."""
        directory = RunDirectory.open(path)
        return Standing(read_text(directory.config), max(CheckpointStore(directory.checkpoint).steps(), default=0))

    @staticmethod
    def read_config(path: Path) -> RunConfig:
        """The configuration of an existing run."""
        file = RunDirectory.open(path).config
        return RunConfig.as_given(read_config(file), str(file))

    @staticmethod
    def with_end(path: Path, config: RunConfig, steps: int | None, stretch_schedules: bool) -> tuple[RunConfig, bool]:
        """The configuration of an existing run, with a new end if `steps` is given, and whether that extends it."""
        if steps is None:
            if stretch_schedules:
                raise UserError("schedules can be stretched only to a new end: also give its steps")
            return config, False
        directory = RunDirectory.open(path)
        done = max(CheckpointStore(directory.checkpoint).steps(), default=0)
        steps = count("steps", steps, low=1)
        if directory.finished and steps == config.steps and done >= steps:
            return config, False
        return extended(config, steps, done, stretch_schedules), True

    @property
    def finished(self) -> bool:
        """Whether the run is finished and is not being extended."""
        return self.directory is not None and self.directory.finished and not self._extends

    def restore(self) -> None:
        """Restore the trainer from the newest intact checkpoint; a finished run is only read, and restored at its end.

        The directory is then locked for this process until `run` ends or `close` is called.
        """
        assert self._recorders is not None and self.directory is not None, "only a run with a directory can be restored"
        if self.finished:
            self.require_unused()
            self._require_unmoved()
            self._recorders.checkpointer.restore(self.trainer, finished=True)
            self.trainer.run(self.trainer.clock.step)  # performs the last updates: the checkpoint is from before them
            return
        if self._extends:
            _require_memory(self.config, self.trainer)
        _require_wandb(self.config)
        with self._locked():
            self._require_unmoved()
            self.directory.require_no_links()
            self._recorders.checkpointer.restore(self.trainer, self._begin_extension)

    def _require_unmoved(self) -> None:
        """Raise if another process went on with the run before this one had the lock, so that our end is outdated."""
        if self._standing is None or self.directory is None:
            return
        now = RunSession.standing(self.directory.path)
        if now.config != self._standing.config or (self._extends and now.done != self._standing.done):
            raise UserError(
                f"another process has continued the run in {self.directory.path} since its end was read, and nothing "
                "was changed: resume it again"
            )

    def _begin_extension(self) -> None:
        """Mark an extended run as unfinished, then write its new configuration."""
        if not self._extends:
            return
        assert self.directory is not None, "only a run with a directory can be extended"
        text = self.config.to_yaml().encode()
        with writing(self.directory.summary):
            self.directory.summary.unlink(missing_ok=True)
        with replacing(self.directory.config) as file:
            file.write(text)
        self._extends = False

    def require_unused(self) -> None:
        """Raise if a process is still writing the run."""
        if self.directory is not None:
            RunLock(self.directory.path).require_free()

    def close(self) -> None:
        """Release the directory's lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Take the lock, and release it only if the body raises."""
        assert self.directory is not None
        self._lock = RunLock(self.directory.path)
        self._lock.acquire()
        try:
            yield
        except BaseException:
            self.close()
            raise

    def run(self, callbacks: Sequence[Observer[Trainer]], model: TrainedModel) -> None:
        """Train to the end; SIGINT and SIGTERM stop it after a complete step, resumable if it has a directory.

        `callbacks` must already be bound to the model, and include those of `evaluation_callbacks`.
        """
        try:
            self._run(callbacks, model)
        finally:
            self.close()

    def _run(self, callbacks: Sequence[Observer[Trainer]], model: TrainedModel) -> None:
        trainer, config = self.trainer, self.config
        if trainer.clock.step == 0:
            _require_memory(config, trainer)
        trainer.clock = trainer.clock._replace(horizon=trainer.clock.horizon or config.horizons[0][1])
        trainer.horizons = () if config.horizon is None else config.horizons
        observers = [*callbacks, *self._display()]
        if self._recorders is not None:
            self._recorders.best_model.bind(model)
            observers = self._recorders.observers(observers)
        try:
            with on_interrupt(trainer.interrupt):
                trainer.run(config.steps, observers)
        except (EnvironmentFault, OutputFault) as fault:
            raise type(fault)(f"{fault}{self._way_on()}") from fault
        except MemoryError as error:
            raise MemoryFault(f"there is not enough memory ({error or 'allocation failed'}){self._way_on()}") from error
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            reason = " ".join(str(error).split())
            raise MemoryFault(f"there is not enough memory ({reason}){self._way_on()}") from error

    def _way_on(self) -> str:
        """A hint for error messages: how to continue a run that was ended by an external fault."""
        if self.directory is None:
            return ""
        where = shlex.quote(str(self.directory.path))
        if not self.directory.config.is_file():
            return f"; the run directory {where} is gone"
        if not CheckpointStore(self.directory.checkpoint).steps():
            return f"; `adaqn resume {where}` restarts the run from the beginning"
        return f"; the run so far is kept, and `adaqn resume {where}` continues from its last checkpoint"

    def _display(self) -> list[Observer[Trainer]]:
        if self._output.console:
            return [
                ConsoleReporter(
                    algorithm=self.config.algo,
                    steps=self.config.steps,
                    gamma=self.config.settings.gamma,
                    memory=Memory(self.trainer.replay.nbytes, self.trainer.agent.parameter_bytes),
                    run_directory=None if self.directory is None else self.directory.path,
                    learning_starts=getattr(self.config.settings, "learning_starts", 0),
                    imports_modules=self.config.env is not None and bool(self.config.environment().foreign_modules),
                    best_model=lambda: None if self._recorders is None else self._recorders.best_model.best,
                    notes=[*self._output.notes, *self.trainer.report().lines],
                    conclusion=lambda: list(self.trainer.report().lines),
                )
            ]
        return [ProgressLine(self.config.steps)] if self._output.progress_bar else [DivergenceWarning()]


def evaluation_callbacks(config: RunConfig, run_dir: Path | None) -> list[BaseCallback]:
    """The callbacks that make the evaluations requested by a configuration."""
    if config.eval_interval is None:
        return []
    return [
        EvalCallback(
            n_eval_episodes=config.eval_episodes,
            eval_freq=config.eval_interval,
            log_path=run_dir,
            seed=config.seed,
            verbose=0,  # the console shows evaluations, and a recorder saves the best model
        )
    ]


def _require_wandb(config: RunConfig) -> None:
    if config.wandb_project is not None:
        require_wandb()


def _require_memory(config: RunConfig, trainer: Trainer) -> None:
    """Raise if the run does not fit into memory; the replay buffer counts as far as the run will fill it."""
    filled = min(1.0, config.steps / config.settings.buffer_size)
    require_memory(int(trainer.replay.nbytes * filled) + trainer.agent.parameter_bytes)
