"""Console output of a search: its notes, every trial, the member of the current trial, and the best one."""

from __future__ import annotations

import io

from rich.console import Console

from adaqn.agents.protocol import Clock, Generation, TargetUpdate, TrialEnd
from adaqn.agents.registry import Traits
from adaqn.members.evolution import Descendant
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.display.console import ConsoleReporter, Memory
from tests.fakes import fake_run

FIRST, SECOND = Hyperparameters(hidden=(25,)), Hyperparameters(hidden=(50, 50))


def test_a_search_on_the_console() -> None:
    console = Console(file=io.StringIO(), width=100, highlight=False, color_system=None)
    traits = Traits(tables=("trials",), measures_policy=True)
    trainer = fake_run(1, [FIRST], interval=None, diverged=(), traits=traits)
    reporter = ConsoleReporter(
        algorithm="dehb",
        steps=1_000,
        gamma=0.99,
        memory=Memory(1_000, 100),
        notes=["A round of 2 brackets:", "  bracket 0: 2 x 50 steps"],
        conclusion=lambda: ["Best trial: 3"],
        console=console,
        timer=lambda: trainer.clock.step / 100,
    )
    reporter.on_start(trainer)
    for step in (400, 500):
        trainer.clock = Clock(step, step, 1_000)
        reporter.on_step(trainer)
        if step == 400:
            reporter.on_event(trainer, TargetUpdate(400, 0, (1.0,), (5,), (0,)))
            reporter.on_event(trainer, TrialEnd(0, FIRST, 400, 0, 400, None, {}))
            reporter.on_event(trainer, Generation(400, 1, (Descendant(SECOND, None, None),)))
    reporter.on_event(trainer, TargetUpdate(500, 0, (1.0,), (5,), (0,)))
    reporter.on_event(trainer, TrialEnd(1, SECOND, 100, 400, 500, 1_234.56, {}))
    reporter.on_finish(trainer)
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    notes = lines.index("A round of 2 brackets:")
    assert lines[notes + 1] == "  bracket 0: 2 x 50 steps"
    assert notes < next(index for index, line in enumerate(lines) if "learning rate" in line)
    assert "step 400: trial 0 failed" in lines and "step 500: trial 1 finished with a mean return of 1,234.6" in lines
    assert any(line.startswith("step 400 of 1,000") and line.endswith("target 0: 25") for line in lines)
    assert any(line.startswith("step 500 of 1,000") and line.endswith("target 0: 50x50") for line in lines)
    # The next trial has a different member, though at the same index.
    diverged = [line for line in lines if "diverged" in line]
    assert [line.split(" diverged")[0] for line in diverged] == [
        "step 400: member 0 (25)",
        "step 500: member 0 (50x50)",
    ]
    assert lines.index("Best trial: 3") > lines.index("step 500: trial 1 finished with a mean return of 1,234.6")
