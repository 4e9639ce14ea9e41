"""Who survives in an infinite space, on files whose numbers are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adaqn.base.errors import UserError
from adaqn.runs.reading import read_run
from benchmarks.lineages import KEPT, Fate, fates, founders, page
from tests.analysis.study_files import write_run


def member(parent: int | None, mutation: str | None) -> dict[str, Any]:
    return {"hidden": [8, 8], "parent": parent, "mutation": mutation}


def evolved(study: Path, arm: str = "tournament", seed: int = 0) -> Path:
    """Three members and two generations: first member 1 has two children, then a child of it has all places."""
    run = write_run(study, arm, "LunarLander-v3", seed, [1.0, 2.0, 3.0], space="vectors")
    lines = [
        [member(None, None), member(None, None), member(None, None)],
        [member(1, "loss"), member(1, None), member(2, None)],
        [member(0, None), member(0, "activation"), member(0, "loss")],
    ]
    steps = (0, 100, 200)
    (run / "members.jsonl").write_text(
        "".join(
            json.dumps({"step": step, "generation": number, "members": members}) + "\n"
            for number, (step, members) in enumerate(zip(steps, lines, strict=True))
        )
    )
    rows = ["step,target,loss_0,loss_1,loss_2,acted_0,acted_1,acted_2", "50,0,9,9,9,1,1,1"]
    rows += ["100,1,6,2,3,1,1,1", "200,0,4,8,inf,1,1,1", "300,0,1,1,1,1,1,1"]
    (run / "selection.csv").write_text("\n".join(rows) + "\n")
    return run


def test_founders_are_counted_through_all_generations(tmp_path: Path) -> None:
    assert founders(read_run(evolved(tmp_path))) == [2, 1]


def test_a_member_is_judged_at_the_next_generation(tmp_path: Path) -> None:
    assert fates(read_run(evolved(tmp_path))) == [
        Fate(KEPT, False, 3.0),
        Fate(KEPT, True, 1.0),
        Fate(KEPT, True, 1.5),
        Fate("loss", True, 1.0),
        Fate(KEPT, False, 2.0),
        Fate(KEPT, False, float("inf")),
    ]


def test_the_page_has_a_table_for_each_arm(tmp_path: Path) -> None:
    evolved(tmp_path, seed=0)
    evolved(tmp_path, seed=3)
    text = "\n".join(page(tmp_path))
    assert "**tournament**, founders with descendants after each generation: seed 0: 2, 1; seed 3: 2, 1." in text
    assert "| loss | 2 | 100% | 1.00 |" in text
    assert f"| {KEPT} | 10 | 40% | 2.00 |" in text


def test_a_study_of_fixed_members_has_no_lineages(tmp_path: Path) -> None:
    write_run(tmp_path, "adadqn", "LunarLander-v3", 0, [1.0, 2.0])
    with pytest.raises(UserError, match="no finished run in an infinite space"):
        page(tmp_path)
