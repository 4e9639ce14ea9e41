"""Callbacks with the interface of Stable-Baselines3: the base class, and those that come with adaqn."""

from __future__ import annotations

import glob
import inspect
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import gymnasium
import numpy as np

from adaqn.agents.protocol import Event, PolicyEvaluation
from adaqn.base.checks import count, number
from adaqn.base.errors import UserError
from adaqn.base.files import writing
from adaqn.base.output import print_line
from adaqn.base.snapshot import require_replaceable
from adaqn.envs.making import close
from adaqn.envs.spaces import environment_actions
from adaqn.training.evaluation import (
    EvaluationInterrupted,
    EvaluationLog,
    EvaluationResult,
    InterruptiblePolicy,
    Policy,
    episode_seed,
    evaluate_policy,
)
from adaqn.training.observers import RECENT, Episode, Observer

if TYPE_CHECKING:
    from adaqn.base.exact_file import ExactFile
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
                print_line(f"step {self.num_timesteps:,}: {reason}")
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


if TYPE_CHECKING:
    from adaqn.base.exact_file import ExactFile
    from adaqn.training.trainer import Trainer

__all__ = [
    "BaseCallback",
    "CallbackList",
    "CheckpointCallback",
    "EvalCallback",
    "FunctionCallback",
    "StopTrainingOnReturn",
    "StopTrainingOnRewardThreshold",
    "as_callback",
]


class EvalCallback(BaseCallback):
    """Evaluate the policy every `eval_freq` environment steps, in a separate environment.

    The episodes depend only on the seed and the step, so evaluations do not change the training and are reproducible.
    `eval_env` defaults to a new environment like the training's. `log_path` is a directory, for example the run
    directory: its `evaluations.csv` gets a row per episode, and rows of a previous run for later steps are dropped.
    If the algorithm writes evaluations of its members to that table (SEARL), the default name is
    `policy_evaluations.csv`; `log_name` sets another. `best_model_save_path` is also a directory: whenever the mean
    return is the best so far, the model is saved there as `best_model.zip`, and `callback_on_new_best` is called.
    If a file with one of these names exists that adaqn did not write, `learn` raises before training begins.
    """

    def __init__(
        self,
        eval_env: gymnasium.Env | None = None,
        *,
        callback_on_new_best: BaseCallback | None = None,
        n_eval_episodes: int = 5,
        eval_freq: int = 10_000,
        log_path: str | os.PathLike[str] | None = None,
        log_name: str | None = None,
        best_model_save_path: str | os.PathLike[str] | None = None,
        deterministic: bool = True,
        seed: int = 0,
        verbose: int = 1,
    ) -> None:
        super().__init__(verbose)
        self.eval_env = eval_env
        self.callback_on_new_best = callback_on_new_best
        if callback_on_new_best is not None:
            callback_on_new_best.parent = self
        self.n_eval_episodes = count("n_eval_episodes", n_eval_episodes, low=1)
        self.eval_freq = count("eval_freq", eval_freq, low=1)
        self.best_model_save_path = None if best_model_save_path is None else Path(best_model_save_path)
        self.deterministic = deterministic
        self.seed = seed
        self.best_mean_reward = -math.inf
        self.last_mean_reward = -math.inf
        self._log_path = None if log_path is None else Path(log_path)
        self._log_name = log_name
        self._log: EvaluationLog | None = None  # set by `bind`: its name depends on the algorithm
        self._owns_env = eval_env is None
        self._evaluated = 0  # step up to which all due evaluations were made

    def bind(self, model: TrainedModel) -> None:
        super().bind(model)
        if self._log is None and self._log_path is not None:
            members_evaluated = "evaluations" in model.trainer.traits.tables
            usual = "policy_evaluations.csv" if members_evaluated else "evaluations.csv"
            self._log = EvaluationLog(self._log_path / (usual if self._log_name is None else self._log_name))
        if self._log is not None:
            self._log.check()
        if self.best_model_save_path is not None:
            require_replaceable(self.best_model_save_path / "best_model.zip", "agent")
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.bind(model)

    def exact_files(self) -> Sequence[ExactFile]:
        nested = () if self.callback_on_new_best is None else self.callback_on_new_best.exact_files()
        return [*([] if self._log is None else [self._log.file]), *nested]

    def on_start(self, trainer: Trainer) -> None:
        super().on_start(trainer)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.on_start(trainer)
        if self._name in trainer.postponed:
            trainer.postponed.discard(self._name)
            self._evaluate_now()

    @property
    def _name(self) -> str:
        return "evaluation" if self._log is None else self._log.path.name

    def _on_training_start(self) -> None:
        self._evaluated = self.num_timesteps
        if self.eval_env is None:
            self.eval_env = self.model.make_env()
        if self._log is not None:
            # A process that was killed later may already have logged the postponed evaluation, which is now repeated.
            step = self.num_timesteps - (self._name in self.trainer.postponed)
            # A resumed run must not replace its best model with a worse one.
            self.best_mean_reward = max([self.best_mean_reward, *self._log.open(step)])

    def _on_step(self) -> bool:
        if not crossed(self.eval_freq, self._evaluated, self.num_timesteps):
            return True
        self._evaluated = self.num_timesteps
        self._evaluate_now()
        return True

    def _evaluate_now(self) -> None:
        try:
            result = self.evaluate()
        except EvaluationInterrupted:
            # An incomplete evaluation is discarded; the resumed run starts with it.
            self.trainer.postponed.add(self._name)
            return
        self.last_mean_reward = result.mean
        if self._log is not None:
            report = self.trainer.report()
            self._log.append(self.num_timesteps, report.generation, report.target, result)
        self.trainer.tell(PolicyEvaluation(self.num_timesteps, result.returns, result.lengths))
        if self.verbose >= 1:
            print_line(
                f"step {self.num_timesteps:,}: return {result.mean:.2f} ± {result.std:.2f} "
                f"in {len(result.returns)} evaluation episodes of {np.mean(result.lengths):.1f} steps"
            )
        if result.mean > self.best_mean_reward:
            self.best_mean_reward = result.mean
            if self.best_model_save_path is not None:
                with writing(self.best_model_save_path):
                    self.best_model_save_path.mkdir(parents=True, exist_ok=True)
                self.model.save(self.best_model_save_path / "best_model.zip")
            if self.callback_on_new_best is not None:
                self.callback_on_new_best.on_step(self.trainer)

    def evaluate(self) -> EvaluationResult:
        """Play the evaluation episodes of the current step."""
        assert self.eval_env is not None, "evaluate() can be called only during training"
        seed = episode_seed(self.seed, self.num_timesteps)
        policy = InterruptiblePolicy(self.model, lambda: self.trainer.interrupted)
        return evaluate_policy(policy, self.eval_env, self.n_eval_episodes, self.deterministic, seed)

    def on_finish(self, trainer: Trainer) -> None:
        super().on_finish(trainer)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.on_finish(trainer)

    def on_close(self, trainer: Trainer) -> None:
        if self._owns_env and self.eval_env is not None:
            close(self.eval_env)
            self.eval_env = None
        if self._log is not None:
            self._log.close()
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.on_close(trainer)


