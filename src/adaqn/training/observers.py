"""What the loop reports, and to whom: recorders, checkpoints, callbacks and the console are all observers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    import gymnasium

    from adaqn.agents.events import Event
    from adaqn.agents.protocol import Clock, Report
    from adaqn.agents.registry import Traits
    from adaqn.exact_file import ExactFile
    from adaqn.training.logger import Logger


RECENT = 100  # episodes over which the training return is averaged in logs
LATEST = 10  # few enough episodes to show a collapse at once, and to judge the current policy by


class Episode(NamedTuple):
    """A finished training episode."""

    step: int  # environment steps taken when it ended
    total: float  # undiscounted return
    length: int


class EnvironmentFacts(Protocol):
    """What is fixed about the environments of a run."""

    @property
    def name(self) -> str: ...

    @property
    def count(self) -> int:
        """Environments that are stepped side by side."""
        ...

    @property
    def observation_space(self) -> gymnasium.spaces.Box: ...

    @property
    def action_space(self) -> gymnasium.spaces.Discrete | gymnasium.spaces.Box: ...


class RunView(Protocol):
    """What nearly all observers need of the run they watch; the trainer offers it."""

    @property
    def clock(self) -> Clock: ...

    @property
    def seed(self) -> int: ...

    @property
    def updates(self) -> int:
        """Batches learned from."""
        ...

    @property
    def episodes(self) -> int:
        """Training episodes that ended."""
        ...

    @property
    def recent_episodes(self) -> Sequence[Episode]:
        """The last of them, at most `RECENT`."""
        ...

    @property
    def environments(self) -> EnvironmentFacts: ...

    @property
    def traits(self) -> Traits:
        """What is special about the algorithm."""
        ...

    @property
    def logger(self) -> Logger: ...

    @property
    def stop_reason(self) -> str | None:
        """Why the run ends before its time, once somebody asked for it."""
        ...

    @property
    def interrupted(self) -> bool:
        """Whether it is left to be resumed."""
        ...

    @property
    def postponed(self) -> set[str]:
        """What observers left undone for this step because of an interruption."""
        ...

    def report(self) -> Report:
        """The members as they stand, and scalars for the logs."""
        ...

    def policy_return(self, recent: Sequence[float]) -> float | None:
        """The return that the learned policy may be expected to get, None as long as nothing is known about it."""
        ...

    def stop(self, reason: str) -> None:
        """End the run after the current step, as if it were its last."""
        ...

    def tell(self, event: Event) -> None:
        """Tell all observers of the run about an event that one of them caused, such as an evaluation."""
        ...


Run = TypeVar("Run", contravariant=True)


class Observer(Generic[Run]):
    """Hears what happens in a run; every method may be left out.

    An `Observer[RunView]` sees the narrow view above; only who saves a run, or hands it to a user's code, is an
    `Observer[Trainer]`.

    An observer reads the trainer but changes nothing that learning depends on, so that who listens changes no
    result. It may call `trainer.stop(reason)`: the run then ends after the current step. One that takes long for a
    step looks at `trainer.interrupted`, and leaves a name in `trainer.postponed` if it gives up: the name is saved with
    the run, and still there when a resumed run starts.
    """

    def exact_files(self) -> Sequence[ExactFile]:
        """The files it writes, of which those in the run directory are part of what a checkpoint promises."""
        return ()

    def on_start(self, trainer: Run) -> None:
        """Before the first step of this call of `learn`, also after a resume."""

    def on_step(self, trainer: Run) -> None:
        """After the environments made one step each and the transitions were stored."""

    def next_step(self, step: int) -> int:
        """The step from which on `on_step` has something to do again, after this one; it may be called before.

        Whoever overrides `on_step` alone is called after every step.
        """
        return step + 1 if type(self).on_step is not Observer.on_step else sys.maxsize

    def on_episode(self, trainer: Run, episode: Episode) -> None:
        """After an episode ended, before `on_step` of the same step."""

    def on_event(self, trainer: Run, event: Event) -> None:
        """After something periodic happened: a target update, a generation, a new trial, an evaluation."""

    def on_last_step(self, trainer: Run) -> None:
        """After the last step, before the updates that are due for it."""

    def on_finish(self, trainer: Run) -> None:
        """After the last step, when all updates that were due have been made."""

    def on_close(self, trainer: Run) -> None:
        """In every case when `learn` is left, also after an error."""
