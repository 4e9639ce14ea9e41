"""Runs found below a path, and their episodes as one table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adaqn
from adaqn.analysis.loading import COLUMNS, find_runs
from adaqn.base.errors import UserError
from tests.analysis.study_files import write_run


def test_the_table_has_a_row_for_each_episode(tmp_path: Path) -> None:
    write_run(tmp_path / "one", "adadqn", "CartPole-v1", 3, [10.0, 20.0])
    write_run(tmp_path / "two", "dqn", "Atari-Pong", 0, [5.0], env="Atari/Pong", finished=False)
    table: Any = adaqn.load_runs(tmp_path)
    assert list(table.columns) == list(COLUMNS)
    assert table[table.study == "one"].to_numpy().tolist() == [
        ["one", "adadqn", "CartPole-v1", 3, 50, 9.0 + 2.0, 50],
        ["one", "adadqn", "CartPole-v1", 3, 100, 9.0, 50],
        ["one", "adadqn", "CartPole-v1", 3, 150, 21.0, 50],
        ["one", "adadqn", "CartPole-v1", 3, 200, 19.0, 50],
    ]
    assert set(table[table.study == "two"].environment) == {"Atari/Pong"}  # as it is known, not as it is on disk
    assert table.groupby("study")["return"].mean().to_dict() == {"one": 15.0, "two": 5.0}


def test_without_pandas_the_columns_are_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "one", "adadqn", "CartPole-v1", 3, [10.0])
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = adaqn.load_runs(tmp_path)
    assert isinstance(table, dict) and tuple(table) == COLUMNS
    assert table["return"].tolist() == [11.0, 9.0]
    assert table["seed"].dtype == np.int64 and table["arm"].tolist() == ["adadqn", "adadqn"]


def test_a_single_run_is_found_by_its_own_directory(tmp_path: Path) -> None:
    inner = write_run(tmp_path / "one", "adadqn", "CartPole-v1", 3, [10.0])
    alone = inner.rename(tmp_path / "lander")
    (run,) = find_runs(alone)
    assert (run.arm, run.environment, run.seed) == ("lander", "CartPole-v1", 3)


def test_labels_of_environments_that_are_not_ids_are_kept(tmp_path: Path) -> None:
    write_run(tmp_path / "one", "adadqn", "windy", 0, [10.0], env="LunarLander-v3")
    assert [run.environment for run in find_runs(tmp_path)] == ["windy"]


def test_links_are_followed_once(tmp_path: Path) -> None:
    write_run(tmp_path / "one", "adadqn", "CartPole-v1", 0, [10.0])
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "adadqn").symlink_to(tmp_path / "one" / "adadqn")
    (tmp_path / "study" / "loop").symlink_to(tmp_path / "study")
    (run,) = find_runs(tmp_path / "study")
    assert (run.study, run.arm) == ("study", "adadqn")


def test_paths_without_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no directory"):
        adaqn.load_runs(tmp_path / "nothing")
    with pytest.raises(UserError, match="there are no runs in"):
        adaqn.load_runs(tmp_path)


def test_time_comes_from_progress_or_passes_evenly(tmp_path: Path) -> None:
    write_run(tmp_path / "s", "a", "CartPole-v1", 0, [1.0] * 10, seconds=80.0)
    write_run(tmp_path / "s", "b", "CartPole-v1", 0, [1.0] * 10, progress=True)
    write_run(tmp_path / "s", "c", "CartPole-v1", 0, [1.0] * 10, seconds=None)
    even, logged, unknown = find_runs(tmp_path)
    assert even.clock is not None and logged.clock is not None
    assert np.interp([250.0, 1000.0], *even.clock).tolist() == [20.0, 80.0]
    assert np.interp([250.0, 1000.0], *logged.clock).tolist() == [
        5.0,
        40.0,
    ]  # 10 s in the first half, 30 s in the second
    assert unknown.clock is None
