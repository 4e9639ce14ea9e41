"""The number of environments changes when operations are due, not which; single-environment algorithms reject it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from adaqn.agents.protocol import Clock, Operation
from adaqn.base.errors import UserError
from tests.agents.contract.cases import N_ENVS, STEPS, Case, every
from tests.agents.contract.runs import WholeRun

Whole = Callable[[Case], WholeRun]
ALONE = [p for p in every() if p.values[0].entry.one_environment]
SIDE_BY_SIDE = [p for p in every() if not p.values[0].entry.one_environment]


@pytest.mark.parametrize("case", ALONE)
def test_one_that_takes_one_environment_refuses_more(case: Case) -> None:
    assert case.model(n_envs=1).trainer.environments.count == 1
    with pytest.raises(UserError, match=r"^this algorithm .*n_envs must be 1, but it is 2$"):
        case.model(n_envs=2)


@pytest.mark.parametrize("n_envs", [0, -1, 1.5, "many", 1025])
@pytest.mark.parametrize("case", every(more=False))
def test_a_wrong_number_is_refused(case: Case, n_envs: object) -> None:
    with pytest.raises(UserError, match=rf"^n_envs must be .*but got {n_envs!r}$"):
        case.model(n_envs=n_envs)


@pytest.mark.parametrize("case", SIDE_BY_SIDE)
def test_each_environment_goes_its_own_way(case: Case, whole: Whole) -> None:
    run = whole(case)
    trainer = run.model.trainer
    assert trainer.environments.count == N_ENVS > 1
    assert trainer.clock.step == STEPS and len(run.diary.actions) == STEPS / N_ENVS
    one, other = ([actions[k] for actions in run.diary.actions] for k in range(2))
    assert one != other


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("case", SIDE_BY_SIDE)
def test_what_is_due_is_due_as_often(case: Case, stride: int) -> None:
    trainer = case.model(seed=0, n_envs=1).trainer
    agent, state = trainer.agent, trainer.state
    steps = range(0, 12, stride)

    def plan(settled: int, step: int, n_envs: int) -> tuple[Operation, ...]:
        return agent.plan(state, Clock(step, settled, STEPS), np.zeros(n_envs, bool))

    at_once = [operation for step in steps for operation in plan(step, step + stride, stride)]
    one_by_one = [operation for step in range(12) for operation in plan(step, step + 1, 1)]
    assert at_once == one_by_one
    assert {operation.needs_batch for operation in at_once} == {True, False}
