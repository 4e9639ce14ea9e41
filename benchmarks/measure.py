"""One measurement of `throughput`, in a process of its own: prints a JSON object on its last line."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import resource
import sys
import time
from typing import Literal, get_args

import gymnasium as gym

from benchmarks.contenders import CONTENDERS, ENVIRONMENT, Contender, Settings, build
from benchmarks.isolation import pin
from benchmarks.stopwatch import Moment, Stopwatch

Quantity = Literal["rate", "latency", "environment"]

# The class counts, not the package alone: ours imports nothing heavy until a class is asked for.
_CLASSES = {"sb3": ("stable_baselines3", "DQN"), "sbx": ("sbx", "DQN"), "adaqn": ("adaqn", "AdaDQN")}
_ENVIRONMENT_WARMUP = 1_000
# After so many steps beyond the start of learning, at least one update has been made on every side:
# they differ by one in whether the step at which learning starts is itself followed by an update.
_FIRST_UPDATE = 2


@dataclasses.dataclass(frozen=True)
class Rate:
    """How fast a contender learns once all is compiled."""

    steps_per_second: float
    cpu_share: float  # below 1 where other processes took the core in the meantime
    peak_rss_mb: float


@dataclasses.dataclass(frozen=True)
class Latency:
    """How long a user waits; each part in seconds."""

    import_seconds: float
    construct_seconds: float
    first_update_seconds: float  # from the call of learn() to the end of the first update


def measure_rate(contender: Contender, warmup: int, steps: int) -> Rate:
    """Steps per second over `steps` steps, after `warmup` steps in which learning starts."""
    total = warmup + steps + 1
    env = Stopwatch(gym.make(ENVIRONMENT), warmup, warmup + steps)
    build(contender, env, Settings(), total, seed=0).learn(total)
    return _rate(steps, env.after(warmup), env.after(warmup + steps))


def measure_latency(contender: Contender) -> Latency:
    """The time to the first update, which is due as soon as there is a batch."""
    settings = dataclasses.replace(Settings(), learning_starts=Settings().batch_size)
    first = settings.learning_starts + _FIRST_UPDATE
    env = Stopwatch(gym.make(ENVIRONMENT), first)

    begin = time.perf_counter()
    module, name = _CLASSES[contender.library]
    getattr(importlib.import_module(module), name)
    imported = time.perf_counter()
    # The peers state the exploration as a share of the run, and a share cannot exceed 1.
    learner = build(contender, env, settings, settings.exploration_steps, seed=0)
    constructed = time.perf_counter()
    learner.learn(first + 1)
    return Latency(imported - begin, constructed - imported, env.after(first).wall - constructed)


def measure_environment(steps: int) -> Rate:
    """Steps per second of the environment alone, with random actions."""
    env = gym.make(ENVIRONMENT)
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
    """Measure what the arguments say and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("quantity", choices=get_args(Quantity))
    parser.add_argument("--contender", choices=[contender.name for contender in CONTENDERS])
    parser.add_argument("--core", type=int, required=True)
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0)
    given = parser.parse_args()
    pin(given.core)
    if given.quantity == "environment":
        found: Rate | Latency = measure_environment(given.steps)
    else:
        contender = next(contender for contender in CONTENDERS if contender.name == given.contender)
        if given.quantity == "rate":
            found = measure_rate(contender, given.warmup, given.steps)
        else:
            found = measure_latency(contender)
    print(json.dumps(dataclasses.asdict(found)))


if __name__ == "__main__":
    main()
