"""The contract is for every algorithm there is, also for those that other packages register."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adaqn.agents.registry import algorithm, algorithm_names
from adaqn.base.plugins import forget_plugins
from tests.agents.contract.cases import STEPS, Case, cases, variants

THEIRS = """
import dataclasses
from adaqn.agents.registry import algorithm, algorithm_names

WALKER = dataclasses.replace(algorithm(algorithm_names()[0]))
"""


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of an algorithm that a package of somebody else has registered."""
    (tmp_path / "their_walker.py").write_text(THEIRS)
    about = tmp_path / "somebodys_walker-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys-walker\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[adaqn.algorithms]\nwalker = their_walker:WALKER\n")
    monkeypatch.syspath_prepend(tmp_path)
    forget_plugins()
    yield "walker"
    monkeypatch.undo()
    sys.modules.pop("their_walker", None)
    forget_plugins()


def test_every_algorithm_is_a_case() -> None:
    assert [case.name for case in cases()] == algorithm_names()
    assert {case.continuous for case in cases()} == {True, False}
    in_a_space = {case.name for case in variants() if case.moves}
    assert in_a_space == {name for name in algorithm_names() if algorithm(name).space == "optional"}
    searches = [case for case in variants() if case.base is not None]
    assert searches and all(case.entry.base == case.base != algorithm(case.name).base for case in searches)


def test_an_algorithm_of_another_package_is_a_case(other_package: str) -> None:
    case = Case(other_package)
    assert case in cases.__wrapped__()
    assert case.model(seed=0).learn(STEPS).trainer.updates > 10
