"""The training environment in other hands: to be looked at any time, but to be played in only between two trainings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium

from adaqn.errors import UserError

if TYPE_CHECKING:
    from adaqn.training.trainer import Trainer


class LentEnvironment(gymnasium.Wrapper):
    """One of the environments that a trainer steps.

    Whoever plays in it ends the episode under way there, so the next training begins with new episodes; while one is
    going on, playing would spoil it and is refused.
    """

    def __init__(self, trainer: Trainer, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._trainer = trainer

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode that is not the training's."""
        self._take_over()
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Go on in it."""
        self._take_over()
        return self.env.step(action)

    def close(self) -> None:
        """Leave it open: training needs it, and its owner closes it."""

    def _take_over(self) -> None:
        if self._trainer.running:
            raise UserError(
                "the training environment cannot be played in while training goes on: make another one, for example "
                "with model.make_env()"
            )
        self._trainer.give_up_episodes()
