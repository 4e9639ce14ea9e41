"""Changing a number compiles nothing, neither in another agent nor during a run."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from adaqn.networks.xla.compilation import compile_seconds
from tests.agents.contract.cases import STEPS, Case, every
from tests.agents.contract.runs import observations


def use(case: Case, seed: int, rate: float, discount: float) -> float:
    """Train and use an agent with these numbers; returns the seconds spent on compilation."""
    before = compile_seconds()
    members = tuple(m.replace(learning_rate=rate / (1 + k)) for k, m in enumerate(case.members(discount=discount)))
    if case.entry.copies is not None:
        members = members[:1]
    # One loss and one head, because members with others have other programs.
    changes = {"learning_rate": [rate / 10, rate], "loss": ["l2"], "fixed": {"discount": discount}}
    space = case.space({**changes, **({"head": "categorical"} if case.categorical else {})})
    model = case.model(members=members or None, space=space, seed=seed).learn(STEPS)
    model.predict(observations(), deterministic=True)
    model.predict(observations())
    assert model.members
    return compile_seconds() - before


@pytest.mark.parametrize("case", every())
def test_other_learning_rates_and_discounts_compile_nothing(case: Case) -> None:
    use(case, 0, 1e-3, 0.9)
    assert use(case, 1, 2e-3, 0.7) == 0.0
    before = compile_seconds()
    jax.jit(lambda x: x + 1.0)(np.ones(1, np.float32))
    assert compile_seconds() > before, "this would not have shown"
