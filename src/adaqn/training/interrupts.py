"""Ending a run in order when the system or the user asks for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


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
