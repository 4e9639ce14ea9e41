"""The measurements of `throughput` in a separate process: prints a JSON object as its last line.

For rates it prints one after the warm-up and after every turn, and waits for a line of input before each turn.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Literal, get_args

from benchmarks.contenders import GENERATION, MODULES, Contender, DQNSettings, algorithm, build
from benchmarks.isolation import pin
from benchmarks.stopwatch import Moment, Stopwatch, Turns
from benchmarks.tasks import TASKS, Task

Quantity = Literal["rate", "latency", "environment"]

_ENVIRONMENT_WARMUP = 1_000


@dataclasses.dataclass(frozen=True)
class Rate:
    """Speed and memory of a contender once everything is compiled."""

    steps_per_second: float
    cpu_share: float  # cores in use; below 1 for a pinned process if other processes used its core meanwhile
    peak_rss_mb: float


@dataclasses.dataclass(frozen=True)
class Latency:
    """Start-up times, in seconds."""

    import_seconds: float
    construct_seconds: float
    first_update_seconds: float  # from the call of learn() to the end of the first update


def measure_rates(task: Task, contender: Contender, one_thread: bool, wait: Callable[[Rate | None], None]) -> None:
    """Speed in each round of `steps` steps, after `warmup` steps during which learning starts.

    `wait` is called before every round with the speed in the last one, or None if there was none, and after the last.
    """
    n = contender.n_envs  # environments step together
    steps = max(task.steps, GENERATION) if contender.space else task.steps  # as many generations in every round
    warmup, steps = -(-task.warmup // n) * n, -(-steps // n) * n
    total = warmup + steps * task.rounds + n
    watch = Turns(warmup, steps, lambda turn: wait(turn and _rate(steps, *turn)))
    build(contender, lambda: watch.watch(task.make()), task.settings, total, 0, one_thread).learn(total)


def measure_latency(task: Task, contender: Contender, one_thread: bool) -> Latency:
    """The time to the first update, which happens as soon as the buffer holds a batch."""
    settings = dataclasses.replace(task.settings, learning_starts=task.settings.batch_size)
    # By this step every library has made an update: they differ in whether the step at which learning starts is itself
    # followed by one.
    first = settings.learning_starts + settings.train_freq + 1
    # The peers take the exploration as a fraction of the run, which cannot exceed 1.
    steps = settings.exploration_steps if isinstance(settings, DQNSettings) else first
    watch = Stopwatch(first)
    env = watch.watch(task.make())

    begin = time.perf_counter()
    getattr(importlib.import_module(MODULES[contender.library]), algorithm(contender.library, settings))
    imported = time.perf_counter()
    learner = build(contender, lambda: env, settings, steps, 0, one_thread)
    constructed = time.perf_counter()
    learner.learn(first + 1)
    return Latency(imported - begin, constructed - imported, watch.after(first).wall - constructed)


def measure_environment(task: Task, steps: int) -> Rate:
    """Steps per second of the environment alone, with random actions."""
    env = task.make()
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(_ENVIRONMENT_WARMUP + steps)]
    begin = Moment.now()
    for number, action in enumerate(actions):
        if number == _ENVIRONMENT_WARMUP:
            begin = Moment.now()
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return _rate(steps, begin, Moment.now())


def _rate(steps: int, begin: Moment, end: Moment) -> Rate:
    return Rate(steps / (end.wall - begin.wall), end.cpu_share_since(begin), _peak_rss_mb())


def _peak_rss_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10  # bytes on macOS, KiB elsewhere


def main() -> None:
    """Take the measurement that the arguments describe and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("quantity", choices=get_args(Quantity))
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--contender")
    parser.add_argument("--core", type=int, help="stay on this core with one thread (default: free)")
    for name in ("--warmup", "--steps", "--rounds"):
        parser.add_argument(name, type=int, default=0)
    given = parser.parse_args()
    one_thread = given.core is not None
    if one_thread:
        pin(given.core)
    task = TASKS[given.task]
    if given.quantity == "environment":
        _print(measure_environment(task, given.steps))
    elif given.quantity == "latency":
        _print(measure_latency(task, task.contender(given.contender), one_thread))
    else:
        task = dataclasses.replace(task, warmup=given.warmup, steps=given.steps, rounds=given.rounds)
        measure_rates(task, task.contender(given.contender), one_thread, _take_turns)


def _take_turns(found: Rate | None) -> None:
    """Print a measurement and wait for a line of input; end without one."""
    _print(found)
    if not sys.stdin.readline():
        sys.exit()


def _print(found: Rate | Latency | None) -> None:
    print(json.dumps({} if found is None else dataclasses.asdict(found)), flush=True)


if __name__ == "__main__":
    main()
