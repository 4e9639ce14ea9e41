"""A trained agent acts the same after saving and loading, and so does its exported policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from adaqn.api import Model
from adaqn.exported_policy import ExportedPolicy
from tests.agents.contract.cases import Case, every
from tests.agents.contract.runs import WholeRun, observations

Whole = Callable[[Case], WholeRun]


@pytest.mark.parametrize("case", every())
def test_a_loaded_agent_is_the_one_that_was_saved(case: Case, whole: Whole, tmp_path: Path) -> None:
    trained = whole(case).model
    file = trained.save(tmp_path / "agent")
    # Both draw what is random in their predictions from generators that begin alike.
    first, second = Model.load(file), Model.load(file)
    assert first.algo == case.name and first.num_timesteps == trained.num_timesteps
    assert first.members == trained.members
    seen = observations()
    greedy, _ = trained.predict(seen, deterministic=True)
    np.testing.assert_array_equal(first.predict(seen, deterministic=True)[0], greedy)
    # One observation alone is another program than a batch of them, and may differ in the last bit.
    np.testing.assert_allclose(first.predict(seen[3], deterministic=True)[0], greedy[3], rtol=1e-6, atol=1e-6)
    exploring = [first.predict(seen)[0] for _ in range(4)]
    for actions in exploring:
        np.testing.assert_array_equal(second.predict(seen)[0], actions)
    assert all(trained.action_space.contains(action) for actions in exploring for action in actions)
    arrays, again = (model.trainer.agent.to_arrays(model.trainer.state)[0] for model in (trained, first))
    assert {n: a.tobytes() for n, a in arrays.items()} == {n: a.tobytes() for n, a in again.items()}


@pytest.mark.parametrize("case", every())
def test_training_changed_the_policy_and_goes_on_after_loading(case: Case, whole: Whole, tmp_path: Path) -> None:
    trained = whole(case).model
    loaded = Model.load(trained.save(tmp_path / "agent"))
    updates, step = loaded.trainer.updates, loaded.num_timesteps
    loaded.learn(60, reset_num_timesteps=False)
    assert loaded.num_timesteps >= step + 60
    assert loaded.trainer.updates > updates
    assert loaded.trainer.report().members


@pytest.mark.parametrize("case", every())
def test_an_exported_policy_acts_as_the_agent_does(case: Case, whole: Whole, tmp_path: Path) -> None:
    trained = whole(case).model
    policy = ExportedPolicy.load(trained.export(tmp_path / "policy"))
    seen = observations()
    actions, _ = trained.predict(seen, deterministic=True)
    np.testing.assert_allclose(policy(seen), actions, rtol=1e-5, atol=1e-5)
    assert policy(seen).dtype == actions.dtype
