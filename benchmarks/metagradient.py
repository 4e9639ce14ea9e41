"""Time per step of meta-gradient DQN beside that of AdaDQN with five discounts: `python -m benchmarks.metagradient`.

Both have the same network and the settings of a task of `throughput`. They are measured in turn, each in a process of
its own on one core, so that a change of the machine's speed affects both. The paper found the meta-gradient 4 % slower.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from statistics import median
from typing import Any

import gymnasium as gym

from benchmarks.contenders import DQNSettings, Learner
from benchmarks.isolation import cores, pin, run_module
from benchmarks.stopwatch import Stopwatch
from benchmarks.tasks import LUNAR_LANDER, PONG, Task

HIDDEN = {LUNAR_LANDER.name: (200, 200), PONG.name: (512,)}
TASKS = {task.name: task for task in (LUNAR_LANDER, PONG)}
DISCOUNTS = (0.985, 0.9875, 0.99, 0.9925, 0.995)
METHODS = ("adadqn", "metagradient")


def build(method: str, env: gym.Env[Any, Any], task: Task) -> Learner:
    """AdaDQN with five discounts, or meta-gradient DQN, with the network and the settings of the task."""
    import adaqn

    assert isinstance(task.settings, DQNSettings)
    shared = dataclasses.asdict(task.settings)
    del shared["max_grad_norm"]
    member = adaqn.Hyperparameters(
        hidden=HIDDEN[task.name],
        learning_rate=shared.pop("learning_rate"),
        loss=shared.pop("loss"),
        convolutions=tuple(adaqn.Convolution(*layer) for layer in shared.pop("convolutions")),
        padding="valid",
    )
    if method == "metagradient":
        return adaqn.MetaGradientDQN(env, members=[member], seed=0, **shared)
    return adaqn.AdaDQN(env, members=adaqn.grid(member, discount=DISCOUNTS), seed=0, **shared)


def milliseconds_per_step(method: str, task: Task, warmup: int, steps: int) -> float:
    """Measured over `steps` steps, after `warmup` steps during which learning starts."""
    env = task.make()
    watch = Stopwatch(warmup, warmup + steps)
    watch.watch(env)
    build(method, env, task).learn(warmup + steps + 1)
    return 1e3 * (watch.after(warmup + steps).wall - watch.after(warmup).wall) / steps


def main() -> None:
    """Measure both methods in turn, and print the median of each and of the rounds' ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=TASKS, default=LUNAR_LANDER.name)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="timed steps (default: those of the task)")
    parser.add_argument("--core", type=int, default=cores()[-1])
    parser.add_argument("--only", choices=METHODS, help="one measurement in this process, printed as JSON")
    given = parser.parse_args()
    task = TASKS[given.task]
    steps = given.steps or task.steps
    if given.only:
        pin(given.core)
        print(json.dumps(milliseconds_per_step(given.only, task, task.warmup, steps)))
        return
    arguments = ["--task", task.name, "--steps", str(steps), "--core", str(given.core)]
    found: dict[str, list[float]] = {method: [] for method in METHODS}
    for _ in range(given.rounds):
        for method in METHODS:
            lines = run_module("benchmarks.metagradient", [*arguments, "--only", method]).stdout.splitlines()
            found[method].append(json.loads(lines[-1]))
    for method, times in found.items():
        print(f"{method:<14}{median(times):8.3f} ms per step   {' '.join(f'{one:.3f}' for one in times)}")
    ratios = [meta / ada for ada, meta in zip(found["adadqn"], found["metagradient"], strict=True)]
    print(f"meta-gradient DQN takes {median(ratios):.2f} times as long as AdaDQN with {len(DISCOUNTS)} members")


if __name__ == "__main__":
    main()
