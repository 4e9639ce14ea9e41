"""What happens in a run besides its steps and episodes, for the files, the screen and callbacks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from adaqn.errors import UserError
from adaqn.evolution import Descendant
from adaqn.hyperparameters import Hyperparameters


class TargetUpdate(NamedTuple):
    """The target was renewed: who became target, and the ensemble since the last time.

    Where the target is renewed with every update, this sums up all of them since the last event.
    """

    step: int
    target: int  # the target member, or the first of them
    cumulated_loss: tuple[float, ...]  # [K] inf for a diverged member
    acted: tuple[float, ...]  # [K] actions chosen by each, or its share in training the actor
    newly_diverged: tuple[int, ...]  # members found diverged since the last time
    selected: tuple[float, ...] | None = None  # [K] share of the updates with it in the target, where that is many


class Generation(NamedTuple):
    """Some members were replaced by children of others."""

    step: int
    number: int
    members: tuple[Descendant, ...]  # [K]


class MemberEvaluation(NamedTuple):
    """An episode that one member played alone."""

    step: int
    generation: int
    member: int
    total: float
    length: int


class PolicyEvaluation(NamedTuple):
    """The learned policy was evaluated in episodes apart from training."""

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
    """A trial of a search is over."""

    number: int
    hyperparameters: Hyperparameters
    fidelity: int  # steps that it was given
    first_step: int  # of the run, where the trial began
    last_step: int
    fitness: float | None  # its mean return, None if it failed
    origin: dict[str, Any]  # what the search says about it


class TrialStart(NamedTuple):
    """A search begins a trial: in new episodes, and with an empty replay buffer unless it is kept."""

    step: int
    number: int
    hyperparameters: Hyperparameters
    fidelity: int
    keeps_replay: bool


class Failure(NamedTuple):
    """Nothing can be learned any more. It ends the run, or the trial of a search."""

    error: UserError  # what the run ends with


Event = TargetUpdate | Generation | MemberEvaluation | PolicyEvaluation | TrialEnd | TrialStart | Failure
