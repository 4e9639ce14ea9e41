"""The table of a study."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from adaqn.analysis import summarize
from adaqn.analysis.summary import Estimate, rounded, summary_table, write_summary
from tests.analysis.study_files import THREE, write_run, write_study


def test_the_summary_has_what_the_runs_say(tmp_path: Path) -> None:
    root = tmp_path / "s"
    for seed, level in ((0, 10.0), (1, 20.0)):
        write_run(root, "adadqn", "CartPole-v1", seed, [level, level + 10.0], seconds=(30.0, 90.0)[seed])
        write_run(root, "dqn-a", "CartPole-v1", seed, [level - 4.0] * 3, algo="dqn", members=THREE[:1])
    found = summarize(root, epoch=100)
    assert (found.main, found.steps, found.epoch, found.score) == ("adadqn", 200, 100, "return")
    main, single = found.rows
    assert (main.runs, main.final.value, main.auc.value) == (2, 25.0, 20.0)
    assert (main.worst_auc, main.worst_final) == (15.0, 20.0)
    assert main.final.low == 20.0 and main.final.high == 30.0  # two runs: both drawn twice at the extremes
    assert main.seconds_per_run == 60.0
    assert main.auc_behind_main is None and main.main_improves is None
    # Over the 200 steps that both have.
    assert (single.auc.value, single.steps_per_run) == (11.0, 300)
    assert single.auc_behind_main is not None and single.auc_behind_main.value == 9.0
    # Areas 15 and 25 against 6 and 16: 15 > 6, 25 > 6, 25 > 16.
    assert single.main_improves is not None and single.main_improves.value == 0.75


def test_the_time_of_a_run_is_the_median(tmp_path: Path) -> None:
    for seed, seconds in enumerate([30.0, 90.0, 1e6]):  # the machine slept during the last one
        write_run(tmp_path / "s", "adadqn", "CartPole-v1", seed, [0.0], seconds=seconds)
    (row,) = summarize(tmp_path / "s").rows
    assert row.seconds_per_run == 90.0


def test_a_narrow_terminal_keeps_the_words_of_labels_whole(tmp_path: Path) -> None:
    root = write_study(tmp_path / "s", ("CartPole-v1", "Acrobot-v1"), seeds=(0, 1))
    for width in (80, 120):
        console = Console(file=io.StringIO(), width=width, record=True)
        console.print(summary_table(summarize(root), width))
        text = console.export_text()
        words = {word for line in text.splitlines() for word in line.split()}
        assert {"AdaDQN", "RandDQN", "DQN", "64x64", "Grid", "search", "Random"} <= words
        assert "…" not in text and all(len(line.rstrip()) <= width for line in text.splitlines())
        assert ("min." in words) == (width == 120)


def test_grid_search_is_compared_at_equal_samples(tmp_path: Path) -> None:
    root = tmp_path / "s"
    write_run(root, "adadqn", "CartPole-v1", 0, [8.0] * 4)
    for member, level in zip(THREE, (1.0, 2.0, 3.0), strict=True):
        label = "x".join(map(str, member.hidden))
        write_run(root, f"dqn-{label}", "CartPole-v1", 0, [level, 2 * level, 60.0, 60.0], algo="dqn", members=[member])
    found = {row.series: row for row in summarize(root, epoch=100).rows}
    # In 400 steps, three runs of grid search have taken 133 each: all of the first epoch and a third of the second.
    assert found["grid search"].auc.value == pytest.approx((3.0 + 6.0 / 3) / (4 / 3))
    # One seed is its own worst: the part of the second epoch counts for it, too.
    assert found["grid search"].worst_auc == pytest.approx(found["grid search"].auc.value)
    assert found["grid search"].worst_final == found["grid search"].final.value == 3.0
    assert found["grid search"].steps_per_run == 1200
    behind = found["grid search"].auc_behind_main
    assert behind is not None and behind.value == pytest.approx(8.0 - 3.75)
    assert found["random search"].auc.value == pytest.approx((2.0 + 4.0 + 60.0 + 60.0) / 4, abs=0.1)


def test_the_files_have_the_same_numbers(tmp_path: Path) -> None:
    found = summarize(write_study(tmp_path / "s", seeds=(0, 1)))
    write_summary(found, tmp_path / "out" / "summary.json", tmp_path / "out" / "summary.csv")
    values = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert values["rows"][0]["auc"]["value"] == found.rows[0].auc.value
    assert values["confidence"] == 0.95 and values["left_out"] == []
    rows = list(csv.DictReader((tmp_path / "out" / "summary.csv").read_text().splitlines()))
    assert [row["series"] for row in rows] == [row.series for row in found.rows]
    assert float(rows[1]["auc_behind_main_low"]) == found.rows[1].auc_behind_main.low  # type: ignore[union-attr]
    assert rows[0]["auc_behind_main"] == ""


def test_numbers_are_rounded_for_readers() -> None:
    assert [rounded(value) for value in (1234.5, 99.96, 56.78, 9.996, 1.234, 0.12345, -0.0001)] == [
        "1,234", "100", "56.8", "10.0", "1.23", "0.123", "0.000",
    ]  # fmt: skip
    assert str(Estimate(12.34, -1.0, 130.0)) == "12.3 [-1.00, 130]"


def test_finished_trials_are_counted(tmp_path: Path) -> None:
    for seed, trials in ((0, [{"number": 0}, {"number": 1}]), (1, [{"number": 0}])):
        write_run(tmp_path / "s", "dehb", "CartPole-v1", seed, [1.0] * 3, algo="dehb", space="vectors", trials=trials)
    (row,) = summarize(tmp_path / "s").rows
    assert row.trials_per_run == 1.5 and row.kind == "search"
