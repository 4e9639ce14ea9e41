"""The same seed gives a byte-identical run, also if it is interrupted anywhere and resumed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.agents.contract.cases import Case, every
from tests.agents.contract.runs import WholeRun, interrupted_run, whole_run

Whole = Callable[[Case], WholeRun]


def assert_same(run: WholeRun, expected: WholeRun) -> None:
    """The runs are equal in what they did, what they wrote and their final state."""
    assert run.diary.moments == expected.diary.moments
    assert run.diary.actions == expected.diary.actions
    assert run.diary.events == expected.diary.events
    assert run.files == expected.files
    ours, theirs = run.state, expected.state
    assert [name for name in theirs if ours.get(name) != theirs[name]] == []
    assert ours.keys() == theirs.keys()


@pytest.mark.parametrize("case", every())
def test_the_same_seed_gives_the_same_run(case: Case, whole: Whole, tmp_path: Path) -> None:
    assert_same(whole_run(case, tmp_path / "run", seed=0), whole(case))


@pytest.mark.parametrize("case", every())
def test_there_is_something_to_compare(case: Case, whole: Whole) -> None:
    run = whole(case)
    lines = {name.partition(".")[0]: len(content.splitlines()) for name, content in run.files.items()}
    for table in ("episodes", "selection", *case.entry.traits.tables):
        assert lines[table] > 1, table
    # One line for the members at the start, and one for every generation or trial.
    assert lines["members"] > 2 if case.in_space else lines["members"] == 1
    assert run.model.trainer.updates > 10 and run.diary.in_the_midst()
    replay = run.model.trainer.replay
    assert 0 < replay.oldest < replay.added
    first = case.model(seed=0).trainer
    before, after = (trainer.agent.to_arrays(trainer.state)[0] for trainer in (first, run.model.trainer))
    assert any(
        "parameters" in name and name in after and not np.array_equal(before[name], after[name]) for name in before
    )


@pytest.mark.parametrize("case", every())
def test_another_seed_gives_another_run(case: Case, whole: Whole) -> None:
    expected = whole(case)
    first, again, other = (case.model(seed=seed).trainer for seed in (0, 0, 1))
    arrays, same, different = (t.agent.to_arrays(t.state)[0] for t in (first, again, other))
    assert all(np.array_equal(array, same[name]) for name, array in arrays.items())
    parameters = [name for name, array in arrays.items() if "parameters" in name and array.size > 1]
    assert parameters
    for name in parameters:
        assert name not in different or not np.array_equal(arrays[name], different[name]), name
    actions: list[object] = []
    model = case.model(seed=1)
    model.learn(30, callback=lambda trainer: actions.append(trainer.transitions.action.tolist()))  # pyright: ignore[reportOptionalMemberAccess]
    assert actions != expected.diary.actions[: len(actions)]


def moments_of(run: WholeRun, number: int) -> list[int]:
    """Three random moments in ascending order; at one of them, operations are left pending."""
    draw = random.Random(f"{run.model.algo} {number}")
    moments = {draw.choice(run.diary.in_the_midst())}
    while len(moments) < 3:
        moments.add(draw.randrange(len(run.diary.moments)))
    return sorted(moments)


NUMBERS = [0, 1, *(pytest.param(number, marks=pytest.mark.thorough) for number in range(2, 8))]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("case", every())
def test_interrupted_and_resumed_is_uninterrupted(case: Case, number: int, whole: Whole, tmp_path: Path) -> None:
    expected = whole(case)
    run, left = interrupted_run(case, tmp_path / "run", moments_of(expected, number), seed=0)
    # Two moments may fall into what is done at once, after which the run is left only once.
    assert len(left) >= 1 and any(left)
    assert_same(run, expected)
