"""Events of a run other than steps and episodes, for result files, the console and callbacks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from adaqn.base.errors import UserError
from adaqn.members.evolution import Descendant
from adaqn.members.hyperparameters import Hyperparameters


class TargetUpdate(NamedTuple):
    """The target was updated: the chosen member, and statistics of the ensemble since the previous event.

    For algorithms that choose the target in every update, one event summarizes all updates since the previous one.
    """

    step: int
    target: int  # the target member; the first one if there are several
    cumulated_loss: tuple[float, ...]  # [K] inf for a diverged member
    acted: tuple[float, ...]  # [K] actions chosen by each member, or the fraction of actor updates that used it
    newly_diverged: tuple[int, ...]  # members that diverged since the previous event
    selected: tuple[float, ...] | None = None  # [K] fraction of updates with the member in the target
    discount: float | None = None  # of the target member


class Generation(NamedTuple):
    """Some members were replaced by children of others."""

    step: int
    number: int
    members: tuple[Descendant, ...]  # [K]


class MemberEvaluation(NamedTuple):
    """An episode played by a single member."""

    step: int
    generation: int
    member: int
    total: float
    length: int


class PolicyEvaluation(NamedTuple):
    """The learned policy was evaluated in separate episodes."""

    step: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation of the returns."""
        return float(np.std(self.returns))

    @property
    def mean_length(self) -> float:
        """Mean number of steps."""
        return float(np.mean(self.lengths))


class TrialEnd(NamedTuple):
    """A trial of a search ended."""

    number: int
    hyperparameters: Hyperparameters
    fidelity: int  # its budget in steps
    first_step: int  # step of the run at which the trial began
    last_step: int
    fitness: float | None  # mean return; None if the trial failed
    origin: dict[str, Any]  # how the search generated the trial


class TrialStart(NamedTuple):
    """A trial of a search starts: environments are reset, and the replay buffer is emptied unless `keeps_replay`."""

    step: int
    number: int
    hyperparameters: Hyperparameters
    fidelity: int
    keeps_replay: bool


class Failure(NamedTuple):
    """Learning cannot continue: the run ends, or the current trial of a search."""

    error: UserError  # raised at the end of the run


Event = TargetUpdate | Generation | MemberEvaluation | PolicyEvaluation | TrialEnd | TrialStart | Failure
