"""Separate processes in which every measurement runs: on one core with one thread, or free, as a user starts them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

ROOT = Path(__file__).resolve().parent.parent

Placement = Literal["free", "pinned"]  # all cores and the library's own threads, or one core and one thread
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)

_NO_DEVICES = {
    "JAX_PLATFORMS": "cpu",
    "SDL_VIDEODRIVER": "dummy",
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
}
ONE_THREAD = {
    **_NO_DEVICES,
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PJRT_NPROC": "1",  # of XLA; its flags for that have no effect
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
    module: str,
    arguments: Sequence[str],
    environ: Mapping[str, str] | None = None,
    placement: Placement = "pinned",
) -> subprocess.CompletedProcess[str]:
    """Run `python -m module`, by default with one thread for every library; its stderr is ours.

    The module itself chooses its core.
    """
    with tempfile.TemporaryDirectory() as elsewhere:  # MuJoCo writes a log file to the working directory
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=elsewhere,
            env=_environment(environ or {}, placement),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )


@contextlib.contextmanager
def running_module(
    module: str, arguments: Sequence[str], environ: Mapping[str, str], placement: Placement
) -> Iterator[subprocess.Popen[str]]:
    """`python -m module` with pipes to its standard input and output; it must end when its input does."""
    with (
        tempfile.TemporaryDirectory() as elsewhere,
        subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=elsewhere,
            env=_environment(environ, placement),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        yield process


def _environment(environ: Mapping[str, str], placement: Placement) -> dict[str, str]:
    # JAX's own cache would make every start warm.
    inherited = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    threads = ONE_THREAD if placement == "pinned" else _NO_DEVICES
    # The sources beside these benchmarks, whatever is installed.
    found = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    return {**inherited, **threads, **found, **environ}
