"""Uninterrupted reference runs of the contract suite, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from adaqn.agents import dqn
from tests.agents.contract.cases import Case
from tests.agents.contract.runs import WholeRun, whole_run

Whole = Callable[[Case], WholeRun]


@pytest.fixture(scope="module", autouse=True)
def few_updates_at_once() -> Iterator[None]:
    """At most two updates in one call, so that small runs can also be interrupted between two calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dqn, "UPDATES_AT_ONCE", 2)
        yield


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The uninterrupted run of a case."""

    @cache
    def of(case: Case) -> WholeRun:
        return whole_run(case, tmp_path_factory.mktemp("whole") / "run", seed=0)

    return of
