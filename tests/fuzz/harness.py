"""How damaged files and odd inputs are made, and how an operation on one of them may end."""

from __future__ import annotations

import copy
import hashlib
import math
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from adaqn.base.errors import LONGEST_MESSAGE, UserError
from adaqn.cli import main

SECONDS = 30.0  # that any case may take, compilation and a busy machine included
MISSING = object()
# What stands in for a value of a file: the wrong kind, the wrong size, the wrong sign, or nothing.
WRONG: tuple[Any, ...] = (
    MISSING, None, True, -1, 0, 7, 10**30, 0.5, -2.5, math.nan, math.inf, "", "x", "1e3", "nan", "\ud800\n",
    [], {}, [1], [[1, 2], [3]], ["a", "b"], {"a": 1}, {"step": 0}, "2024-13-45", [None], 2**63, "../../x",
)  # fmt: skip


def exhaustive(examples: int) -> settings:
    """Hypothesis with so many examples, the same ones in every run; FUZZ_FACTOR=10 draws ten times as many."""
    return settings(
        max_examples=examples * int(os.environ.get("FUZZ_FACTOR", "1")),
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # a failing case is told as it was drawn; making it smaller takes many minutes
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def outcome(operation: Callable[[], Any], mistake: type[Exception] = UserError) -> str | None:
    """None after a success, or the one sentence of a mistake; all else, a hang included, fails the test."""
    with within(SECONDS), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            operation()
        except mistake as error:
            message = str(error)
            assert message and "\n" not in message and len(message) < LONGEST_MESSAGE + 100, message
            return message
    return None


def command(arguments: list[str], capsys: Any) -> str | None:
    """The outcome of a command: None, or the one line that it ended with."""
    capsys.readouterr()
    with within(SECONDS), warnings.catch_warnings():
        warnings.simplefilter("always")  # as in a terminal, where they are lines and no errors
        status = main(arguments)
    lines = capsys.readouterr().err.splitlines()
    told = [line for line in lines if not line.startswith("adaqn: warning: ")]
    assert status in (0, 1), f"{arguments}: status {status}"
    assert len(told) == status, f"{arguments}: {told}"
    return told[0] if told else None


class within:
    """Raises if what is done takes longer: nothing may hang."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGALRM, self._late)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, self._before)

    def _late(self, *_: Any) -> None:
        raise AssertionError(f"still busy after {self._seconds} s")


def fingerprint(directory: Path) -> dict[str, str]:
    """The content of all files below a directory."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in nested mappings and lists; of long lists, the first and the last."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from paths_in(value[key], (*path, key))
    elif isinstance(value, list) and value:
        for index in {0, len(value) - 1}:
            yield from paths_in(value[index], (*path, index))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another value there, or without one."""
    result = copy.deepcopy(value)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    if new is MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return result


@st.composite
def damaged_bytes(draw: st.DrawFn, whole: bytes) -> bytes:
    """A file cut short, with bytes flipped, with a stretch doubled or overwritten, or another file altogether."""
    kind = draw(st.sampled_from(["cut", "flip", "double", "noise", "zeros", "other"]))
    place = draw(st.integers(0, max(0, len(whole) - 1)))
    if kind == "cut":
        return whole[:place]
    if kind == "flip":
        return whole[:place] + bytes([whole[place] ^ draw(st.integers(1, 255))]) + whole[place + 1 :]
    if kind == "double":
        end = draw(st.integers(place, min(len(whole), place + 200)))
        return whole[:end] + whole[place:]
    if kind in ("noise", "zeros"):
        length = draw(st.integers(1, 64))
        noise = np.random.default_rng(place).bytes(length) if kind == "noise" else bytes(length)
        return whole[:place] + noise + whole[place + length :]
    return draw(st.sampled_from([b"", b"\n", b"\xff\xfe\x00", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"\x00" * 500]))
