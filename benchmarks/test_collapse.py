"""The record of a run in an infinite space, and its figure."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from adaqn.base.errors import UserError
from adaqn.runs.config import RunConfig, read_config
from benchmarks import collapse
from benchmarks.collapse import PRESET, Returns, play, save_figure, train
from benchmarks.collapse_figure import OBSERVATION, draw, read_observation
from benchmarks.collapse_table import agreement, rows, table
from tests.analysis.study_files import write_run


def test_short_episodes_are_cut_and_discounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collapse, "HORIZON", 3)
    values = lambda observations: np.tile([5.0, 1.0, 2.0, 7.0], (len(observations), 1))  # noqa: E731
    plain, discounted = play(values, [1, 2], gamma=1.0), play(values, [1, 2], gamma=0.0)
    assert plain.length == 3.0 and plain.promised == 7.0
    assert plain.discounted == pytest.approx(plain.mean)
    assert abs(discounted.discounted) < abs(discounted.mean)  # only the first of three rewards
    assert isinstance(plain, Returns)


def run_of_three(path: Path) -> Path:
    return write_run(path, "adadqn", "LunarLander-v3", 0, [10.0, -50.0, -200.0, -240.0], space="vectors", generations=2)


def test_the_figure_shows_what_a_run_recorded(tmp_path: Path) -> None:
    run = run_of_three(tmp_path)
    assert len(draw(run, epoch=100).axes) == 3  # nobody observed it
    played = {"mean": 5.0, "length": 10.0, "discounted": 4.0, "promised": 300.0}
    lines = [
        {"step": 200, "target": 1, "largest_q": 9.0, "played": [played] * 3},
        {"step": 250, "target": 0, "largest_q": 8.0},
    ]
    (run / OBSERVATION).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_observation(run) == lines
    returns, losses, actions, values = draw(run, epoch=100).axes
    assert np.asarray(returns.lines[0].get_ydata()).tolist() == [10.0, -50.0, -200.0, -240.0]
    # The chosen member has the lowest loss and most of the actions in these files.
    assert set(np.asarray(losses.lines[3].get_ydata()).tolist()) == {1.0}
    assert np.asarray(actions.lines[0].get_ydata()).min() == pytest.approx(18 / 50)
    assert [np.asarray(line.get_ydata()).tolist() for line in values.lines[:3]] == [[9.0, 8.0], [300.0], [4.0]]
    save_figure(run, tmp_path / "collapse.png")
    assert (tmp_path / "collapse.png").read_bytes().startswith(b"\x89PNG")


def line(step: int, target: int, losses: list[float], returns: list[float], acted: list[int]) -> str:
    played = [{"mean": value, "length": 1.0, "discounted": 0.0, "promised": 0.0} for value in returns]
    entry = {"step": step, "target": target, "losses": losses, "acted": acted, "largest_q": 1.0, "played": played}
    return json.dumps(entry | {"members": ["a", "b", "c"]}) + "\n"


def test_the_table_tells_whether_the_chosen_policy_is_a_good_one(tmp_path: Path) -> None:
    run = run_of_three(tmp_path)  # generations at steps 0 and 200
    (run / OBSERVATION).write_text(
        line(100, 0, [1.0, 2.0, 3.0], [30.0, 20.0, 10.0], [5, 3, 2])
        + line(150, 2, [3.0, 2.0, 1.0], [50.0, 20.0, 10.0], [1, 1, 8])
        + line(200, 1, [2.0, 1.0, 2.0], [-10.0, -10.0, -10.0], [0, 10, 0])
    )
    first, second = rows(run)
    # Both epochs of 100 steps: mean returns 10 and -50. The chosen member took half and four fifths of the actions.
    assert first.training_return == pytest.approx(-20.0) and first.target_share == pytest.approx(0.65)
    assert (first.of_target, first.of_best) == (20.0, 40.0)
    assert first.agreement == pytest.approx(0.0)  # 1 at the first look, -1 at the second
    assert second == (200, -220.0, 4, "b", 1.0, -10.0, -10.0, 0.0)  # equal returns say nothing
    assert table(run).splitlines()[2].startswith("| 0 | -20 | 4 | a | 65% | 20 | 40 | 0.00 |")
    generations = (run / "members.jsonl").read_text().splitlines()
    at_end = json.dumps(json.loads(generations[-1]) | {"step": 400})
    (run / "members.jsonl").write_text("\n".join([*generations, at_end]) + "\n")
    with (run / OBSERVATION).open("a") as file:
        file.write(line(400, 2, [2.0, 1.0, 2.0], [9.0, 9.0, 9.0], [0, 10, 0]))
    assert rows(run) == [first, second]  # members that came at the end of the run have no row, nor a part in another


def test_episodes_that_the_time_limit_cuts_off_are_not_counted_as_ended(tmp_path: Path) -> None:
    run = run_of_three(tmp_path)
    (run / "episodes.csv").write_text("step,return,length\n50,1.0,50\n150,1.0,1000\n180,1.0,999\n")
    (run / OBSERVATION).write_text(line(100, 0, [1.0, 2.0, 3.0], [30.0, 20.0, 10.0], [5, 3, 2]))
    (first,) = rows(run)
    assert first.landed_or_crashed == 2


def test_rank_correlation_with_ties() -> None:
    # Ranks of the negated losses 2.5, 1, 2.5 (two are lowest), of the returns 3, 1, 2: 1.5 / sqrt(1.5 * 2).
    entry = json.loads(line(1, 0, [1.0, 9.0, 1.0], [5.0, 1.0, 3.0], [1, 1, 1]))
    assert agreement(entry) == pytest.approx(1.5 / np.sqrt(3.0))


def test_a_run_without_target_updates_cannot_be_drawn(tmp_path: Path) -> None:
    run = run_of_three(tmp_path)
    header = (run / "selection.csv").read_text().splitlines()[0]
    (run / "selection.csv").write_text(header + "\n")
    with pytest.raises(UserError, match="has no target update yet"):
        draw(run)


@pytest.mark.thorough
def test_observing_a_run_does_not_change_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from adaqn.model.model import Model

    monkeypatch.setattr(collapse, "HORIZON", 5)
    train(0, 1_400, 200, tmp_path / "observed")
    values = read_config(PRESET) | {"seed": 0, "steps": 1_400}
    Model.from_config(RunConfig.from_dict(values)).learn(1_400, run_dir=tmp_path / "alone")
    for name in ("episodes.csv", "selection.csv", "members.jsonl"):
        assert (tmp_path / "observed" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    lines = read_observation(tmp_path / "observed")
    assert [line["step"] for line in lines] == [1_200, 1_400]
    assert all(len(line["played"]) == 5 and line["largest_q"] > 0.0 for line in lines)
