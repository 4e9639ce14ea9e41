"""A separate process on one core with one thread, in which every measurement runs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "SDL_VIDEODRIVER": "dummy",
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
}


def cores() -> tuple[int, ...]:
    """The cores that this process may use, in ascending order."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def pin(core: int) -> None:
    """Pin this process to one core, on systems that support it (Linux)."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def run_module(
    module: str, arguments: Sequence[str], environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `python -m module` with one thread for every library; its stderr is ours."""
    # JAX's own cache would make every start warm.
    inherited = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    found = {"PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as elsewhere:  # MuJoCo writes a log file to the working directory
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=elsewhere,
            env={**inherited, **ONE_THREAD, **found, **(environ or {})},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
