"""`make demo` is the first thing that a new user runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from adaqn.cli import demo


def test_the_demo_trains_evaluates_the_best_model_and_plots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "STEPS", 1_200)
    monkeypatch.setattr(demo, "EVERY", 600)
    monkeypatch.setattr(demo, "EPISODES", 2)
    assert demo.main() == 0
    printed = capsys.readouterr().out
    assert "$ adaqn evaluate runs/demo-1 --best --episodes 2" in printed
    assert "over 2 episodes" in printed
    assert (tmp_path / "runs/demo-1/picture.png").stat().st_size > 10_000
    evaluated = (tmp_path / "runs/demo-1/evaluations.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in evaluated] == ["600"] * 10 + ["1200"] * 10


def test_the_demo_ends_with_the_status_of_the_command_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "STEPS", 0)
    assert demo.main() != 0
    assert "$ adaqn evaluate" not in capsys.readouterr().out
