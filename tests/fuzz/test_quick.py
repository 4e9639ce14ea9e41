"""A few damaged files in every run of the tests; the other files here have many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaqn import AdaSAC
from adaqn.api import Model
from adaqn.base.snapshot import Snapshot, read_snapshot, write_snapshot
from adaqn.exported_policy import ExportedPolicy
from tests.fuzz.harness import WRONG, damaged_bytes, exhaustive, outcome, paths_in, replaced, within


@exhaustive(12)
@given(data=st.data())
def test_an_agent_with_something_wrong_in_it(data: st.DataObject, sac_file: Path, tmp_path: Path) -> None:
    arrays, meta = read_snapshot(sac_file, "agent")
    path = data.draw(st.sampled_from(sorted(paths_in(meta), key=repr)))
    write_snapshot(
        tmp_path / "a.zip", Snapshot(arrays, replaced(meta, path, data.draw(st.sampled_from(WRONG)))), "agent"
    )
    outcome(lambda: Model.load(tmp_path / "a.zip").predict(np.zeros(3)))


@exhaustive(20)
@given(data=st.data())
def test_damaged_agents_and_policies(data: st.DataObject, sac_file: Path, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(data.draw(damaged_bytes(sac_file.read_bytes())))
    outcome(lambda: Model.load(tmp_path / "a.zip").predict(np.zeros(3)))
    policy = sac_file.with_name("policy.npz")
    if not policy.exists():
        AdaSAC.load(sac_file).export(policy)
    (tmp_path / "p.npz").write_bytes(data.draw(damaged_bytes(policy.read_bytes())))
    outcome(lambda: ExportedPolicy.load(tmp_path / "p.npz")(np.zeros(3)), mistake=ValueError)


def test_the_harness_itself_fails_for_a_traceback_a_hang_and_two_lines() -> None:
    def raises(error: Exception) -> None:
        raise error

    assert outcome(lambda: None) is None
    assert outcome(lambda: raises(ValueError("told")), mistake=ValueError) == "told"
    with pytest.raises(KeyError):
        outcome(lambda: raises(KeyError("x")))
    with pytest.raises(AssertionError):
        outcome(lambda: raises(ValueError("two\nlines")), mistake=ValueError)
    with pytest.raises(AssertionError, match="still busy"), within(0.05):
        while True:
            pass
