"""Mistakes that a user can mend: each is one sentence that says what is wrong, what was given and what is allowed."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator

LONGEST_MESSAGE = 3_000  # characters


class UserError(ValueError):
    """A mistake in what the user gave. The command line prints its message without a traceback."""

    def __str__(self) -> str:
        """The message in one line; the middle is left out of one that quotes a very long value."""
        text = " ".join(super().__str__().splitlines())
        return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 500]} ... {text[-500:]}"


class EnvironmentFault(UserError):
    """The environment raised, or returned something that cannot be learned from."""


class OutputFault(UserError):
    """A file of a run, or another output, could not be written."""


class MemoryFault(UserError):
    """The system gives no more memory."""


class AllMembersDiverged(UserError):
    """No member is left whose values are finite."""


class ActorDiverged(UserError):
    """The actor's actions can no longer be learned from."""


class CheckpointError(UserError):
    """A checkpoint or saved agent that cannot be used: missing, torn, of another version or for other spaces."""


@contextlib.contextmanager
def reading_saved(what: str) -> Iterator[None]:
    """Turn whatever missing or wrong metadata make Python raise into a CheckpointError about `what`."""
    try:
        yield
    except UserError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise CheckpointError(f"{what} is damaged: something in it is missing or wrong ({error!r})") from error


def nearest(given: str, allowed: Iterable[str]) -> str:
    """The allowed name most like the given one, as a question, or nothing if none is like it."""
    names = {name.lower(): name for name in allowed}
    match = difflib.get_close_matches(given.lower(), list(names), n=1, cutoff=0.5)
    return f"; did you mean {names[match[0]]!r}?" if match else ""


def unknown_name(kind: str, given: object, allowed: Iterable[str]) -> UserError:
    """The error for a name that does not exist."""
    names = sorted(allowed)
    return UserError(f"unknown {kind} {given!r}{nearest(str(given), names)} (allowed: {', '.join(names)})")
