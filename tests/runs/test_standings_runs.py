"""Shares and returns of members from a run directory equal the agent's own, also if members are replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adaqn import AdaDQN, AdaSAC, grid
from adaqn.api import Model
from adaqn.runs.display.standings import selected_shares
from adaqn.runs.reading import read_run
from tests.agents.trials.cases import TINY

SPACE = TINY.to_dict() | {"learning_rate": [1e-4, 1e-1]}


def sac(**given: Any) -> Model:
    settings: dict[str, Any] = {
        "learning_starts": 37, "batch_size": 4, "buffer_size": 100, "actor_hidden": "4", "selection_interval": 30,
        "gradient_steps": 2, "train_freq": 4,
    }  # fmt: skip
    return AdaSAC("Pendulum-v1", seed=3, **settings | given)


def critics() -> Model:
    return sac(members=grid(hidden=[(4,)], learning_rate=[1e-3, 3e-3, 1e-2]))


def evolving_critics() -> Model:
    return sac(space=SPACE, population=4, generation_interval=40)


def evolving_members() -> Model:
    settings: dict[str, Any] = {
        "population": 4, "generation_interval": 20, "target_update_interval": 10, "learning_starts": 15,
        "batch_size": 4, "buffer_size": 100,
    }  # fmt: skip
    return AdaDQN("CartPole-v1", space=SPACE, seed=2, **settings)


@pytest.mark.parametrize("make", [critics, evolving_critics, evolving_members])
def test_the_shares_in_the_files_are_those_of_the_agent(make: Any, tmp_path: Path) -> None:
    model = make()
    model.learn(150, run_dir=tmp_path / "run")
    shares = [member.selected for member in model.members]
    np.testing.assert_allclose(selected_shares(read_run(tmp_path / "run")), shares, atol=1e-6)
    # The same without the summary, as during a run: the last row is that of its last step.
    (tmp_path / "run" / "summary.json").unlink()
    np.testing.assert_allclose(selected_shares(read_run(tmp_path / "run")), shares, atol=1e-6)
    assert len(set(shares)) > 1


def test_at_a_step_without_a_row_the_summary_knows_more(tmp_path: Path) -> None:
    model = critics()
    model.learn(160, run_dir=tmp_path / "run")
    shares = [member.selected for member in model.members]
    np.testing.assert_allclose(selected_shares(read_run(tmp_path / "run")), shares, atol=1e-6)
    assert sum(shares) == pytest.approx(2.0)
