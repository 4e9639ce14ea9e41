"""Runs `adaqn` in this process and kills it with SIGKILL at a chosen point: `killed_run.py POINT NUMBER -- ARGUMENTS`.

POINT is `step` (after environment step NUMBER), `update` (just before update NUMBER), `interrupt` (at update NUMBER,
with SIGTERM, after which the run still makes a checkpoint), `generation` (in the midst of the NUMBER-th one), `border`
(when all observers have been told of the NUMBER-th generation, or end or start of a trial), `compiling` (while the
update of a member is compiled for the NUMBER-th time), `any-compiling` (while the NUMBER-th program is), `caching` (the
NUMBER-th program is compiled, but not yet in its place in the cache), `fsync` or `replace` (just before that call of
`os` is made for the NUMBER-th time), `writing` (the NUMBER-th checkpoint is written beside, but not yet safe on the
disk) or `renaming` (it is, but not yet in its place).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at_call(name: str, number: int, prefix: str = "") -> None:
    """Kill at the NUMBER-th call for a file whose name, without the dot of one written beside, begins so."""
    original = getattr(os, name)
    calls = 0

    def counted(first: Any, *others: Any, **keywords: Any) -> Any:
        nonlocal calls
        path = Path(os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else first)
        calls += path.name.removeprefix(".").startswith(prefix)
        if calls == number:
            kill()
        return original(first, *others, **keywords)

    setattr(os, name, counted)


def kill_at_step(number: int) -> None:
    from adaqn.training.trainer import Trainer

    original = Trainer._step

    def step(self: Trainer, *arguments: object) -> None:
        original(self, *arguments)  # type: ignore[arg-type]
        if self.clock.step >= number:
            kill()

    Trainer._step = step  # type: ignore[method-assign, assignment]


def kill_at_update(number: int, with_signal: int = signal.SIGKILL) -> None:
    from adaqn.training.trainer import Trainer

    original = Trainer._update

    def update(self: Trainer, operation: Any, updates: int, *others: Any) -> Any:
        if self.updates + updates >= number:
            os.kill(os.getpid(), with_signal)
        return original(self, operation, updates, *others)

    Trainer._update = update  # type: ignore[method-assign, assignment]


def kill_at_generation(number: int) -> None:
    """Kill when the children of the NUMBER-th generation of this process are known and the target is renewed."""
    from adaqn.agents.base import EnsembleAgent

    original = EnsembleAgent.replace_members
    calls = 0

    def replace_members(self: EnsembleAgent, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            kill()
        return original(self, *arguments)

    EnsembleAgent.replace_members = replace_members  # type: ignore[method-assign, assignment]


def kill_at_border(number: int) -> None:
    from adaqn.agents.protocol import Generation, TrialEnd, TrialStart
    from adaqn.training.trainer import Trainer

    original = Trainer._tell
    calls = 0

    def tell(self: Trainer, events: Any, observers: Any) -> None:
        nonlocal calls
        for event in events:
            original(self, (event,), observers)
            calls += isinstance(event, Generation | TrialEnd | TrialStart)
            if calls == number:
                kill()

    Trainer._tell = tell  # type: ignore[method-assign]


def kill_at_compilation(number: int, program: str | None = "jit(learn_alone)") -> None:
    """Kill when the program has been written for the compiler, and before it is compiled."""
    import jax

    calls = 0

    def note(event: str, duration_secs: float, **kwargs: Any) -> None:
        nonlocal calls
        del duration_secs
        written = event == "/jax/core/compile/jaxpr_to_mlir_module_duration"
        calls += written and program in (None, kwargs.get("fun_name"))
        if calls == number:
            kill()

    jax.monitoring.register_event_duration_secs_listener(note)


if __name__ == "__main__":
    point, number, _, *arguments = sys.argv[1:]
    if point == "step":
        kill_at_step(int(number))
    elif point == "update":
        kill_at_update(int(number))
    elif point == "interrupt":
        kill_at_update(int(number), signal.SIGTERM)
    elif point == "generation":
        kill_at_generation(int(number))
    elif point == "border":
        kill_at_border(int(number))
    elif point == "compiling":
        kill_at_compilation(int(number))
    elif point == "any-compiling":
        kill_at_compilation(int(number), program=None)
    elif point == "caching":
        kill_at_call("replace", int(number), "jit_")
    elif point in ("writing", "renaming"):
        kill_at_call({"writing": "fsync", "renaming": "replace"}[point], int(number), "step-")
    else:
        kill_at_call(point, int(number))
    from adaqn.cli import main

    sys.exit(main(arguments))
