"""The scripts and the notebook in examples/ run from start to end."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import matplotlib
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


@pytest.mark.thorough
def test_theory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run("theory.py", monkeypatch, "--mdps", "3", "-o", str(tmp_path / "theory.png"))
    assert (tmp_path / "theory.png").read_bytes().startswith(b"\x89PNG")
    rows = [line.rsplit(maxsplit=2) for line in capsys.readouterr().out.splitlines() if not line.startswith("figure")]
    loss = {name.strip(): float(value) for name, _, value in rows[1:]}
    assert loss["AdaQN"] < 0.2 < 1.0 < loss["RandQN"] < loss["AdaQN-max"]


@pytest.mark.thorough
def test_own_environment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run("own_environment.py", monkeypatch, "--steps", "3000")
    first, *members = capsys.readouterr().out.splitlines()
    before, after = (float(value) for value in re.findall(r"-\d+\.\d", first))
    assert after > before + 5.0
    shares = [int(share) for line in members for share in re.findall(r"selected (\d+)%", line)]
    assert len(shares) == 4 and 98 <= sum(shares) <= 102


@pytest.mark.thorough
def test_search_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run("search_space.py", monkeypatch, "--steps", "2500", "--run-dir", str(tmp_path / "run"))
    first, *line = capsys.readouterr().out.splitlines()
    assert first.startswith("2 generations; the target is in slot ")
    assert line and line[0].startswith("step      0 as it was")


@pytest.mark.thorough
def test_the_notebook_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    notebook = json.loads((EXAMPLES / "first_run.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in notebook["cells"] if cell["cell_type"] == "code")
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        source = cell.replace("STEPS = 8_000", "STEPS = 1_000")  # the only change: a shorter training
        exec(compile(source, f"cell {number}", "exec"), names)
    assert names["STEPS"] == 1_000 and names["losses"].shape[0] == 4
    printed = capsys.readouterr().out
    assert len(re.findall(r"selected +\d+%", printed)) == 4
    assert re.search(r"mean return \d+ ± \d+ over 10 episodes\nruns/cartpole_policy.npz", printed)
