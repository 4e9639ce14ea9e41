"""What the loop reports, and to whom: recorders, checkpoints, callbacks and the console are all observers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from adaqn.agents.events import Event
    from adaqn.exact_file import ExactFile
    from adaqn.training.trainer import Trainer


LATEST = 10  # few enough episodes to show a collapse at once, and to judge the current policy by


class Episode(NamedTuple):
    """A finished training episode."""

    step: int  # environment steps taken when it ended
    total: float  # undiscounted return
    length: int


class Observer:
    """Hears what happens in a run; every method may be left out.

    An observer reads the trainer but changes nothing that learning depends on, so that who listens changes no
    result. It may call `trainer.stop(reason)`: the run then ends after the current step. One that takes long for a
    step looks at `trainer.interrupted`, and leaves a name in `trainer.postponed` if it gives up: the name is saved with
    the run, and still there when a resumed run starts.
    """

    def exact_files(self) -> Sequence[ExactFile]:
        """The files it writes, of which those in the run directory are part of what a checkpoint promises."""
        return ()

    def on_start(self, trainer: Trainer) -> None:
        """Before the first step of this call of `learn`, also after a resume."""

    def on_step(self, trainer: Trainer) -> None:
        """After the environments made one step each and the transitions were stored."""

    def on_episode(self, trainer: Trainer, episode: Episode) -> None:
        """After an episode ended, before `on_step` of the same step."""

    def on_event(self, trainer: Trainer, event: Event) -> None:
        """After something periodic happened: a target update, a generation, a new trial, an evaluation."""

    def on_last_step(self, trainer: Trainer) -> None:
        """After the last step, before the updates that are due for it."""

    def on_finish(self, trainer: Trainer) -> None:
        """After the last step, when all updates that were due have been made."""

    def on_close(self, trainer: Trainer) -> None:
        """In every case when `learn` is left, also after an error."""
