"""Access to the training environment for users: read-only during training, steppable between calls of `learn`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium

from adaqn.errors import UserError

if TYPE_CHECKING:
    from adaqn.training.trainer import Trainer


class LentEnvironment(gymnasium.Wrapper):
    """A wrapper around one of the trainer's environments.

    Resetting or stepping it abandons the current training episodes, so the next training starts new ones. During
    training both raise, because they would corrupt the episode.
    """

    def __init__(self, trainer: Trainer, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._trainer = trainer

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode outside of training."""
        self._take_over()
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step that episode."""
        self._take_over()
        return self.env.step(action)

    def close(self) -> None:
        """Do nothing: training needs the environment, and its owner closes it."""

    def _take_over(self) -> None:
        if self._trainer.running:
            raise UserError(
                "the training environment cannot be reset or stepped during training: make another one, for example "
                "with model.make_env()"
            )
        self._trainer.give_up_episodes()
