"""The operations that `flops` counts beside those that XLA finds in the compiled update.

    python -m benchmarks.xla_flops

XLA also counts elementwise work (activations, optimizers, Polyak averages), which `flops` leaves out.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator
from typing import Any

from benchmarks.contenders import build
from benchmarks.isolation import ONE_THREAD, cores, pin
from benchmarks.profile_step import update_flops
from benchmarks.tasks import TASKS, Task

COMPARED = ("lunar-lander", "half-cheetah", "pong")  # DQN, SAC and DQN with convolutions


class _Counted:
    """A jitted function that adds its operations to a list when it is first called."""

    def __init__(self, program: Any, found: list[float]) -> None:
        self.program, self.found, self.called = program, found, False

    def __call__(self, *values: Any, **named: Any) -> Any:
        if not self.called:
            self.called = True
            cost = self.program.lower(*values, **named).compile().cost_analysis() or {}
            self.found.append(float(cost.get("flops", 0.0)))
        return self.program(*values, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.program, name)


@contextlib.contextmanager
def counted_by_xla() -> Iterator[list[float]]:
    """The operations of each program that is made and called in the block, in the order of their first calls."""
    import jax

    found: list[float] = []
    make = jax.jit

    def jit(*arguments: Any, **options: Any) -> Any:
        return _Counted(make(*arguments, **options), found)

    jax.jit = jit
    try:
        yield found
    finally:
        jax.jit = make


def counts(task: Task) -> tuple[float, float]:
    """Operations of an update without choices among members, counted from its layers and by XLA."""
    contender = task.contender(f"adaqn-k{task.base}")
    settings = dataclasses.replace(task.settings, learning_starts=100)
    with tempfile.TemporaryDirectory() as elsewhere, contextlib.chdir(elsewhere):  # MuJoCo writes a log file
        env = task.make()
    with counted_by_xla() as found:
        model: Any = build(contender, lambda: env, settings, 200, seed=0)
        model.learn(110)
    return update_flops(settings, contender, env), max(found)


def main() -> None:
    """Print a row of Markdown for each task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=COMPARED)
    given = parser.parse_args()
    pin(cores()[-1])
    os.environ.update(ONE_THREAD)  # before JAX is imported: with several threads an update is several programs
    print("| task | MFLOP of an update, from its layers | by XLA | ratio |\n|---|---|---|---|")
    for name in given.tasks:
        layers, xla = counts(TASKS[name])
        print(f"| {name} | {layers / 1e6:.1f} | {xla / 1e6:.1f} | {xla / layers:.2f} |", flush=True)


if __name__ == "__main__":
    main()
