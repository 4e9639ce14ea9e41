"""What a user pays: samples and time from nothing to a policy that solves Lunar Lander, for each way of tuning.

    python -m benchmarks.cost_of_tuning --methods adadqn-architectures sweep --seeds 3 --cap 400000 --jobs 1
    python -m benchmarks.cost_of_tuning --page

A method is checked at fixed intervals: 20 episodes of the policy that it would hand over at this point. It succeeds at
the first check with a mean return of at least 200, and fails if it reaches the cap on samples before. Samples are all
environment steps, including evaluations that decide something (Optuna's); the episodes of the checks are counted
separately, since all methods have them and nothing is chosen by them. Time is that of one core, from the start of the
process, again without the checks.

Every (method, seed) is a process of its own on one core. It writes its result to `--out` when it is over, and is then
not run again; one that was interrupted is resumed. Optuna needs the packages of requirements/bench.txt.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import queue
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks.isolation import ONE_THREAD, ROOT, cores
from benchmarks.tuning_page import ARCHITECTURES, METHODS, write_page
from benchmarks.tuning_record import read_record, record_path

OUT = ROOT / "benchmarks" / "results" / "cost_of_tuning"
PAGE = ROOT / "docs" / "results" / "cost_of_a_tuned_policy.md"


class Unit(NamedTuple):
    """One process."""

    method: str
    seed: int
    cap: int
    every: int
    through: bool = False  # goes on to its cap, as a part of a sweep

    @property
    def module(self) -> str:
        """The module that makes the run."""
        return "benchmarks.tuning_optuna" if self.method == "optuna" else "benchmarks.tuning_run"

    def is_over(self, out: Path) -> bool:
        """Whether its result is there, and would not change with this cap."""
        path = record_path(out, self.method, self.seed)
        if not path.exists():
            return False
        return dataclasses.replace(read_record(path), cap=self.cap).is_over


def units(methods: Sequence[str], seeds: Sequence[int], cap: int, every: int) -> list[Unit]:
    """The processes of all methods, seed by seed; a sweep is one for each architecture, with its share of the cap."""
    found = []
    for seed in seeds:
        for method in methods:
            if method == "sweep":
                share = len(ARCHITECTURES)
                found += [Unit(name, seed, cap // share, every // share, True) for name in ARCHITECTURES]
            else:
                found.append(Unit(method, seed, cap, every))
    return found


def execute(unit: Unit, core: int, work: Path, out: Path) -> None:
    """Make one run in a separate process."""
    arguments = [f"--{name}={getattr(unit, name)}" for name in ("method", "seed", "cap", "every")]
    arguments += ["--through"] if unit.through else []
    paths = [f"--core={core}", f"--work={work}", f"--out={out}", f"--started={time.time()}"]
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    subprocess.run(
        [sys.executable, "-m", unit.module, *arguments, *paths],
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
        check=True,
    )


def execute_all(pending: Sequence[Unit], jobs: int, work: Path, out: Path) -> list[str]:
    """Make all runs, `jobs` at a time, each on a separate core; returns those that failed."""
    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in cores()[-jobs:]:
        free.put(core)

    def one(unit: Unit) -> str | None:
        core, begin = free.get(), time.time()
        try:
            execute(unit, core, work, out)
        except subprocess.CalledProcessError as error:
            return f"{unit.method}, seed {unit.seed}: exit status {error.returncode}"
        finally:
            free.put(core)
        check = read_record(record_path(out, unit.method, unit.seed)).success
        outcome = "did not succeed" if check is None else f"succeeded after {check.samples:,} samples"
        print(f"{unit.method}, seed {unit.seed}: {outcome}, {time.time() - begin:.0f} s", flush=True)
        return None

    with ThreadPoolExecutor(jobs) as pool:
        return [failure for failure in pool.map(one, pending) if failure is not None]


def main() -> int:
    """Make the missing runs, or the page from those that there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0..N-1 (default 3)")
    parser.add_argument("--cap", type=int, default=400_000, help="samples of each method and seed (default 400000)")
    parser.add_argument("--every", type=int, default=20_000, help="samples between two checks (default 20000)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time, each on its own core (default 1)")
    parser.add_argument("--out", type=Path, default=OUT, help="directory of the results")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "cost-of-tuning", help="directory of the runs")
    parser.add_argument("--page", action="store_true", help="only write the page and its figure")
    given = parser.parse_args()
    failures: list[str] = []
    if not given.page:
        every = units(given.methods, range(given.seeds), given.cap, given.every)
        pending = [unit for unit in every if not unit.is_over(given.out)]
        print(f"{len(pending)} of {len(every)} runs are left", flush=True)
        failures = execute_all(pending, given.jobs, given.work.resolve(), given.out.resolve())
    print(*failures, sep="\n", end="\n" if failures else "")
    if given.page:
        write_page(given.out, PAGE)
        print(PAGE)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
