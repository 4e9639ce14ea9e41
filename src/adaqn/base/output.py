"""Standard output that never fails a run: unencodable characters are replaced, and output to a lost stream dropped."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, TextIO

# ASCII replacements for terminals that cannot show the other characters of our output.
_SPELT = {"±": "+/-", "…": "...", "ε": "eps", "γ": "gamma", "×": "x", "–": "-", "−": "-", "→": "->"}


class SteadyOutput:
    """Standard output that warns at the first failed write and then drops all further output."""

    def __init__(self) -> None:
        self._lost: TextIO | None = None  # the stream that failed

    def write(self, text: str) -> int:
        """Write the text, with replacements for characters that the stream's encoding lacks."""
        self._attempt(lambda stream: stream.write(fitting(text, stream)))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._attempt(lambda stream: stream.flush())

    def isatty(self) -> bool:
        """Whether standard output is a terminal that can be written to."""
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
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self._lost = stream
            reason = getattr(error, "strerror", None) or error
            warnings.warn(
                f"standard output cannot be written ({reason}); the run goes on without it",
                RuntimeWarning,
                stacklevel=4,
            )


STDOUT: Any = SteadyOutput()  # typed Any so that it can be passed as a text file


def print_line(text: str) -> None:
    """Print a line about a run, if standard output can be written."""
    # A live progress line replaces sys.stdout with a proxy that prints such lines above it.
    if hasattr(sys.stdout, "rich_proxied_file"):
        print(text)
    else:
        STDOUT.write(text + "\n")


def print_error(text: str) -> None:
    """Print a line to standard error, if it can be written."""
    try:
        if sys.stderr is not None:
            print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass  # no stream is left to report it on


def fitting(text: str, stream: object = None) -> str:
    """The text with characters that the stream, by default standard output, cannot encode replaced."""
    encoding = getattr(sys.stdout if stream is None else stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        for character, spelt in _SPELT.items():
            text = text.replace(character, spelt)
        return text.encode(encoding, errors="replace").decode(encoding)
    return text


def occupy_closed_streams() -> None:
    """Open the null device in place of each closed standard stream.

    Otherwise the next opened file would get its descriptor, and receive what libraries print to that stream.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is `number`
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (stays open until the process ends)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def settle_output() -> OSError | None:
    """Flush standard output; returns the error if that failed.

    After a failure standard output is redirected to the null device: otherwise the interpreter would flush again at
    exit, and change the exit status.
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
    """Standard output itself, also while a live progress line has replaced it with a proxy."""
    return getattr(sys.stdout, "rich_proxied_file", sys.stdout)
