"""The interface of a hyperparameter search: pure transitions from trial to trial, with a JSON-serializable state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from adaqn.base.errors import CheckpointError
from adaqn.base.files import Json

Origin = Literal["random", "promoted", "evolved"]


class Trial(NamedTuple):
    """One configuration to try, with d hyperparameters."""

    number: int  # counts the trials of a search from 0
    u: np.ndarray  # [d] in [0, 1], read-only
    fidelity: int  # its budget in environment steps
    origin: Origin
    bracket: int = 0  # counted across rounds of brackets
    rung: int = 0
    slot: int = 0  # slot of the subpopulation that the trial competes for


State = TypeVar("State")


class Searcher(Protocol[State]):
    """The configuration of a search. `ask` and `tell` alternate; neither modifies the state that it is given.

    All randomness comes from the generator given to `ask`: if it is restored together with the state, a search
    continues exactly.
    """

    def init(self) -> State:
        """The state before the first trial."""
        ...

    def ask(self, state: State, rng: np.random.Generator) -> tuple[State, Trial]:
        """The next trial; raises a ValueError while another one is pending."""
        ...

    def tell(self, state: State, trial: Trial, fitness: float) -> State:
        """Report the fitness of the pending trial: lower is better; a non-finite one marks a failed trial."""
        ...

    def pending(self, state: State) -> Trial | None:
        """The trial that was asked for and not yet told, if any."""
        ...

    def to_dict(self, state: State) -> Json:
        """The state as plain JSON, exact to the last bit."""
        ...

    def from_dict(self, values: Mapping[str, Any]) -> State:
        """The inverse of `to_dict`; raises a CheckpointError if the values do not belong to such a search."""
        ...

    def describe(self) -> list[str]:
        """Lines to print before a run starts: a description of the planned trials."""
        ...


def frozen_vector(values: ArrayLike) -> np.ndarray:
    """A read-only float64 vector with these values."""
    vector = np.array(values, np.float64)
    vector.flags.writeable = False
    return vector


def require_told(pending: Trial | None) -> None:
    """Raise if a trial is still pending."""
    if pending is not None:
        raise ValueError(f"trial {pending.number} is pending: call tell() for it before asking for another one")


def require_pending(pending: Trial | None, trial: Trial) -> Trial:
    """The pending trial; raises if it is not the one that is told."""
    if pending is None or pending.number != trial.number:
        waiting = "none is" if pending is None else f"trial {pending.number} is"
        raise ValueError(f"tell() was called for trial {trial.number}, but {waiting} pending")
    return pending


def trial_to_dict(trial: Trial | None) -> Json | None:
    """The trial as plain JSON."""
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
    """Validate a vector in the unit cube with this many dimensions."""
    try:
        vector = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        raise CheckpointError(f"a configuration must be a list of numbers, but is {values!r}") from None
    if len(vector) != dimensions or not all(0.0 <= value <= 1.0 for value in vector):
        raise CheckpointError(f"a configuration must be {dimensions} numbers between 0 and 1, but is {values!r}")
    return vector
