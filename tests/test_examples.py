"""The scripts in examples/ run from start to end."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.thorough
def test_theory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["theory.py", "--mdps", "3", "-o", str(tmp_path / "theory.png")])
    runpy.run_path(str(EXAMPLES / "theory.py"), run_name="__main__")
    assert (tmp_path / "theory.png").read_bytes().startswith(b"\x89PNG")
    rows = [line.rsplit(maxsplit=2) for line in capsys.readouterr().out.splitlines() if not line.startswith("figure")]
    loss = {name.strip(): float(value) for name, _, value in rows[1:]}
    assert loss["AdaQN"] < 0.2 < 1.0 < loss["RandQN"] < loss["AdaQN-max"]
