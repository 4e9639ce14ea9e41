"""What a study shows while it runs."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from adaqn.studies.directory import RunState
from adaqn.studies.display import StudyDisplay, duration
from adaqn.studies.execution import Failure, Progress
from adaqn.studies.study import RunKey
from tests.studies.tiny import TINY, tiny

STUDY = tiny(seeds=4)
A, B, C, D = (RunKey("adadqn", "CartPole-v1", seed) for seed in range(4))
OTHER = RunKey("dqn-8", "CartPole-v1", 0)
STATES = {
    A: RunState("finished", 400, 40.0),  # a tenth of a second for each step
    B: RunState("running", 300, 30.0),
    C: RunState("running", 100, 10.0),
    D: RunState("failed", 0, 0.0, "no memory"),
}


def display(terminal: bool, pace: dict[str, float] | None = None) -> StudyDisplay:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)
    return StudyDisplay(STUDY, STUDY.runs(), pace or {}, console)


def shown(study_display: StudyDisplay) -> str:
    file = study_display._console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def progress(states: dict[RunKey, RunState], given_up: tuple[RunKey, ...] = ()) -> Progress:
    failures = [Failure(key, "no memory", Path("log"), 1) for key in given_up]
    return Progress(states, frozenset(), failures)


def test_the_time_left_follows_from_the_pace_so_far() -> None:
    # 100 and 300 steps are left of those that run, and 400 of the failed one, 80 s of work for two at a time.
    assert display(True).time_left(progress(STATES)) == pytest.approx(40.0)
    # Without the failed one it is 40 s of work, but the longest alone takes 30.
    assert display(True).time_left(progress(STATES, (D,))) == pytest.approx(30.0)


def test_an_arm_that_has_not_begun_has_the_calibrated_pace_or_that_of_the_others() -> None:
    states = {A: STATES[A], OTHER: RunState("missing")}
    assert display(True, {"dqn-8": 0.5}).time_left(progress(states)) == pytest.approx(200.0)
    assert display(True).time_left(progress(states)) == pytest.approx(40.0)
    assert display(True).time_left(progress({OTHER: RunState("missing")})) is None
    assert display(True).time_left(progress({A: STATES[A]})) == 0.0


def test_runs_of_this_execution_set_the_pace_not_slow_ones_before_it() -> None:
    slow = RunState("finished", 400, 4000.0)
    table = display(False)
    table.show(progress({A: slow, B: RunState("missing"), C: RunState("missing")}))
    # Nothing else is known yet: 800 steps at 10 s each, one after the other.
    assert table.time_left(progress({A: slow, B: RunState("missing"), C: RunState("missing")})) == pytest.approx(8000.0)
    states = {A: slow, B: RunState("finished", 400, 40.0), C: RunState("missing")}
    assert table.time_left(progress(states)) == pytest.approx(40.0)


def test_a_terminal_gets_a_table_of_the_arms() -> None:
    with display(True) as table:
        table.show(progress({**STATES, OTHER: RunState("missing")}))
        lines = [" ".join(line.replace("│", " ").split()) for line in shown(table).splitlines()]
    (row,) = [line for line in lines if line.startswith("adadqn")]
    assert row.endswith("50 % 1/4 2 1")  # 800 of 1600 steps; 1 of 4 is finished, 2 are running, 1 has failed
    (row,) = [line for line in lines if line.startswith("all")]
    assert row.endswith("40 % 1/5 2 1")
    assert lines[-2:] == ["1 min left", "Ctrl-C stops, and the same command goes on"]


def test_what_stays_on_the_screen_does_not_offer_to_stop() -> None:
    with display(True) as table:
        table.show(progress(STATES))
    last = shown(table).rpartition("study tiny")[2]
    assert "40 s left" in last and "Ctrl-C" not in last
    with display(True) as table:
        table.show(progress({A: STATES[A]}))
    assert "left" not in shown(table).rpartition("study tiny")[2]


def test_a_low_terminal_shows_the_arms_that_are_busy_and_sums_up_the_others() -> None:
    study = tiny(config={**TINY["config"], "grid": {"hidden": [[width] for width in range(8, 28)]}})
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=14, color_system=None)
    states = {key: RunState("missing") for key in study.runs() if key.seed == 0}
    busy = {9: RunState("finished", 400, 10.0), 20: RunState("running", 100, 10.0), 25: RunState("failed", 100, 10.0)}
    states |= {RunKey(f"dqn-{width}", "CartPole-v1", 0): state for width, state in busy.items()}
    with StudyDisplay(study, list(states), {}, console) as low:
        low.show(progress(states))
        lines = [" ".join(line.replace("│", " ").split()) for line in shown(low).splitlines()]
        assert len(lines) <= 14
        words = [line.split(" ")[0] for line in lines[4:]]
        assert words[:4] == ["adadqn", "dqn-20", "dqn-25", "18"] and "18 other arms" in lines[7]
        assert lines[7].endswith("1/18") and any(line.startswith("all") and line.endswith("1/21 1 1") for line in lines)
    final = shown(low).rpartition("study tiny")[2]
    assert "dqn-27" in final and "other arms" not in final  # what stays can be scrolled


def test_elsewhere_every_change_is_a_line() -> None:
    with display(False) as lines:
        lines.show(progress({A: RunState("running", 100, 10.0), D: RunState("missing")}))
        lines.show(progress({A: RunState("running", 200, 20.0), D: RunState("running")}))
        lines.show(progress({A: STATES[A], D: RunState("running")}))
        lines.show(progress({A: STATES[A], D: STATES[D]}, (D,)))
    assert shown(lines).splitlines() == [
        "0 of 2 runs are finished",
        "finished adadqn/CartPole-v1/0: 1 of 2 runs, 40 s left",
        "failed adadqn/CartPole-v1/3 (no memory): 1 of 2 runs, 0 s left",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "an unknown time"), (12, "12 s"), (600, "10 min"), (5 * 3600, "5 h 00 min"), (10**6 * 3600, "1,000,000 h")],
)
def test_times_are_for_people(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text
