"""Files of an earlier layout of the code load and resume as they did when it wrote them.

`old_files` has three runs that were interrupted at step 200 of 300, with their saved agents and exported policies, and
in `expected` what the same code made of them when it resumed the runs. To add to it: run the older commit.
"""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from adaqn.exported_policy import ExportedPolicy
from adaqn.model import Model
from adaqn.runs.directory import RunDirectory

OLD = Path(__file__).with_name("old_files")
RUNS = ["adadqn", "adadqn-space", "adasac"]


def table(text: str) -> tuple[str, np.ndarray]:
    """The header and the numbers of a CSV file."""
    header, *rows = text.splitlines()
    return header, np.array([[float(cell or "nan") for cell in row.split(",")] for row in rows])


@pytest.mark.parametrize("name", RUNS)
def test_a_run_resumes_as_the_code_that_began_it_would_have(name: str, tmp_path: Path) -> None:
    run = tmp_path / name
    shutil.copytree(OLD / name, run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other versions and other processors are said to change the last digits
        Model.resume(run)
    assert RunDirectory.open(run).summary.exists()
    for file in ("episodes.csv", "selection.csv"):
        expected, before = OLD / "expected" / name / file, (OLD / name / file).read_text()
        assert (run / file).read_text().startswith(before)
        header, numbers = table((run / file).read_text())
        old_header, old_numbers = table(expected.read_text())
        assert header == old_header
        np.testing.assert_allclose(numbers, old_numbers, rtol=1e-3)
    members = [json.loads(line) for line in (run / "members.jsonl").read_text().splitlines()]
    old_members = [json.loads(line) for line in (OLD / "expected" / name / "members.jsonl").read_text().splitlines()]
    assert members == old_members


@pytest.mark.parametrize("name", RUNS)
def test_saved_agents_and_policies_act_as_before(name: str) -> None:
    expected = json.loads((OLD / "expected" / "actions.json").read_text())[name]
    observations = np.array(expected["observations"], np.float32)
    actions, _ = Model.load(OLD / f"{name}-agent.zip").predict(observations, deterministic=True)
    np.testing.assert_allclose(actions, expected["actions"], rtol=1e-4, atol=1e-6)
    exported = ExportedPolicy.load(OLD / f"{name}-policy.npz")(observations)
    np.testing.assert_allclose(exported, expected["actions"], rtol=1e-4, atol=1e-6)
