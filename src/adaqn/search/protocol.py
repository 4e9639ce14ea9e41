"""What a search for hyperparameters is: pure transitions from one trial to the next, and a state in plain JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from adaqn.errors import CheckpointError
from adaqn.files import Json

Origin = Literal["random", "promoted", "evolved"]


class Trial(NamedTuple):
    """One configuration to be tried. d hyperparameters."""

    number: int  # counts the trials of a search from 0
    u: np.ndarray  # [d] in [0, 1], read-only
    fidelity: int  # environment steps that it takes
    origin: Origin
    bracket: int = 0  # counts on from one round of brackets to the next
    rung: int = 0
    slot: int = 0  # place in the subpopulation of this fidelity that the trial competes for


State = TypeVar("State")


class Searcher(Protocol[State]):
    """What is fixed about a search. `ask` and `tell` alternate; both leave the state that they are given as it is.

    All randomness comes from the generator given to `ask`: with that one restored beside the state, a search goes on
    exactly where it was.
    """

    def init(self) -> State:
        """The state before the first trial."""
        ...

    def ask(self, state: State, rng: np.random.Generator) -> tuple[State, Trial]:
        """The next trial. A ValueError while another one is pending."""
        ...

    def tell(self, state: State, trial: Trial, fitness: float) -> State:
        """Take the result of the pending trial: lower is better; what is not finite has failed, and is worst."""
        ...

    def pending(self, state: State) -> Trial | None:
        """The trial that was asked for and not yet told."""
        ...

    def to_dict(self, state: State) -> Json:
        """The state in plain JSON, exact to the last bit."""
        ...

    def from_dict(self, values: Mapping[str, Any]) -> State:
        """The inverse of `to_dict`. A CheckpointError if the values are not of such a search."""
        ...

    def describe(self) -> list[str]:
        """Lines to print before a run starts: which trials there will be."""
        ...


def frozen_vector(values: ArrayLike) -> np.ndarray:
    """A read-only vector of doubles with these values."""
    vector = np.array(values, np.float64)
    vector.flags.writeable = False
    return vector


def require_told(pending: Trial | None) -> None:
    """Raise if a trial is still pending."""
    if pending is not None:
        raise ValueError(f"trial {pending.number} is pending and must be told before another one is asked for")


def require_pending(pending: Trial | None, trial: Trial) -> Trial:
    """The pending trial, which must be the one that is told."""
    if pending is None or pending.number != trial.number:
        waiting = "none is" if pending is None else f"trial {pending.number} is"
        raise ValueError(f"trial {trial.number} is told, but {waiting} pending")
    return pending


def trial_to_dict(trial: Trial | None) -> Json | None:
    """The trial in plain JSON."""
    return None if trial is None else trial._asdict() | {"u": trial.u.tolist()}


def trial_from_dict(values: Mapping[str, Any] | None, dimensions: int) -> Trial | None:
    """The inverse of `trial_to_dict`."""
    if values is None:
        return None
    try:
        trial = Trial(**values)
    except TypeError as error:
        raise CheckpointError(f"a trial must have {', '.join(Trial._fields)}, but got {dict(values)}") from error
    if trial.origin not in get_args(Origin):
        raise CheckpointError(f"the origin of a trial must be one of {get_args(Origin)}, but is {trial.origin!r}")
    return trial._replace(u=frozen_vector(unit_vector(trial.u, dimensions)))


def unit_vector(values: Iterable[Any], dimensions: int) -> tuple[float, ...]:
    """These values, which must be a vector in the unit cube of so many dimensions."""
    try:
        vector = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        raise CheckpointError(f"a configuration must be a list of numbers, but is {values!r}") from None
    if len(vector) != dimensions or not all(0.0 <= value <= 1.0 for value in vector):
        raise CheckpointError(f"a configuration must be {dimensions} numbers between 0 and 1, but is {values!r}")
    return vector
