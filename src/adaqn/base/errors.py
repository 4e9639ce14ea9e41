"""Errors that a user can fix: each message is one sentence with what is wrong, what was given and what is allowed."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator

LONGEST_MESSAGE = 3_000  # characters


class UserError(ValueError):
    """Invalid user input. The command line prints the message without a traceback."""

    def __str__(self) -> str:
        """The message on one line; the middle of a very long one is cut out."""
        text = " ".join(super().__str__().splitlines())
        return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 500]} ... {text[-500:]}"


class EnvironmentFault(UserError):
    """The environment raised an exception, or returned a value that cannot be used for learning."""


class OutputFault(UserError):
    """A file of a run, or another output, could not be written."""


class MemoryFault(UserError):
    """The system is out of memory."""


class AllMembersDiverged(UserError):
    """Every member of the ensemble has produced non-finite values."""


class ActorDiverged(UserError):
    """The actor has produced non-finite actions."""


class CheckpointError(UserError):
    """A checkpoint or saved agent is unusable: missing, truncated, of another version, or for other spaces."""


@contextlib.contextmanager
def reading_saved(what: str) -> Iterator[None]:
    """Convert the exceptions that missing or invalid metadata cause into a CheckpointError about `what`."""
    try:
        yield
    except UserError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise CheckpointError(f"{what} is damaged: something in it is missing or wrong ({error!r})") from error


def nearest(given: str, allowed: Iterable[str]) -> str:
    """A "did you mean" hint with the closest allowed name, or an empty string if none is close."""
    names = {name.lower(): name for name in allowed}
    match = difflib.get_close_matches(given.lower(), list(names), n=1, cutoff=0.5)
    return f"; did you mean {names[match[0]]!r}?" if match else ""


def unknown_name(kind: str, given: object, allowed: Iterable[str]) -> UserError:
    """The error for an unknown name, with the closest match and all allowed names."""
    names = sorted(allowed)
    return UserError(f"unknown {kind} {given!r}{nearest(str(given), names)} (allowed: {', '.join(names)})")
