"""Damaged agents, policies and checkpoints: each is loaded or refused in one sentence."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaqn.api import Model
from adaqn.base.snapshot import Snapshot, read_snapshot, write_snapshot
from adaqn.exported_policy import ExportedPolicy
from tests.fuzz.harness import WRONG, command, damaged_bytes, exhaustive, fingerprint, outcome, paths_in, replaced

pytestmark = pytest.mark.thorough
OBSERVATION = np.zeros(4, np.float32)


@cache
def content(path: Path, kind: str) -> Snapshot:
    return read_snapshot(path, kind)


def loaded_and_used(path: Path) -> None:
    model = Model.load(path)
    model.predict(np.zeros(model.observation_space.shape or (), np.float32), deterministic=True)
    assert model.num_timesteps >= 0
    model.save(path.with_name("again.zip"))


@exhaustive(110)
@given(data=st.data())
def test_an_agent_with_wrong_metadata(data: st.DataObject, agent_file: Path, tmp_path: Path) -> None:
    arrays, meta = content(agent_file, "agent")
    path = data.draw(st.sampled_from(sorted(paths_in(meta), key=repr)))
    new = data.draw(st.sampled_from(WRONG))
    write_snapshot(tmp_path / "agent.zip", Snapshot(arrays, replaced(meta, path, new)), "agent")
    outcome(lambda: loaded_and_used(tmp_path / "agent.zip"))


@exhaustive(40)
@given(data=st.data())
def test_an_agent_with_continuous_actions_and_wrong_metadata(
    data: st.DataObject, sac_file: Path, tmp_path: Path
) -> None:
    arrays, meta = content(sac_file, "agent")
    places = [path for path in paths_in(meta) if path[0] in ("agent", "spaces", "clock") or "settings" in path]
    path = data.draw(st.sampled_from(sorted(places, key=repr)))
    new = data.draw(st.sampled_from(WRONG))
    write_snapshot(tmp_path / "agent.zip", Snapshot(arrays, replaced(meta, path, new)), "agent")
    outcome(lambda: loaded_and_used(tmp_path / "agent.zip"))


@exhaustive(40)
@given(data=st.data())
def test_an_agent_with_wrong_arrays(data: st.DataObject, agent_file: Path, tmp_path: Path) -> None:
    arrays, meta = content(agent_file, "agent")
    name = data.draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    changes: dict[str, Callable[[], Any]] = {
        "missing": lambda: None,
        "nan": lambda: np.full(array.shape, np.nan, array.dtype) if array.dtype.kind == "f" else None,
        "huge": lambda: np.full(array.shape, 3e38, array.dtype) if array.dtype.kind == "f" else None,
        "negative": lambda: -np.ones_like(array) if array.dtype.kind != "b" else None,
        "far": lambda: np.full_like(array, 10**6) if array.dtype.kind in "iu" else None,
        "doubled": lambda: np.concatenate([array, array]) if array.ndim else None,
        "double": lambda: array.astype(np.float64),
        "text": lambda: array.astype("U4"),
        "flat": lambda: array.reshape(-1, 1),
        "empty": lambda: np.zeros(0, array.dtype),
    }
    new = changes[data.draw(st.sampled_from(sorted(changes)))]()
    others = {each: value for each, value in arrays.items() if each != name}
    write_snapshot(tmp_path / "agent.zip", Snapshot(others if new is None else others | {name: new}, meta), "agent")
    outcome(lambda: loaded_and_used(tmp_path / "agent.zip"))


@exhaustive(60)
@given(data=st.data())
def test_a_damaged_agent(data: st.DataObject, agent_file: Path, tmp_path: Path) -> None:
    (tmp_path / "agent.zip").write_bytes(data.draw(damaged_bytes(agent_file.read_bytes())))
    outcome(lambda: loaded_and_used(tmp_path / "agent.zip"))


@exhaustive(30)
@given(data=st.data())
def test_an_index_that_is_wrong(data: st.DataObject, agent_file: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(agent_file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    head = json.loads(entries.pop("meta.json"))
    places = [path for path in paths_in(head) if path[0] != "meta" or len(path) == 1]
    path = data.draw(st.sampled_from(sorted(places, key=repr)))
    head = replaced(head, path, data.draw(st.sampled_from(WRONG)))
    with zipfile.ZipFile(tmp_path / "agent.zip", "w") as archive:
        for name, content in {**entries, "meta.json": json.dumps(head).encode()}.items():
            archive.writestr(name, content)
    outcome(lambda: loaded_and_used(tmp_path / "agent.zip"))


def used_policy(path: Path) -> None:
    policy = ExportedPolicy.load(path)
    assert policy.observation_shape == (4,), "no other shape fits these weights"
    assert policy(OBSERVATION) - policy.meta["action"]["start"] in (0, 1)


@exhaustive(80)
@given(data=st.data())
def test_a_policy_with_a_wrong_description(data: st.DataObject, policy_file: Path, tmp_path: Path) -> None:
    with np.load(policy_file) as file:
        arrays = {name: file[name] for name in file.files}
    meta = json.loads(arrays.pop("meta").item())
    places = [path for path in paths_in(meta) if path[0] != "hyperparameters"]
    path = data.draw(st.sampled_from(sorted(places, key=repr)))
    meta = replaced(meta, path, data.draw(st.sampled_from(WRONG)))
    np.savez(tmp_path / "policy.npz", meta=np.array(json.dumps(meta)), **arrays)
    outcome(lambda: used_policy(tmp_path / "policy.npz"), mistake=ValueError)


@exhaustive(80)
@given(data=st.data())
def test_a_damaged_policy(data: st.DataObject, policy_file: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.npz").write_bytes(data.draw(damaged_bytes(policy_file.read_bytes())))
    outcome(lambda: used_policy(tmp_path / "policy.npz"), mistake=ValueError)


@exhaustive(60)
@given(data=st.data())
def test_a_checkpoint_with_wrong_metadata(data: st.DataObject, fresh_run: Callable[[], Path]) -> None:
    run = fresh_run()
    newest = sorted((run / "checkpoint").glob("step-*.zip"))[-1]
    arrays, meta = read_snapshot(newest, "checkpoint")
    places = [path for path in paths_in(meta) if "config" not in path and "platform" not in path]
    path = data.draw(st.sampled_from(sorted(places, key=repr)))
    write_snapshot(newest, Snapshot(arrays, replaced(meta, path, data.draw(st.sampled_from(WRONG)))), "checkpoint")
    before = fingerprint(run)
    looked_at = outcome(lambda: Model.from_run(run).predict(OBSERVATION))
    assert fingerprint(run) == before, "looking changes nothing"
    resumed = outcome(lambda: Model.resume(run))
    if resumed is not None:
        assert fingerprint(run) == before, f"{path}: a refused resume changes nothing ({resumed}, {looked_at})"


@exhaustive(50)
@given(data=st.data())
def test_damaged_checkpoints_and_segments(
    data: st.DataObject, fresh_run: Callable[[], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = fresh_run()
    files = sorted((run / "checkpoint").rglob("*.zip"))
    for file in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=len(files), unique=True)):
        file.write_bytes(data.draw(damaged_bytes(file.read_bytes())))
    before = fingerprint(run)
    if outcome(lambda: Model.resume(run)) is not None:
        assert fingerprint(run) == before
        assert command(["resume", str(run), "--quiet"], capsys) is not None
        assert fingerprint(run) == before
