"""What a method has cost until it could hand over a policy that solves Lunar Lander: one small JSON file per run."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SOLVED = 200.0  # mean return of a check from which the task counts as solved


@dataclass(frozen=True)
class Check:
    """The policy that a method would hand over at this point, and what it has cost so far, without the checks."""

    samples: int  # environment steps, those of evaluations that decide something included
    cpu_seconds: float  # from the start of the process
    wall_seconds: float
    mean_return: float  # over the episodes of the check, which nothing was chosen by
    training_return: float | None = None  # mean of the last training episodes
    policy: str = ""  # whose policy it is, such as a trial
    confirmed_return: float | None = None  # mean return over further episodes, if the task is solved

    @property
    def succeeds(self) -> bool:
        """Whether the task is solved."""
        return self.mean_return >= SOLVED


@dataclass(frozen=True)
class Costs:
    """Environment steps and time."""

    samples: int = 0
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0

    def plus(self, samples: int, cpu_seconds: float, wall_seconds: float) -> Costs:
        """The sum."""
        return Costs(self.samples + samples, self.cpu_seconds + cpu_seconds, self.wall_seconds + wall_seconds)


@dataclass(frozen=True)
class TuningRecord:
    """One run of a method, with all checks so far."""

    method: str
    seed: int
    cap: int  # samples at which the run ends without success
    checks: tuple[Check, ...] = ()
    spent: Costs = Costs()  # so far, without the checks
    spent_on_checks: Costs = Costs()
    through: bool = False  # a part of a sweep, which goes on after its own success

    @property
    def success(self) -> Check | None:
        """The first check within the cap that solves the task."""
        return next((check for check in self.checks if check.succeeds and check.samples <= self.cap), None)

    @property
    def is_over(self) -> bool:
        """Whether the run has ended: the task was solved, or the cap reached."""
        return (self.success is not None and not self.through) or self.spent.samples >= self.cap


def record_path(out: Path, method: str, seed: int) -> Path:
    """The file of a run."""
    return out / f"{method}-seed{seed}.json"


def read_record(path: Path) -> TuningRecord:
    """Read what `write_record` wrote."""
    data = json.loads(path.read_text())
    checks = tuple(Check(**check) for check in data.pop("checks"))
    return TuningRecord(**data | {name: Costs(**data[name]) for name in ("spent", "spent_on_checks")}, checks=checks)


def write_record(path: Path, record: TuningRecord) -> None:
    """Write the record atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(dataclasses.asdict(record), indent=1) + "\n")
    os.replace(partial, path)


def sweep(parts: Sequence[TuningRecord]) -> TuningRecord:
    """A sweep of several runs in lockstep: it hands over the policy of the run with the best training return so far.

    Samples and times are those of all runs together, for as long as all of them have checks.
    """
    checks = []
    for together in zip(*(part.checks for part in parts), strict=False):
        assert len({check.samples for check in together}) == 1, "runs of a sweep are checked at the same steps"
        chosen = max(range(len(parts)), key=lambda index, together=together: _judged(together[index]))
        checks.append(
            Check(
                samples=sum(check.samples for check in together),
                cpu_seconds=sum(check.cpu_seconds for check in together),
                wall_seconds=sum(check.wall_seconds for check in together),
                mean_return=together[chosen].mean_return,
                training_return=together[chosen].training_return,
                policy=parts[chosen].method,
                confirmed_return=together[chosen].confirmed_return,
            )
        )
        if checks[-1].succeeds:
            break
    spent, spent_on_checks = Costs(), Costs()
    for part in parts:
        spent = spent.plus(*dataclasses.astuple(part.spent))
        spent_on_checks = spent_on_checks.plus(*dataclasses.astuple(part.spent_on_checks))
    cap = sum(part.cap for part in parts)
    return TuningRecord("sweep", parts[0].seed, cap, tuple(checks), spent, spent_on_checks)


def _judged(check: Check) -> float:
    return float("-inf") if check.training_return is None else check.training_return
