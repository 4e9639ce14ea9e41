"""One thread, XLA's threads, and updates divided among lanes, on all cores: `python -m benchmarks.threads`.

Each contender of ours runs in three processes, which take turns: with one XLA thread, with one per core, and as
`threads="auto"` divides its updates (docs/benchmarks.md, "Threads"). Needs an idle machine.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from statistics import median

from benchmarks.isolation import cores, running_module
from benchmarks.tasks import TASKS, Task
from benchmarks.throughput import next_measurement

CONTENDERS = {"half-cheetah": ["adaqn-k2", "adaqn-k4"], "pong": ["adaqn-k1", "adaqn-k3"]}  # with large products
WAYS = {"one thread": {"PJRT_NPROC": "1"}, "XLA's threads": {"PJRT_NPROC": str(len(cores()))}, "lanes": {}}


def main() -> None:
    """Measure every contender in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"| {len(cores())} cores | {' | '.join(f'{way}, steps/s | CPU ms/step' for way in WAYS)} |")
    print("|---|" + "---|---|" * len(WAYS))
    for name in given.task:
        for contender in CONTENDERS[name]:
            print(f"| {name}, {contender} | {' | '.join(cells(TASKS[name], contender, given.rounds))} |", flush=True)


def cells(task: Task, contender: str, rounds: int) -> Sequence[str]:
    """The median speed and processor time of each way."""
    lengths = {"--task": task.name, "--contender": contender, "--warmup": task.warmup}
    lengths |= {"--steps": task.steps, "--rounds": rounds}
    arguments = ["rate", *(str(word) for option in lengths.items() for word in option)]
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with contextlib.ExitStack() as stack:
        processes = {}
        for way, environ in WAYS.items():
            processes[way] = stack.enter_context(running_module("benchmarks.measure", arguments, environ, "free"))
            next_measurement(processes[way])
        for _ in range(rounds):
            for way, process in processes.items():
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
                found[way].append(next_measurement(process))
    made = []
    for measured in found.values():
        rate = median(one["steps_per_second"] for one in measured)
        busy = median(1e3 * one["cpu_share"] / one["steps_per_second"] for one in measured)
        made += [f"{rate:.0f}", f"{busy:.2f}"]
    return made


if __name__ == "__main__":
    main()
