"""How long a run has taken."""

from __future__ import annotations

import time


class Stopwatch:
    """Wall-clock time from its making, plus what the run had taken before it was resumed."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self._began

    def set(self, elapsed: float) -> None:
        """Go on from this many seconds."""
        self._began = time.perf_counter() - elapsed
