"""A run from its configuration to its end: who watches it, where it is written, how it is interrupted and resumed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import jax

from adaqn.checkpoint import CheckpointStore
from adaqn.checks import count
from adaqn.errors import EnvironmentFault, MemoryFault, OutputFault, UserError
from adaqn.files import read_text, replacing, writing
from adaqn.replay.memory import require_memory
from adaqn.runs.config import RunConfig, read_config
from adaqn.runs.console import ConsoleReporter, DivergenceWarning, Memory
from adaqn.runs.directory import RunDirectory
from adaqn.runs.horizons import extended
from adaqn.runs.lock import RunLock
from adaqn.runs.progress_line import ProgressLine
from adaqn.runs.recorders.composition import RunRecorders, recorders_for
from adaqn.runs.recorders.sinks import require_wandb
from adaqn.training.callbacks import BaseCallback, EvalCallback, TrainedModel
from adaqn.training.interrupts import on_interrupt
from adaqn.training.observers import Observer
from adaqn.training.trainer import Trainer


class Output(NamedTuple):
    """What a run shows while it lasts."""

    progress_bar: bool = False  # a live line
    console: bool = False  # header, live line, table of the members in the end
    notes: tuple[str, ...] = ()  # lines for the header


class Standing(NamedTuple):
    """What the end of a run is determined from; it is no longer true once another process goes on with the run."""

    config: str  # config.yaml
    done: int  # steps of the newest checkpoint


class RunSession:
    """One run that is going on in this process."""

    def __init__(
        self,
        config: RunConfig,
        trainer: Trainer,
        output: Output,
        directory: RunDirectory | None,
        extends: bool = False,  # the run is given another end than the one in its directory
        standing: Standing | None = None,  # of the run when its configuration was read, if it exists
    ) -> None:
        self.config = config
        self.trainer = trainer
        self.directory = directory
        self._output = output
        self._extends = extends
        self._standing = standing
        self._lock: RunLock | None = None  # while this process may write the directory
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
        """A new run in a directory that does not hold one, or whose run is given up with `force`.

        It is this process's alone until `run` is over or `close` was called. `callbacks` are those that `run` will be
        given, so that what is wrong with them is known before anything is removed.
        """
        text = config.to_yaml().encode()
        _require_memory(config, trainer)  # before there is a directory that would be in the way of a second try
        _require_wandb(config)
        directory = RunDirectory(path)
        session = cls(config, trainer, output, directory)
        assert session._recorders is not None
        session._recorders.observers(callbacks)  # raises if they cannot be observers of one run
        RunLock(path).require_free()
        directory.require_room(force)  # before there is a lock in a directory that is none of ours
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
        """A run that exists; call `restore` to stand where it stood.

        `standing` is what was read before the configuration was, without the lock; `restore` makes sure that it holds.
        """
        return cls(config, trainer, output, RunDirectory.open(path), extends, standing)

    @staticmethod
    def standing(path: Path) -> Standing:
        """Where a run that exists stands now."""
        directory = RunDirectory.open(path)
        return Standing(read_text(directory.config), max(CheckpointStore(directory.checkpoint).steps(), default=0))

    @staticmethod
    def read_config(path: Path) -> RunConfig:
        """The configuration of a run that exists."""
        file = RunDirectory.open(path).config
        return RunConfig.as_given(read_config(file), str(file))

    @staticmethod
    def with_end(path: Path, config: RunConfig, steps: int | None, stretch_schedules: bool) -> tuple[RunConfig, bool]:
        """The configuration of a run that exists, perhaps with another end, and whether that leaves more to train."""
        if steps is None:
            if stretch_schedules:
                raise UserError("schedules can be stretched only to a new end: give its steps, too")
            return config, False
        directory = RunDirectory.open(path)
        done = max(CheckpointStore(directory.checkpoint).steps(), default=0)
        steps = count("steps", steps, low=1)
        if directory.finished and steps == config.steps and done >= steps:
            return config, False
        return extended(config, steps, done, stretch_schedules), True

    @property
    def finished(self) -> bool:
        """Whether the run went its whole way."""
        return self.directory is not None and self.directory.finished and not self._extends

    def restore(self) -> None:
        """Put the trainer where the newest whole checkpoint stood; a finished run stands at its end, and is only read.

        From then on the directory is this process's alone, until `run` is over or `close` was called.
        """
        assert self._recorders is not None and self.directory is not None, "only a run with a directory can be restored"
        if self.finished:
            self.require_unused()
            self._require_unmoved()
            self._recorders.checkpointer.restore(self.trainer, finished=True)
            self.trainer.run(self.trainer.clock.step)  # the last updates, which the checkpoint comes before
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
        """Make an extended run unfinished, and then its configuration that of the whole run."""
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
        """Raise if some process is still writing the run."""
        if self.directory is not None:
            RunLock(self.directory.path).require_free()

    def close(self) -> None:
        """Let others write the directory."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Take the lock, and keep it unless something goes wrong within."""
        assert self.directory is not None
        self._lock = RunLock(self.directory.path)
        self._lock.acquire()
        try:
            yield
        except BaseException:
            self.close()
            raise

    def run(self, callbacks: Sequence[Observer[Trainer]], model: TrainedModel) -> None:
        """Train to the end; SIGINT and SIGTERM end it after a whole step, ready to be resumed if it has a directory.

        `callbacks` are bound to the model already, those of `evaluation_callbacks` among them.
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
            raise MemoryFault(f"there is not enough memory ({error or 'no more is given'}){self._way_on()}") from error
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            reason = " ".join(str(error).split())
            raise MemoryFault(f"there is not enough memory ({reason}){self._way_on()}") from error

    def _way_on(self) -> str:
        """How a run goes on that was ended by a fault from outside."""
        if self.directory is None:
            return ""
        where = shlex.quote(str(self.directory.path))
        if not self.directory.config.is_file():
            return f"; the run directory {where} is gone"
        if not CheckpointStore(self.directory.checkpoint).steps():
            return f"; `adaqn resume {where}` begins the run anew"
        return f"; the run so far is kept, and `adaqn resume {where}` goes on from its last checkpoint"

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
                    best_model=lambda: None if self._recorders is None else self._recorders.best_model.best,
                    notes=[*self._output.notes, *self.trainer.report().lines],
                    conclusion=lambda: list(self.trainer.report().lines),
                )
            ]
        return [ProgressLine(self.config.steps)] if self._output.progress_bar else [DivergenceWarning()]


def evaluation_callbacks(config: RunConfig, run_dir: Path | None) -> list[BaseCallback]:
    """Who makes the evaluations that a configuration asks for."""
    if config.eval_interval is None:
        return []
    return [
        EvalCallback(
            n_eval_episodes=config.eval_episodes,
            eval_freq=config.eval_interval,
            log_path=run_dir,
            seed=config.seed,
            verbose=0,  # the console shows evaluations, and the best model is kept by the recorders
        )
    ]


def _require_wandb(config: RunConfig) -> None:
    if config.wandb_project is not None:
        require_wandb()


def _require_memory(config: RunConfig, trainer: Trainer) -> None:
    """Refuse a run that would not fit into memory as far as it fills its replay buffer."""
    filled = min(1.0, config.steps / config.settings.buffer_size)
    require_memory(int(trainer.replay.nbytes * filled) + trainer.agent.parameter_bytes)
