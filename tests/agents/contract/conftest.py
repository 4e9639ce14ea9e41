"""Uninterrupted reference runs of the contract suite, each computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.agents.contract.cases import Case
from tests.agents.contract.runs import WholeRun, whole_run

Whole = Callable[[Case], WholeRun]


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The uninterrupted run of a case."""

    @cache
    def of(case: Case) -> WholeRun:
        return whole_run(case, tmp_path_factory.mktemp("whole") / "run", seed=0)

    return of