class CheckpointCallback(BaseCallback):
    """Save the model every `save_freq` environment steps, as `<name_prefix>_<step>_steps.zip`.

    If a file with such a name exists that is not a saved agent, `learn` raises before training begins.
    """

    def __init__(
        self,
        save_freq: int,
        save_path: str | os.PathLike[str],
        name_prefix: str = "rl_model",
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        self.save_freq = count("save_freq", save_freq, low=1)
        self.save_path = Path(save_path)
        self.name_prefix = name_prefix
        self._saved = 0  # step up to which all due models were saved

    def bind(self, model: TrainedModel) -> None:
        super().bind(model)
        for path in self.save_path.glob(f"{glob.escape(self.name_prefix)}_*_steps.zip"):
            require_replaceable(path, "agent")

    def _on_training_start(self) -> None:
        self._saved = self.num_timesteps
        with writing(self.save_path):
            self.save_path.mkdir(parents=True, exist_ok=True)

    def _on_step(self) -> bool:
        if crossed(self.save_freq, self._saved, self.num_timesteps):
            self._saved = self.num_timesteps
            path = self.save_path / f"{self.name_prefix}_{self.num_timesteps}_steps.zip"
            self.model.save(path)
            if self.verbose >= 1:
                print_line(f"step {self.num_timesteps:,}: saved {path}")
        return True


class StopTrainingOnRewardThreshold(BaseCallback):
    """Stop the training once the mean return of an evaluation reaches a threshold.

    Pass it as `callback_on_new_best` of an `EvalCallback`. `StopTrainingOnReturn` does the same with the returns of
    training episodes.
    """

    def __init__(self, reward_threshold: float, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.reward_threshold = number("reward_threshold", reward_threshold)

    def _evaluation(self) -> EvalCallback:
        if not isinstance(self.parent, EvalCallback):
            raise UserError(
                "StopTrainingOnRewardThreshold must be the callback_on_new_best of an EvalCallback, "
                "but it was given to learn; StopTrainingOnReturn needs no evaluation"
            )
        return self.parent

    def _on_training_start(self) -> None:
        self._evaluation()

    def _on_step(self) -> bool:
        return self._evaluation().best_mean_reward < self.reward_threshold

    def _stop_reason(self) -> str:
        best = self._evaluation().best_mean_reward
        return f"the mean evaluation return {best:.2f} reached the threshold {self.reward_threshold:g}"


class StopTrainingOnReturn(BaseCallback):
    """Stop the training once the mean return of the last `window` training episodes reaches a threshold."""

    def __init__(self, threshold: float, window: int = 100, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.threshold = number("threshold", threshold)
        self.window = count("window", window, low=1)
        self._episodes = 0  # number of finished episodes at the last check

    def _on_training_start(self) -> None:
        if self.window > RECENT:
            raise UserError(f"window must be at most {RECENT} episodes, but got {self.window}")
        self._episodes = self.trainer.episodes

    def _on_step(self) -> bool:
        trainer = self.trainer
        if trainer.episodes == self._episodes:
            return True
        self._episodes = trainer.episodes
        # A lucky first episode is no reason to stop: the window must be full.
        return len(trainer.recent_episodes) < self.window or self._mean() < self.threshold

    def _mean(self) -> float:
        return float(np.mean([episode.total for episode in self.trainer.recent_episodes][-self.window :]))

    def _stop_reason(self) -> str:
        return (
            f"the mean return {self._mean():.2f} of the last {self.window} episodes "
            f"reached the threshold {self.threshold:g}"
        )


def crossed(period: int, before: int, now: int) -> bool:
    """Whether a multiple of the period lies in (before, now]; several environments can step past it."""
    return now // period > before // period


def next_multiple(period: int, step: int) -> int:
    """The first multiple of the period after this step: where `crossed` is true next."""
    return (step // period + 1) * period
