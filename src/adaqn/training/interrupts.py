"""Ending a run in order when the system or the user asks for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class RunInterrupted(Exception):
    """Why `learn` was left with KeyboardInterrupt or SystemExit, whose `__cause__` it is, after a whole step."""

    def __init__(self, reason: str, step: int, finished: bool) -> None:
        super().__init__(f"interrupted by {reason} at step {step}")
        # Whoever calls `trainer.interrupt` may give another reason; the program ends as if it had been asked to.
        self.signal = signal.Signals.__members__.get(reason, signal.SIGTERM)
        self.finished = finished  # the signal came when the run was over: there is nothing to resume


def pass_on(reason: str, step: int, finished: bool) -> NoReturn:
    """End the program that called `learn` as the signal would have.

    Only when the step is whole and the agent can be used: raised in the middle of a step, its memory, which goes from
    state to state, would be lost. The exception is no subclass, because Python exits by SIGINT for the very class only.
    """
    cause = RunInterrupted(reason, step, finished)
    raise (KeyboardInterrupt() if cause.signal == signal.SIGINT else SystemExit(128 + cause.signal)) from cause


@contextmanager
def on_interrupt(ask_to_stop: Callable[[str], None]) -> Iterator[None]:
    """Within this context the first SIGINT or SIGTERM calls `ask_to_stop` with its name; a second one acts as usual.

    Only the main thread receives signals; elsewhere nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watched = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in watched}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        restore()
        ask_to_stop(signal.Signals(number).name)

    for number in watched:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
