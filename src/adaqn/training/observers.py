"""The observer interface of the training loop; recorders, checkpoints, callbacks and the console are observers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    import gymnasium

    from adaqn.agents.protocol import Clock, Event, Report
    from adaqn.agents.registry import Traits
    from adaqn.base.exact_file import ExactFile
    from adaqn.networks.xla.threads import Threads
    from adaqn.training.logger import Logger


RECENT = 100  # episodes over which the training return is averaged in logs
LATEST = 10  # episodes: few enough to show a collapse quickly, and to judge the current policy by


class Episode(NamedTuple):
    """A finished training episode."""

    step: int  # environment steps taken when it ended
    total: float  # undiscounted return
    length: int


class EnvironmentFacts(Protocol):
    """The fixed properties of a run's environments."""

    @property
    def name(self) -> str: ...

    @property
    def count(self) -> int:
        """Number of environments that are stepped in parallel."""
        ...

    @property
    def observation_space(self) -> gymnasium.spaces.Box: ...

    @property
    def action_space(self) -> gymnasium.spaces.Discrete | gymnasium.spaces.Box: ...


class RunView(Protocol):
    """The view of a run that suffices for almost all observers; the trainer implements it."""

    @property
    def clock(self) -> Clock: ...

    @property
    def seed(self) -> int: ...

    @property
    def updates(self) -> int:
        """Number of updates, each on one batch."""
        ...

    @property
    def episodes(self) -> int:
        """Number of finished training episodes."""
        ...

    @property
    def recent_episodes(self) -> Sequence[Episode]:
        """The last finished episodes, at most `RECENT`."""
        ...

    @property
    def environments(self) -> EnvironmentFacts: ...

    @property
    def traits(self) -> Traits:
        """Properties of the algorithm."""
        ...

    @property
    def threads(self) -> Threads:
        """The threads that updates are computed with."""
        ...

    @property
    def logger(self) -> Logger: ...

    @property
    def stop_reason(self) -> str | None:
        """Why the run stops early; None if no stop was requested."""
        ...

    @property
    def interrupted(self) -> bool:
        """Whether the run was interrupted and can be resumed."""
        ...

    @property
    def postponed(self) -> set[str]:
        """Names of the tasks that observers postponed at this step because of an interruption."""
        ...

    def report(self) -> Report:
        """The current members, and scalars for the logs."""
        ...

    def policy_return(self, recent: Sequence[float]) -> float | None:
        """An estimate of the learned policy's return; None if there is no data yet."""
        ...

    def stop(self, reason: str) -> None:
        """End the run after the current step, as if it were the last one."""
        ...

    def tell(self, event: Event) -> None:
        """Notify all observers of an event that one of them caused, such as an evaluation."""
        ...


Run = TypeVar("Run", contravariant=True)


class Observer(Generic[Run]):
    """Base class of observers of a run; all methods are optional.

    Most observers are an `Observer[RunView]` and see the narrow view above. Only observers that save the run, or pass
    it to user code, are an `Observer[Trainer]`.

    An observer reads the trainer but must not change anything that learning depends on, so that results do not depend
    on the observers. It may call `trainer.stop(reason)`: the run then ends after the current step. An observer with
    long-running work checks `trainer.interrupted`, and if it aborts, adds a name to `trainer.postponed`; the name is
    saved with the run, and is still there when the run is resumed.
    """

    def exact_files(self) -> Sequence[ExactFile]:
        """The exact files that it writes; checkpoints cover those in the run directory."""
        return ()

    def on_start(self, trainer: Run) -> None:
        """Called before the first step of each call of `learn`, also when a run is resumed."""

    def on_step(self, trainer: Run) -> None:
        """Called after each environment took one step and the transitions were stored."""

    def next_step(self, step: int) -> int:
        """The next step, after this one, at which `on_step` has to be called; it may be called earlier.

        By default every step if `on_step` is overridden.
        """
        return sys.maxsize if getattr(self.on_step, "__func__", None) is Observer.on_step else step + 1

    def on_episode(self, trainer: Run, episode: Episode) -> None:
        """Called after an episode ended, before `on_step` of the same step."""

    def on_event(self, trainer: Run, event: Event) -> None:
        """Called after an event: a target update, a generation, a new trial, or an evaluation."""

    def on_last_step(self, trainer: Run) -> None:
        """Called after the last step, before the updates that are due for it."""

    def on_finish(self, trainer: Run) -> None:
        """Called after the last step and all updates that were due."""

    def on_close(self, trainer: Run) -> None:
        """Called whenever `learn` ends, also after an error."""
