"""Tests of the comparison of defaults: its schedule, its arithmetic, and one tiny run."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest

import adaqn
from adaqn.agents.registry import algorithm
from benchmarks import defaults
from benchmarks.defaults import (
    SETS,
    TASKS,
    Outcome,
    Run,
    evaluated,
    every_run,
    main,
    mean_ranks,
    read,
    table,
    train,
    write,
)


def outcome(side: str = "widths", seed: int = 0, final: tuple[float, ...] = (1.0, 3.0)) -> Outcome:
    episodes = ((50, -9.0, 50), (90, 7.0, 40), (91, 1.0, 1), (99, 2.0, 8))
    return Outcome("acrobot", side, seed, 100, episodes, final, 90.0)


def test_every_environment_is_run_by_both_sides_with_each_seed() -> None:
    runs = every_run()
    chosen_by = [name for name, task in TASKS.items() if task.chosen_by]
    assert chosen_by == ["mountain-car", "acrobot", "pendulum", "double-pendulum"]
    each_seed = len(TASKS) * 2 + len(chosen_by) * (len(SETS) - 1) + 1
    assert len(set(runs)) == len(runs) == 3 * each_seed
    assert runs[:3] == [Run("mountain-car", side, 0) for side in ("widths", "sb3", "rates")]
    assert {run.seed for run in runs[:each_seed]} == {0}
    assert {run.side for run in runs if run.task == "hopper"} == {"layer-norm", "sb3", "widths"}


@pytest.mark.parametrize("name", SETS)
def test_every_set_has_four_members(name: str) -> None:
    assert len(adaqn.grid(**SETS[name])) == 4


def test_the_defaults_are_the_sets_that_the_page_names() -> None:
    for task in (TASKS["acrobot"], TASKS["hopper"]):
        chosen = algorithm("adasac" if task.continuous else "adadqn")
        assert chosen.members((8,)) == adaqn.grid(**SETS[task.default])


def test_the_last_tenth_of_the_steps_is_averaged() -> None:
    assert outcome().last == 1.5  # the episodes that ended after step 90
    early = Outcome("acrobot", "sb3", 0, 1000, ((50, -9.0, 50), (60, 4.0, 10)), (0.0,), 1.0)
    assert early.last == 4.0  # none ended in the last tenth


def test_the_table_has_the_mean_and_every_seed() -> None:
    runs = [outcome(seed=1, final=(5.0, 7.0)), outcome(), outcome("sb3", final=(-4.0,)), outcome("rates")]
    text = table(runs, {"acrobot": ("widths", "sb3"), "hopper": ("layer-norm", "sb3")})
    assert text.splitlines()[2:] == [
        "| Acrobot-v1 | 100 | choose | widths | 4 (2, 6) | 1.5 (1.5, 1.5) | 1.5 |",
        "| Acrobot-v1 | 100 | choose | sb3 | -4 (-4) | 1.5 (1.5) | 1.5 |",
    ]


def test_ranks_are_averaged_over_what_all_sets_have() -> None:
    finals = {"widths": (3.0, 2.0, 9.0), "rates": (1.0, 4.0, 9.0), "layer-norm": (2.0, 2.0)}
    runs = [outcome(side, seed, (final,)) for side, of in finals.items() for seed, final in enumerate(of)]
    # Ranks 1, 3, 2 with seed 0, and 2, 1, 2 with seed 1, where two are equal; seed 2 lacks a set.
    assert mean_ranks(runs, continuous=False) == {"widths": 1.5, "rates": 2.0, "layer-norm": 2.0}
    assert mean_ranks(runs, continuous=True) == {}


def test_the_page_says_where_another_set_is_better() -> None:
    def on_hopper(side: str, final: float) -> Outcome:
        return Outcome("hopper", side, 0, 100, ((50, 1.0, 50),), (final,), 1.0)

    better = "On Hopper-v5 the set widths did better (3) than layer-norm (2)"
    assert better in defaults.page_text([on_hopper("layer-norm", 2.0), on_hopper("widths", 3.0)])
    assert "did better" not in defaults.page_text([on_hopper("layer-norm", 4.0), on_hopper("widths", 3.0)])


def test_a_run_is_read_as_it_was_written_and_not_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Run("acrobot", "widths", 0).path(tmp_path)
    write(path, outcome())
    assert read(path) == outcome()
    assert [file.name for file in tmp_path.iterdir()] == ["acrobot-widths-0.json"]
    main(["--list", "--tasks", "acrobot", "--seeds", "0", "--results", str(tmp_path)])
    assert capsys.readouterr().out.splitlines() == [
        "acrobot sb3 seed 0: about 1 CPU-minutes",
        "acrobot rates seed 0: about 1 CPU-minutes",
        "acrobot layer-norm seed 0: about 1 CPU-minutes",
        "3 of 4 runs are missing: about 3 CPU-minutes",
    ]
    page = tmp_path / "page.md"
    main(["--page", str(page), "--tasks", "acrobot", "--seeds", "0", "--results", str(tmp_path)])
    assert page.read_text().count("| widths | 2 (2) |") == 2  # beside SB3, and beside the candidates


def test_a_policy_is_evaluated_with_the_same_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "EVALUATION_EPISODES", 3)
    first, again = (evaluated(lambda seen: int(seen[2] > 0), gym.make("CartPole-v1")) for _ in range(2))
    assert first == again
    assert len(set(first)) > 1 and min(first) >= 8.0


@pytest.mark.thorough
def test_a_tiny_run_with_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "EVALUATION_EPISODES", 1)
    made = train(Run("mountain-car", "widths", 0), 1001)  # one update
    assert made.episodes == tuple((step, -200.0, 200) for step in range(200, 1001, 200))
    assert made.evaluation == (-200.0,)
    assert made.cpu_seconds > 0.0
