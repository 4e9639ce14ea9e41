"""Steps per second, time to the first update and peak memory on Lunar Lander, beside SB3 and SBX.

Contenders take turns over several rounds, because a machine's speed drifts by more than they differ: a ratio
compares only what was measured in the same round, and the median over the rounds is reported.
This process imports none of the libraries, for a child inherits its parent's peak memory as a lower bound.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contenders import CONTENDERS, Contender, Settings
from benchmarks.isolation import ROOT, cores, run_module
from benchmarks.machine import machine, versions
from benchmarks.summary import LatencyRounds, RateRounds, print_tables, summarise

LATENCY_CONTENDERS = ("sb3", "sbx", "adaqn-k1", "adaqn-paper")
_PACKAGES = {"sb3": "stable_baselines3", "sbx": "sbx", "adaqn": "adaqn"}


def main() -> None:
    """Measure, print the tables and write the JSON."""
    given = _arguments()
    chosen = [contender for contender in CONTENDERS if contender.name in given.only]
    _require_packages(chosen)
    protocol = {"rounds": given.rounds, "warmup_steps": given.warmup, "timed_steps": given.steps}
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(given.core, given.warmup, given.steps, Path(scratch))
        rates, environment = bench.rates(chosen, given.rounds)
        latencies = bench.latencies([c for c in chosen if c.name in LATENCY_CONTENDERS], given.rounds)
    summary = summarise(chosen, rates, latencies, environment)
    print_tables(summary)
    record = {
        "machine": machine(),
        "versions": versions(),
        "settings": dataclasses.asdict(Settings()),
        "protocol": protocol,
        **dataclasses.asdict(summary),
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to {given.out}")


@dataclasses.dataclass(frozen=True)
class Bench:
    """Where and how long to measure."""

    core: int
    warmup: int
    steps: int
    scratch: Path  # for compilation caches

    def rates(self, contenders: Sequence[Contender], rounds: int) -> tuple[RateRounds, list[float]]:
        """Rate and memory of everyone, and the environment alone, in each round."""
        found: RateRounds = {contender.name: [] for contender in contenders}
        environment: list[float] = []
        arguments = ["--warmup", str(self.warmup), "--steps", str(self.steps)]
        for number in range(rounds):
            environment.append(self._measure("environment", "--steps", "20000")["steps_per_second"])
            for contender in contenders:
                _say(f"round {number + 1} of {rounds}: {contender.name}")
                found[contender.name].append(
                    self._measure("rate", "--contender", contender.name, *arguments, cache="rates")
                )
        return found, environment

    def latencies(self, contenders: Sequence[Contender], rounds: int) -> LatencyRounds:
        """Time to the first update: with an empty compilation cache, and in the next process."""
        found: LatencyRounds = {contender.name: ([], []) for contender in contenders}
        for number in range(rounds):
            for contender in contenders:
                _say(f"latency, round {number + 1} of {rounds}: {contender.name}")
                for measured in found[contender.name]:  # cold, then warm
                    cache = f"{contender.name}-{number}"
                    measured.append(self._measure("latency", "--contender", contender.name, cache=cache))
        return found

    def _measure(self, quantity: str, *arguments: str, cache: str = "none") -> dict[str, float]:
        environ = {"ADAQN_CACHE_DIR": str(self.scratch / cache)}
        done = run_module("benchmarks.measure", [quantity, "--core", str(self.core), *arguments], environ)
        return json.loads(done.stdout.splitlines()[-1])


def _require_packages(contenders: Sequence[Contender]) -> None:
    for package in sorted({_PACKAGES[contender.library] for contender in contenders}):
        if importlib.util.find_spec(package) is None:
            sys.exit(f"{package} is not installed here; run `make bench`, or leave it out with --only.")


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    names = [contender.name for contender in CONTENDERS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="measure only these")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each (default 3)")
    parser.add_argument("--warmup", type=int, default=2_000, help="steps before the clock starts (default 2000)")
    parser.add_argument("--steps", type=int, default=4_000, help="steps on the clock (default 4000)")
    parser.add_argument("--core", type=int, default=cores()[-1], help="the core to measure on")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "throughput.json")
    given = parser.parse_args()
    if given.rounds < 1 or given.steps < 1:
        parser.error(f"--rounds {given.rounds} --steps {given.steps}: both must be at least 1.")
    if given.warmup <= Settings().learning_starts:
        parser.error(f"--warmup is {given.warmup}, but learning starts at {Settings().learning_starts}; give more.")
    if given.core not in cores():
        parser.error(f"--core is {given.core}, but must be one of {', '.join(map(str, cores()))}.")
    return given


if __name__ == "__main__":
    main()
