"""Orderly interruption of a run by SIGINT or SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class RunInterrupted(Exception):
    """The `__cause__` of the KeyboardInterrupt or SystemExit that `learn` raises after a complete step."""

    def __init__(self, reason: str, step: int, finished: bool) -> None:
        super().__init__(f"interrupted by {reason} at step {step}")
        # `trainer.interrupt` may be called with any reason; the program then exits as for SIGTERM.
        self.signal = signal.Signals.__members__.get(reason, signal.SIGTERM)
        self.finished = finished  # the signal came after the last step: there is nothing to resume


def pass_on(reason: str, step: int, finished: bool) -> NoReturn:
    """Raise the exception with which the signal would have ended the program that called `learn`.

    This happens only after a complete step, when the agent is usable: in the middle of a step the buffers of its
    state, which are donated to the next state, would be lost. It is not a subclass of KeyboardInterrupt, because Python
    exits with the status of SIGINT only for that exact class.
    """
    cause = RunInterrupted(reason, step, finished)
    raise (KeyboardInterrupt() if cause.signal == signal.SIGINT else SystemExit(128 + cause.signal)) from cause


@contextmanager
def on_interrupt(ask_to_stop: Callable[[str], None]) -> Iterator[None]:
    """Within this context, the first SIGINT or SIGTERM calls `ask_to_stop` with its name; a second acts as usual.

    Only the main thread receives signals; in other threads this does nothing.
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
