"""The contract of all searchers: pure transitions, one pending trial, a state that survives JSON at any point."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaqn.base.errors import CheckpointError
from adaqn.members.search import DEHB, RandomSearch, Searcher, Trial

SEARCHERS: list[Searcher[Any]] = [
    RandomSearch(dimensions=2, fidelity=10),
    DEHB(dimensions=2, min_fidelity=1, max_fidelity=9),
    DEHB(dimensions=1, min_fidelity=5, max_fidelity=20, eta=2),
    DEHB(dimensions=3, min_fidelity=20, max_fidelity=40),
]
every_searcher = pytest.mark.parametrize("searcher", SEARCHERS, ids=repr)
FAILED = [float("inf"), float("-inf"), float("nan")]


def through_json(searcher: Searcher[Any], state: Any) -> Any:
    return searcher.from_dict(json.loads(json.dumps(searcher.to_dict(state), allow_nan=False)))


def plain(trial: Trial) -> tuple[Any, ...]:
    return (*trial._replace(u=np.empty(0))[2:], trial.number, *trial.u.tolist())


def continued(searcher: Searcher[Any], state: Any, rng: np.random.Generator, fitnesses: list[float]) -> list[object]:
    """The following trials, and the state after them; a pending one is told first."""
    trials: list[object] = []
    for fitness in fitnesses:
        trial = searcher.pending(state)
        if trial is None:
            state, trial = searcher.ask(state, rng)
        trials.append(plain(trial))
        state = searcher.tell(state, trial, fitness)
    return [*trials, searcher.to_dict(state)]


@settings(max_examples=100, deadline=None)
@given(
    searcher=st.sampled_from(SEARCHERS),
    before=st.lists(st.floats(-3, 3) | st.sampled_from(FAILED), max_size=60),
    after=st.lists(st.floats(-3, 3) | st.sampled_from(FAILED), min_size=1, max_size=30),
    pending=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_search_goes_on_identically_after_json(
    searcher: Searcher[Any], before: list[float], after: list[float], pending: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    state = searcher.init()
    for fitness in before:
        state, trial = searcher.ask(state, rng)
        state = searcher.tell(state, trial, fitness)
    if pending:
        state, _ = searcher.ask(state, rng)
    position = rng.bit_generator.state
    restored_rng = np.random.default_rng()
    restored_rng.bit_generator.state = position
    restored = through_json(searcher, state)
    assert (searcher.pending(restored) is not None) == pending
    expected = continued(searcher, state, rng, after)
    assert continued(searcher, restored, restored_rng, after) == expected


@every_searcher
def test_vectors_stay_in_the_unit_cube(searcher: Searcher[Any]) -> None:
    rng = np.random.default_rng(0)
    state = searcher.init()
    for number in range(200):
        state, trial = searcher.ask(state, rng)
        assert trial.number == number
        assert trial.u.dtype == np.float64
        assert ((trial.u >= 0.0) & (trial.u <= 1.0)).all()
        state = searcher.tell(state, trial, float(-np.abs(trial.u - 0.5).sum()))  # the best lie at the borders


@every_searcher
def test_transitions_leave_the_old_state_as_it_is(searcher: Searcher[Any]) -> None:
    rng = np.random.default_rng(0)
    state = searcher.init()
    for _ in range(30):
        before = json.dumps(searcher.to_dict(state))
        asked, trial = searcher.ask(state, rng)
        assert json.dumps(searcher.to_dict(state)) == before
        before = json.dumps(searcher.to_dict(asked))
        state = searcher.tell(asked, trial, float(trial.u[0]))
        assert json.dumps(searcher.to_dict(asked)) == before
        with pytest.raises(ValueError, match="read-only"):
            trial.u[0] = 0.5


@every_searcher
def test_one_trial_is_pending_at_most(searcher: Searcher[Any]) -> None:
    rng = np.random.default_rng(0)
    state, trial = searcher.ask(searcher.init(), rng)
    with pytest.raises(ValueError, match="trial 0 is pending"):
        searcher.ask(state, rng)
    with pytest.raises(ValueError, match="was called for trial 7, but trial 0 is pending"):
        searcher.tell(state, trial._replace(number=7), 0.0)
    told = searcher.tell(state, trial, 0.0)
    assert searcher.pending(told) is None
    with pytest.raises(ValueError, match="was called for trial 0, but none is pending"):
        searcher.tell(told, trial, 0.0)


@every_searcher
def test_a_search_with_failures_only_goes_on(searcher: Searcher[Any]) -> None:
    rng = np.random.default_rng(0)
    state, vectors = searcher.init(), set()
    for number in range(60):
        state, trial = searcher.ask(state, rng)
        state = searcher.tell(state, trial, FAILED[number % 3])
        vectors.add(tuple(trial.u))
    assert len(vectors) == 60  # no failed configuration is tried again


@every_searcher
def test_a_saved_search_of_another_kind_or_size_is_refused(searcher: Searcher[Any]) -> None:
    state, _ = searcher.ask(searcher.init(), np.random.default_rng(0))
    saved = searcher.to_dict(state)
    with pytest.raises(CheckpointError, match="must have"):
        searcher.from_dict({name: saved[name] for name in saved if name != "asked"})
    with pytest.raises(CheckpointError, match="numbers between 0 and 1"):
        searcher.from_dict(saved | {"pending": saved["pending"] | {"u": [0.5] * 9}})
    with pytest.raises(CheckpointError, match="a trial must have"):
        searcher.from_dict(saved | {"pending": {"number": 0}})
    with pytest.raises(CheckpointError, match="the origin of a trial"):
        searcher.from_dict(saved | {"pending": saved["pending"] | {"origin": "elsewhere"}})
