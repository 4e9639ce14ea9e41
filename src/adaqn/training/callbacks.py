"""Ready-made callbacks with Stable-Baselines3's names. All periods are in environment steps."""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import gymnasium
import numpy as np

from adaqn.agents.events import PolicyEvaluation
from adaqn.checks import count, number
from adaqn.envs.making import close
from adaqn.errors import UserError
from adaqn.files import writing
from adaqn.printing import say
from adaqn.snapshot import require_replaceable
from adaqn.training.base_callback import BaseCallback, CallbackList, FunctionCallback, TrainedModel, as_callback
from adaqn.training.evaluation import (
    EvaluationInterrupted,
    EvaluationResult,
    InterruptiblePolicy,
    episode_seed,
    evaluate_policy,
)
from adaqn.training.evaluation_table import EvaluationLog
from adaqn.training.observers import RECENT

if TYPE_CHECKING:
    from adaqn.exact_file import ExactFile
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
            say(
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
                say(f"step {self.num_timesteps:,}: saved {path}")
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
