"""Elapsed wall-clock time of a run."""

from __future__ import annotations

import time


class Stopwatch:
    """Wall-clock time since its creation, plus the time the run took before it was resumed."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self._began

    def set(self, elapsed: float) -> None:
        """Continue from this many seconds."""
        self._began = time.perf_counter() - elapsed
