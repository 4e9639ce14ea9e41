"""Random search: every trial is a uniform vector, run for the same number of steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from adaqn.base.checks import count
from adaqn.base.errors import CheckpointError
from adaqn.base.files import Json
from adaqn.members.search.protocol import (
    Trial,
    frozen_vector,
    require_pending,
    require_told,
    trial_from_dict,
    trial_to_dict,
)


class RandomSearchState(NamedTuple):
    """The number of trials and the pending one; results of trials are not needed."""

    asked: int = 0  # trials so far, the pending one included
    pending: Trial | None = None


@dataclass(frozen=True)
class RandomSearch:
    """Uniform random vectors at a fixed fidelity."""

    dimensions: int
    fidelity: int  # environment steps of every trial

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimensions", count("the number of searched dimensions", self.dimensions, low=1))
        object.__setattr__(self, "fidelity", count("the steps of a trial", self.fidelity, low=1))

    def init(self) -> RandomSearchState:
        """The state before the first trial."""
        return RandomSearchState()

    def ask(self, state: RandomSearchState, rng: np.random.Generator) -> tuple[RandomSearchState, Trial]:
        """A trial with a uniform random vector."""
        require_told(state.pending)
        trial = Trial(state.asked, frozen_vector(rng.random(self.dimensions)), self.fidelity, "random")
        return RandomSearchState(state.asked + 1, trial), trial

    def tell(self, state: RandomSearchState, trial: Trial, fitness: float) -> RandomSearchState:
        """End the pending trial; its fitness does not affect the next one."""
        del fitness
        require_pending(state.pending, trial)
        return state._replace(pending=None)

    def pending(self, state: RandomSearchState) -> Trial | None:
        """The trial that was asked for and not yet told, if any."""
        return state.pending

    def to_dict(self, state: RandomSearchState) -> Json:
        """The state in plain JSON."""
        return {"asked": state.asked, "pending": trial_to_dict(state.pending)}

    def from_dict(self, values: Mapping[str, Any]) -> RandomSearchState:
        """The inverse of `to_dict`."""
        if set(values) != set(RandomSearchState._fields):
            raise CheckpointError(f"a random search must have asked and pending, but has {', '.join(values)}")
        return RandomSearchState(values["asked"], trial_from_dict(values["pending"], self.dimensions))

    def describe(self) -> list[str]:
        """The line to print before a run starts."""
        return [f"Random search: every trial takes {self.fidelity:,} steps."]
