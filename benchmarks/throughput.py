"""Steps per second, time to the first update and peak memory on three tasks, compared with SB3 and SBX.

A machine's speed drifts by more than contenders differ, sometimes within a minute. So all of them are started and
warmed up, and then take turns of a few seconds over several rounds, in which only one of them runs: ratios are taken
within a round, and the median over the rounds is reported. Each is measured free, as a user starts it, with all cores
and the threads that its library chooses, and pinned to one core with one thread. This process imports none of the
libraries, because a child inherits its parent's peak memory as a lower bound.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.contenders import MODULES, Contender
from benchmarks.isolation import PLACEMENTS, Placement, cores, run_module, running_module
from benchmarks.machine import machine, versions
from benchmarks.page import RESULTS, section_lines, write_page
from benchmarks.summary import LatencyRounds, RateRounds, latency_rows, rate_table
from benchmarks.tasks import TASKS, Task

LATENCY_ROUNDS = 2


def main() -> None:
    """Measure each task, print its tables and write a JSON file for it."""
    given = _arguments()
    chosen = {task.name: [c for c in task.contenders if c.name in given.only] for task in given.tasks}
    _require_packages([contender for contenders in chosen.values() for contender in contenders])
    for task in given.tasks:
        measure(task, chosen[task.name], given.core, given.placement, given.out)
    if given.out == RESULTS:
        write_page()


def measure(task: Task, contenders: Sequence[Contender], core: int, placements: Sequence[Placement], out: Path) -> None:
    """Measure one task, print its tables and write its JSON file."""
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(task, core, Path(scratch))
        rates, environment = bench.rates(contenders, placements)
        latencies = bench.latencies([contender for contender in contenders if contender.name in task.timed_first])
    tables = {placement: rate_table(contenders, found, task.base) for placement, found in rates.items()}
    record = {
        "task": task.name,
        "environment": task.environment,
        "machine": machine(),
        "versions": versions(),
        "settings": dataclasses.asdict(task.settings),
        "protocol": {"rounds": task.rounds, "warmup_steps": task.warmup, "timed_steps": task.steps},
        "environment_steps_per_second": median(environment),
        "placements": {placement: dataclasses.asdict(table) for placement, table in tables.items()},
        "latencies": [dataclasses.asdict(row) for row in latency_rows(latencies)],
    }
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"throughput-{task.name}.json"
    path.write_text(json.dumps(record, indent=2) + "\n")
    print("\n".join(section_lines(json.loads(path.read_text()))), flush=True)
    print(f"written to {path}", flush=True)


@dataclasses.dataclass(frozen=True)
class Bench:
    """The measurements of one task on one core."""

    task: Task
    core: int
    scratch: Path  # for compilation caches

    def rates(
        self, contenders: Sequence[Contender], placements: Sequence[Placement]
    ) -> tuple[dict[Placement, RateRounds], list[float]]:
        """Speed and memory of every contender in each placement, and of the environment alone, in each round."""
        found: dict[Placement, RateRounds] = {}
        environment: list[float] = []
        for placement in placements:
            alone = self._measure("pinned", "environment", "--steps", str(self.task.environment_steps))
            environment.append(alone["steps_per_second"])
            found[placement] = self._in_turn(contenders, placement)
        return found, environment

    def _in_turn(self, contenders: Sequence[Contender], placement: Placement) -> RateRounds:
        """The measurements of all contenders in one placement."""
        task = self.task
        lengths = {"--warmup": task.warmup, "--steps": task.steps, "--rounds": task.rounds}
        arguments = [str(word) for option in lengths.items() for word in option]
        found: RateRounds = {contender.name: [] for contender in contenders}
        with contextlib.ExitStack() as stack:
            processes: dict[str, subprocess.Popen[str]] = {}
            for contender in contenders:
                self._say(f"{placement}, warming up {contender.name}")
                given = self._arguments(placement, "rate", "--contender", contender.name, *arguments)
                environ = {"ADAQN_CACHE_DIR": str(self.scratch / "rates")}
                process = stack.enter_context(running_module("benchmarks.measure", given, environ, placement))
                processes[contender.name] = process
                next_measurement(process)
            for number in range(task.rounds):
                self._say(f"{placement}, round {number + 1} of {task.rounds}")
                for name, process in processes.items():
                    assert process.stdin is not None
                    process.stdin.write("\n")
                    process.stdin.flush()
                    found[name].append(next_measurement(process))
        return found

    def latencies(self, contenders: Sequence[Contender]) -> LatencyRounds:
        """Time to the first update with an empty compilation cache, and in the next process with a filled one."""
        found: LatencyRounds = {contender.name: ([], []) for contender in contenders}
        for number in range(LATENCY_ROUNDS):
            for contender in contenders:
                self._say(f"latency, round {number + 1} of {LATENCY_ROUNDS}: {contender.name}")
                for measured in found[contender.name]:  # cold, then warm
                    cache = f"{contender.name}-{number}"
                    measured.append(self._measure("free", "latency", "--contender", contender.name, cache=cache))
        return found

    def _measure(self, placement: Placement, quantity: str, *arguments: str, cache: str = "none") -> dict[str, float]:
        environ = {"ADAQN_CACHE_DIR": str(self.scratch / cache)}
        done = run_module("benchmarks.measure", self._arguments(placement, quantity, *arguments), environ, placement)
        return json.loads(done.stdout.splitlines()[-1])

    def _arguments(self, placement: Placement, quantity: str, *arguments: str) -> list[str]:
        core = ["--core", str(self.core)] if placement == "pinned" else []
        return [quantity, "--task", self.task.name, *core, *arguments]

    def _say(self, what: str) -> None:
        print(f"{self.task.name}, {what}", file=sys.stderr, flush=True)


def next_measurement(process: subprocess.Popen[str]) -> dict[str, float]:
    """The next line of output that is a JSON object; libraries may print others."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            return json.loads(line)
    raise RuntimeError(f"a measurement ended with status {process.wait()}; its errors are above")


