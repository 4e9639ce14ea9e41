"""Callbacks for `learn`, as in Stable-Baselines3: a base class, lists of callbacks, and plain functions."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import gymnasium

from adaqn.agents.events import Event
from adaqn.envs.actions import environment_actions
from adaqn.errors import UserError
from adaqn.printing import say
from adaqn.training.evaluation import Policy
from adaqn.training.observers import Episode, Observer

if TYPE_CHECKING:
    from adaqn.exact_file import ExactFile
    from adaqn.training.logger import Logger
    from adaqn.training.trainer import Trainer


class TrainedModel(Policy, Protocol):
    """The part of a public model class that callbacks need."""

    @property
    def trainer(self) -> Trainer: ...

    def save(self, path: str | Path) -> object: ...

    def make_env(self) -> gymnasium.Env:
        """A new environment like the one that the model trains in."""
        ...


class BaseCallback(Observer["Trainer"]):
    """Base class of callbacks; override the methods that begin with `_on` as needed.

    A callback can read everything through `self.trainer`, and may call `self.trainer.stop(reason)`, but must not
    change anything that learning depends on.
    """

    model: TrainedModel
    trainer: Trainer
    parent: BaseCallback | None = None  # the callback that calls this one; None if `learn` does

    def __init__(self, verbose: int = 0) -> None:
        self.verbose = verbose
        self.num_timesteps = 0
        self.n_calls = 0  # number of calls of `_on_step`

    def bind(self, model: TrainedModel) -> None:
        """Set the model, before learning begins."""
        self.model = model
        self._init_callback()

    @property
    def logger(self) -> Logger:
        """Logger whose `record(name, value)` adds a value to the next row of progress.csv and TensorBoard."""
        return self.trainer.logger

    @property
    def training_env(self) -> gymnasium.Env:
        """The training environment, or the first of several; it can be inspected, but not stepped."""
        return self.trainer.lend()

    @property
    def locals(self) -> dict[str, Any]:
        """Copies of the last step's values with Stable-Baselines3's names, one row per environment.

        `dones` is true where an episode terminated or was truncated, and `new_obs` has the observations for the next
        action. Empty before the first step.
        """
        trainer = self.trainer
        step = trainer.transitions
        if step is None:
            return {}
        environments = trainer.environments
        return {
            "self": self.model,
            "actions": environment_actions(environments.action_space, step.action),
            "rewards": step.reward.copy(),
            "terminated": step.terminated.copy(),
            "truncated": step.truncated.copy(),
            "dones": step.terminated | step.truncated,
            "infos": environments.infos,
            "new_obs": environments.observations.copy(),
        }

    def _init_callback(self) -> None:
        """Called when `self.model` is set, before learning begins."""

    def _on_training_start(self) -> None:
        """Called before the first step."""

    def _on_step(self) -> bool:
        """Called after each step of the environments; returning False stops the training."""
        return True

    def _on_episode(self, episode: Episode) -> None:
        """Called after an episode ended, before `_on_step` of the same step."""

    def _on_event(self, event: Event) -> None:
        """Called after an event such as a target update, a generation or an evaluation."""

    def _on_training_end(self) -> None:
        """Called after the last step, but not after an error or when the run was interrupted and can be resumed."""

    def _stop_reason(self) -> str:
        """The reason for stopping, if `_on_step` returned False."""
        return f"{type(self).__name__} asked to stop"

    def on_start(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.num_timesteps = trainer.clock.step
        self._on_training_start()

    def on_step(self, trainer: Trainer) -> None:
        self.num_timesteps = trainer.clock.step
        self.n_calls += 1
        # Only False stops the training: a hook without a return value must not.
        if self._on_step() is False:
            reason = self._stop_reason()
            if self.verbose >= 1:
                say(f"step {self.num_timesteps:,}: {reason}")
            trainer.stop(reason)

    def on_episode(self, trainer: Trainer, episode: Episode) -> None:
        self.num_timesteps = trainer.clock.step
        self._on_episode(episode)

    def on_event(self, trainer: Trainer, event: Event) -> None:
        self.num_timesteps = trainer.clock.step
        self._on_event(event)

    def on_finish(self, trainer: Trainer) -> None:
        self.num_timesteps = trainer.clock.step
        self._on_training_end()


class CallbackList(BaseCallback):
    """Several callbacks, called in order; all of them are called even if one stops the training."""

    def __init__(self, callbacks: Sequence[BaseCallback]) -> None:
        super().__init__()
        self.callbacks = tuple(callbacks)

    def bind(self, model: TrainedModel) -> None:
        super().bind(model)
        for callback in self.callbacks:
            callback.bind(model)

    def exact_files(self) -> Sequence[ExactFile]:
        return [file for callback in self.callbacks for file in callback.exact_files()]

    def on_start(self, trainer: Trainer) -> None:
        for callback in self.callbacks:
            callback.on_start(trainer)

    def on_step(self, trainer: Trainer) -> None:
        for callback in self.callbacks:
            callback.on_step(trainer)

    def next_step(self, step: int) -> int:
        return min((callback.next_step(step) for callback in self.callbacks), default=sys.maxsize)

    def on_episode(self, trainer: Trainer, episode: Episode) -> None:
        for callback in self.callbacks:
            callback.on_episode(trainer, episode)

    def on_event(self, trainer: Trainer, event: Event) -> None:
        for callback in self.callbacks:
            callback.on_event(trainer, event)

    def on_finish(self, trainer: Trainer) -> None:
        for callback in self.callbacks:
            callback.on_finish(trainer)

    def on_close(self, trainer: Trainer) -> None:
        for callback in self.callbacks:
            callback.on_close(trainer)


class FunctionCallback(BaseCallback):
    """A plain function of the trainer, called after each step; returning False stops the training."""

    def __init__(self, function: Callable[[Trainer], bool | None]) -> None:
        super().__init__()
        signature = inspect.signature(function)
        try:
            signature.bind(None)
        except TypeError:
            raise UserError(
                f"a callback function takes one argument, the trainer, but got {_name(function)}{signature}"
            ) from None
        self.function = function

    def _on_step(self) -> bool:
        return self.function(self.trainer) is not False

    def _stop_reason(self) -> str:
        return f"callback {_name(self.function)} returned False"


def as_callback(given: object) -> BaseCallback:
    """Convert the `callback` argument of `learn` (None, a callback, a function, or a list of these) to one callback."""
    if given is None:
        return CallbackList(())
    if isinstance(given, BaseCallback):
        return given
    if isinstance(given, (list, tuple)):
        return CallbackList([as_callback(one) for one in given])
    if callable(given) and not isinstance(given, type):
        return FunctionCallback(cast("Callable[[Trainer], bool | None]", given))
    raise UserError(f"callback must be a BaseCallback, a function of the trainer or a list of these, but got {given!r}")


def _name(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)
