"""Standard output that never ends a run: what a terminal cannot show is spelt out, what nobody reads is dropped."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, TextIO

# What the console shows beyond ASCII, for terminals that know nothing else.
_SPELT = {"±": "+/-", "…": "...", "ε": "eps", "γ": "gamma", "×": "x", "–": "-", "−": "-", "→": "->"}


class SteadyOutput:
    """Standard output, as far as it can be written; the first failure is a warning, and then it is left alone."""

    def __init__(self) -> None:
        self._lost: TextIO | None = None  # the stream that failed

    def write(self, text: str) -> int:
        """Write what the stream's encoding has, and other characters as well as it can."""
        self._attempt(lambda stream: stream.write(fitting(text, stream)))
        return len(text)

    def flush(self) -> None:
        """Hand on what was written."""
        self._attempt(lambda stream: stream.flush())

    def isatty(self) -> bool:
        """Whether somebody may be looking."""
        stream = _unproxied()
        try:
            return stream is not None and stream is not self._lost and stream.isatty()
        except ValueError:  # closed
            return False

    def fileno(self) -> int:
        """The stream's descriptor."""
        stream = _unproxied()
        if stream is None:
            raise OSError("standard output is closed")
        return stream.fileno()

    @property
    def encoding(self) -> str:
        """The stream's encoding."""
        return getattr(_unproxied(), "encoding", None) or "utf-8"

    def _attempt(self, act: Callable[[TextIO], object]) -> None:
        stream = _unproxied()
        if stream is None or stream is self._lost:
            return
        try:
            act(stream)
        except (OSError, ValueError) as error:  # ValueError: closed by somebody
            self._lost = stream
            reason = getattr(error, "strerror", None) or error
            warnings.warn(
                f"standard output cannot be written ({reason}); the run goes on without it",
                RuntimeWarning,
                stacklevel=4,
            )


STEADY: Any = SteadyOutput()  # a file to all who write text to one


def say(text: str) -> None:
    """Print a line about a run, if standard output can be written."""
    # A live line on the terminal takes the place of sys.stdout meanwhile, to keep such lines above it.
    if hasattr(sys.stdout, "rich_proxied_file"):
        print(text)
    else:
        STEADY.write(text + "\n")


def complain(text: str) -> None:
    """Print a line to standard error, if it can be written."""
    try:
        if sys.stderr is not None:
            print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass  # there is nobody left to tell


def fitting(text: str, stream: object = None) -> str:
    """The text in the characters that a stream can encode, by default standard output."""
    encoding = getattr(sys.stdout if stream is None else stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        for character, spelt in _SPELT.items():
            text = text.replace(character, spelt)
        return text.encode(encoding, errors="replace").decode(encoding)
    return text


def occupy_closed_streams() -> None:
    """Open the null device where a standard stream is closed.

    The next file that is opened would take its number, and get what libraries print to it.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (open as long as the process is)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def settle_output() -> OSError | None:
    """Write what standard output still holds back; the answer is why that failed.

    After a failure the rest goes to the null device: the interpreter would try again when it exits, and change the
    exit status.
    """
    try:
        sys.stdout.flush()
    except ValueError:
        return None
    except OSError as error:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        return error
    return None


def _unproxied() -> TextIO | None:
    """Standard output itself, also while a live line has taken its place."""
    return getattr(sys.stdout, "rich_proxied_file", sys.stdout)