def _require_packages(contenders: Sequence[Contender]) -> None:
    for package in sorted({MODULES[contender.library] for contender in contenders}):
        if importlib.util.find_spec(package) is None:
            sys.exit(f"{package} is not installed here; run `make bench`, or leave it out with --only.")


def _arguments() -> argparse.Namespace:
    names = list(dict.fromkeys(contender.name for task in TASKS.values() for contender in task.contenders))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", choices=TASKS, default=list(TASKS), help="measure these (default all)")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="measure only these contenders")
    for option, field, what in (
        ("--rounds", "rounds", "turns of every contender"),
        ("--warmup", "warmup", "steps before timing starts"),
        ("--steps", "steps", "steps of a turn"),
    ):
        usual = ", ".join(f"{getattr(task, field)} for {task.name}" for task in TASKS.values())
        parser.add_argument(option, type=int, help=f"{what} (default {usual})")
    parser.add_argument(
        "--placement", nargs="+", choices=PLACEMENTS, default=list(PLACEMENTS), help="measure only so (default both)"
    )
    parser.add_argument("--core", type=int, default=cores()[-1], help="the core of pinned measurements")
    parser.add_argument("--out", type=Path, default=RESULTS, help="a directory for the JSON")
    given = parser.parse_args()
    durations = {name: getattr(given, name) for name in ("rounds", "warmup", "steps")}
    durations = {name: value for name, value in durations.items() if value is not None}
    given.tasks = [dataclasses.replace(task, **durations) for task in TASKS.values() if task.name in given.task]
    for task in given.tasks:
        if task.rounds < 1 or task.steps < 1:
            parser.error(f"--rounds {task.rounds} --steps {task.steps}: both must be at least 1.")
        starts = task.settings.learning_starts
        if task.warmup <= starts:
            parser.error(f"--warmup is {task.warmup}, but in {task.name} learning starts at {starts}; give more.")
        if not any(contender.name in given.only for contender in task.contenders):
            parser.error(f"--only excludes all contenders of {task.name}: {' '.join(c.name for c in task.contenders)}.")
    if given.core not in cores():
        parser.error(f"--core is {given.core}, but must be one of {', '.join(map(str, cores()))}.")
    return given


if __name__ == "__main__":
    main()
