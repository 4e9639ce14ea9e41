"""Training runs for the experiments: each in a separate process on one core, resumed if it was interrupted."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.isolation import ONE_THREAD, ROOT, cores

Run = tuple[Path, Sequence[str]]  # directory, and the arguments of `adaqn train`


def train(path: Path, arguments: Sequence[str], core: int, environ: Mapping[str, str] | None = None) -> None:
    """Start, or continue, a run and train it to its end; a finished run is skipped."""
    if (path / "summary.json").exists():
        return
    if any((path / "checkpoint").glob("step-*.zip")):
        command = ["resume", str(path), "--quiet"]
    else:
        command = ["train", *arguments, "--run-dir", str(path), "--force", "--quiet"]
    subprocess.run(
        [sys.executable, "-m", "adaqn.cli", *command],
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD, **(environ or {})},
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )


def train_all(runs: Sequence[Run], jobs: int) -> None:
    """Train all runs, `jobs` at a time, each on a separate core."""
    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in cores()[-jobs:]:
        free.put(core)

    def one(path: Path, arguments: Sequence[str]) -> None:
        core = free.get()
        print(f"{path.name} on core {core}", flush=True)
        try:
            train(path, arguments, core)
        finally:
            free.put(core)

    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(one, *run) for run in runs]:
            done.result()
