"""The return values of an agent's methods, narrowed to the type that a test expects."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from adaqn.agents.protocol import Failure
from adaqn.base.errors import UserError

State = TypeVar("State")


def learned(outcome: tuple[State, np.ndarray | Failure | None]) -> State:
    """The state after an update without actions."""
    state, actions = outcome
    assert actions is None
    return state


def acted(outcome: tuple[State, np.ndarray | Failure | None]) -> tuple[State, np.ndarray]:
    """The state and the actions, which must not be a failure."""
    state, actions = outcome
    assert isinstance(actions, np.ndarray)
    return state, actions


def failed(outcome: tuple[Any, Any]) -> UserError:
    """The error returned instead of the actions, or of the events of an operation."""
    _, returned = outcome
    (failure,) = [returned] if isinstance(returned, Failure) else returned
    assert isinstance(failure, Failure)
    return failure.error
