"""Runs `adaqn` in this process and kills it with SIGKILL at a chosen point: `killed_run.py POINT NUMBER -- ARGUMENTS`.

POINT is `step` (after environment step NUMBER), `update` (just before the NUMBER-th update), `replace` (just before
the NUMBER-th rename of a file that was written beside) or `fsync` (in the middle of writing, at the NUMBER-th fsync).
"""

from __future__ import annotations

import os
import signal
import sys


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at_call(name: str, number: int) -> None:
    original = getattr(os, name)
    calls = 0

    def counted(*arguments: object, **keywords: object) -> object:
        nonlocal calls
        calls += 1
        if calls == number:
            kill()
        return original(*arguments, **keywords)

    setattr(os, name, counted)


def kill_at_step(number: int) -> None:
    from adaqn.training.trainer import Trainer

    original = Trainer._step

    def step(self: Trainer, *arguments: object) -> None:
        original(self, *arguments)  # type: ignore[arg-type]
        if self.clock.step >= number:
            kill()

    Trainer._step = step  # type: ignore[method-assign, assignment]


def kill_at_update(number: int) -> None:
    from adaqn.training.trainer import Trainer

    original = Trainer._batch

    def batch(self: Trainer) -> object:
        if self.updates + 1 >= number:
            kill()
        return original(self)

    Trainer._batch = batch  # type: ignore[method-assign]


if __name__ == "__main__":
    point, number, _, *arguments = sys.argv[1:]
    if point == "step":
        kill_at_step(int(number))
    elif point == "update":
        kill_at_update(int(number))
    else:
        kill_at_call(point, int(number))
    from adaqn.cli import main

    sys.exit(main(arguments))
