"""A diverged member is never the target, never acts and is reported once; if all diverge, the run or trial ends."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adaqn.agents.protocol import Event, Generation, TargetUpdate
from adaqn.base.errors import ActorDiverged, AllMembersDiverged
from adaqn.members.hyperparameters import Hyperparameters
from tests.agents.contract.cases import ACTIVATION, STEPS, WIDTHS, Case, every
from tests.agents.contract.runs import Diary, observations

# A learning rate: the first updates make parameters so huge that logits overflow; no other program is needed for it.
WILD = 1e38


def members_with(case: Case, wild: Sequence[int]) -> tuple[Hyperparameters, ...]:
    """Members of which these have a learning rate that makes them diverge."""
    like = Hyperparameters(hidden=WIDTHS[:1], activation=ACTIVATION, learning_rate=1e-3)
    sound = case.members() or (like,) * case.size
    return tuple(m.replace(learning_rate=WILD) if k in wild else m for k, m in enumerate(sound))


def model_of(case: Case, wild: Sequence[int], **given: Any) -> Any:
    space = case.space({"learning_rate": [1e-3, WILD]})
    return case.model(members=members_with(case, wild), space=space, seed=0, **given)


def require_shunned(events: Sequence[Event], size: int) -> list[int]:
    """Check that diverged members are not used until they are replaced; returns all that were reported, in order."""
    dead: set[int] = set()
    reported: list[int] = []
    for event in events:
        if isinstance(event, TargetUpdate):
            assert not dead & set(event.newly_diverged), "it was reported before"
            assert all(event.acted[k] == 0 for k in dead), "a diverged member acted"
            dead |= set(event.newly_diverged)
            reported += event.newly_diverged
            assert event.target not in dead
            assert [k for k, loss in enumerate(event.cumulated_loss) if loss == math.inf] == sorted(dead)
            assert all(math.isfinite(event.cumulated_loss[k]) for k in set(range(size)) - dead)
            if event.selected is not None and not event.newly_diverged:
                assert all(event.selected[k] == 0 for k in dead), "a diverged member was in the target"
        if isinstance(event, Generation):
            dead -= {k for k, member in enumerate(event.members) if member.is_new}
    return reported


@pytest.mark.parametrize("wild", [[0], [1, 2]], ids=["one", "all but one"])
@pytest.mark.parametrize("case", [p for p in every() if p.values[0].ensemble])
def test_members_that_diverge_are_left_behind(case: Case, wild: list[int]) -> None:
    model, diary = model_of(case, wild), Diary()
    with pytest.warns(RuntimeWarning, match="diverged and no longer takes part") as warned:
        model.learn(STEPS, diary)
    assert require_shunned(diary.events, case.size) == wild
    # Each of them is reported to the user once, with its hyperparameters.
    for k, warning in zip(wild, warned, strict=True):
        assert f"member {k} diverged" in str(warning.message) and f"'learning_rate': {WILD}" in str(warning.message)
    updates = [event for event in diary.events if isinstance(event, TargetUpdate)]
    assert len(updates) > 1
    # In a space, others take the places of those that diverged.
    report = model.trainer.report()
    if not case.in_space:
        assert [k for k, member in enumerate(report.members) if member.diverged] == wild
        assert all(member.cumulated_loss == math.inf for member in report.members if member.diverged)
        assert report.metrics["ada/diverged"] == len(wild)
    assert all(not report.members[k].diverged for k in report.targets)
    assert all(math.isfinite(member.cumulated_loss) for member in report.members if not member.diverged)
    actions = np.asarray(model.predict(observations(), deterministic=True)[0])
    assert np.isfinite(actions).all()


@pytest.mark.parametrize("case", [p for p in every() if not p.values[0].tries])
def test_if_all_diverge_the_run_ends_with_the_reason(case: Case, tmp_path: Path) -> None:
    model, diary = model_of(case, range(case.size)), Diary()
    with pytest.raises((AllMembersDiverged, ActorDiverged)) as raised:
        model.learn(STEPS, diary, run_dir=tmp_path / "run")
    assert model.trainer.clock.step < STEPS
    require_shunned(diary.events, case.size)
    sentence = str(raised.value)
    assert sentence.count("diverged") == 1 and "learning_rate" in sentence
    if isinstance(raised.value, AllMembersDiverged):
        assert sentence.count(f"'learning_rate': {WILD}") == case.size
    assert not (tmp_path / "run" / "summary.json").exists()
    # Earlier records are kept.
    assert list((tmp_path / "run" / "checkpoint").glob("step-*.zip"))


@pytest.mark.parametrize("case", [p for p in every() if p.values[0].tries])
def test_a_trial_that_diverges_has_failed_and_the_next_one_begins(case: Case, tmp_path: Path) -> None:
    space = case.space({"learning_rate": [WILD / 10, WILD]})
    model = case.model(space=space, seed=0)
    model.learn(STEPS, run_dir=tmp_path / "run")
    assert model.num_timesteps >= STEPS
    trials = [json.loads(line) for line in (tmp_path / "run" / "trials.jsonl").read_text().splitlines()]
    assert len(trials) > 2
    assert [trial["fitness"] for trial in trials] == [None] * len(trials)
    assert all(one["last_step"] == other["first_step"] for one, other in itertools.pairwise(trials))
    # It ends as soon as nothing can be learned, or with its steps.
    assert all(trial["last_step"] - trial["first_step"] <= trial["fidelity"] for trial in trials)
    assert "search/best_return" not in model.trainer.report().metrics
