"""Waiting for what another process does."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any


def wait_for(
    condition: Callable[[], object], seconds: float = 200.0, process: subprocess.Popen[Any] | None = None
) -> None:
    """Return once the condition holds; fail if that takes too long, or if the process that should fulfil it ends."""
    limit = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, "it ended before"
        assert time.monotonic() < limit, "it took too long"
        time.sleep(0.02)
