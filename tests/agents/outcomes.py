"""What a method of an agent returned, as the kind that a test expects."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from adaqn.agents.events import Failure
from adaqn.errors import UserError

State = TypeVar("State")


def learned(outcome: tuple[State, np.ndarray | Failure | None]) -> State:
    """The state after an update that was not asked for actions."""
    state, actions = outcome
    assert actions is None
    return state


def acted(outcome: tuple[State, np.ndarray | Failure | None]) -> tuple[State, np.ndarray]:
    """The state and the actions, of which there must be some."""
    state, actions = outcome
    assert isinstance(actions, np.ndarray)
    return state, actions


def failed(outcome: tuple[Any, Any]) -> UserError:
    """The error that took the place of the actions, or of all events of an operation."""
    _, returned = outcome
    (failure,) = [returned] if isinstance(returned, Failure) else returned
    assert isinstance(failure, Failure)
    return failure.error
