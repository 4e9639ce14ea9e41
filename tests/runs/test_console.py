"""The console: what it prints about a run, within the width of the terminal, and without slowing the loop down."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from adaqn.agents.protocol import PolicyEvaluation, TargetUpdate
from adaqn.agents.registry import NO_TRAITS, Traits
from adaqn.members.hyperparameters import Convolution, Hyperparameters, grid
from adaqn.runs.display.console import ConsoleReporter, Memory, bytes_label
from adaqn.runs.display.progress import ProgressLine, duration_label
from adaqn.runs.reading import BestModel
from adaqn.training.observers import Episode
from adaqn.training.trainer import Trainer
from tests.fakes import FakeAgent, fake_run

FOUR = grid(hidden=[(25, 25), (50, 50), (100, 100), (200, 200)])


def make_trainer(
    members: Sequence[Hyperparameters] = FOUR,
    start: int = 0,
    count: int = 1,
    diverged: int = -1,
    targets: tuple[int, ...] = (1,),
    traits: Traits = NO_TRAITS,
) -> Trainer:
    """A run with a target update at step 600, and just before it an episode of return 5 and one of return 10."""
    trainer = fake_run(
        count, members, interval=600, diverged=[diverged], start=start, episodes_at={501: 5.0, 502: 10.0}, traits=traits
    )
    agent = agent_of(trainer)
    agent.targets, agent.acted = targets, (1, 0, 3, 2, *[0] * len(members))[: len(members)]
    return trainer


def agent_of(trainer: Trainer) -> FakeAgent:
    assert isinstance(trainer.agent, FakeAgent)
    return trainer.agent


class Timer:
    """A hundred steps a second."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.trainer.clock.step / 100


def make_console(width: int = 80, terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=terminal, highlight=False, color_system=None)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue()).replace("\r", "\n")


def lines_of(console: Console) -> list[str]:
    return [line.rstrip() for line in text_of(console).split("\n") if line.strip()]


def make_reporter(
    trainer: Trainer, console: Console, run_directory: Path | None = Path("runs/lander")
) -> ConsoleReporter:
    return ConsoleReporter(
        algorithm="adadqn",
        steps=1000,
        gamma=0.99,
        memory=Memory(3_400_000, 210_000),
        run_directory=run_directory,
        best_model=lambda: BestModel(600, 9.0, "training"),
        console=console,
        timer=Timer(trainer),
    )


def update(step: int, target: int, losses: Sequence[float], newly_diverged: tuple[int, ...] = ()) -> TargetUpdate:
    return TargetUpdate(step, target, tuple(losses), (1,) * len(losses), newly_diverged)


def test_the_header_names_the_run_and_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adaqn.runs.display.console.available_cores", lambda: 6)
    console, trainer = make_console(), make_trainer(count=3)
    make_reporter(trainer, console).on_start(trainer)
    lines = lines_of(console)
    facts = {line[:14].strip(): line[14:] for line in lines[:8]}
    assert facts == {
        "algorithm": "adadqn",
        "environment": "FakeEnv (3 in parallel)",
        "observations": "Box (8,) float32",
        "actions": "Discrete 4",
        "seed": "42",
        "steps": "1,000",
        "threads": "1 on 6 cores",
        "memory": "replay 3.4 MB, parameters 210 kB",
    }
    assert lines[8].split() == [
        "member",
        "hidden",
        "activation",
        "optimizer",
        "learning",
        "rate",
        "loss",
        "discount",
    ]
    assert [line.split() for line in lines[10:]] == [
        [str(k), hidden, "relu", "adam", "3e-4", "l2", "0.99"]
        for k, hidden in enumerate(["25x25", "50x50", "100x100", "200x200"])
    ]


def test_members_with_everything_of_their_own_fit_into_80_columns() -> None:
    member = Hyperparameters(
        convolutions=(Convolution(32, 8, 4), Convolution(64, 4, 2)),
        hidden=(512,),
        activation="leaky_relu",
        optimizer="optimistic_gradient_descent",
        optimizer_options=(("eps", 1.5e-4),),
        learning_rate=1.25e-5,
        loss="log_cosh",
        discount=0.995,
    )
    console, trainer = make_console(), make_trainer([member, member])
    make_reporter(trainer, console).on_start(trainer)
    text = text_of(console)
    assert max(map(len, text.split("\n"))) <= 80
    for part in ("32k8s4", "64k4s2", "512", "leaky_relu", "eps=", "1.25e-5", "log_cosh", "0.995"):
        assert part in text, part


def test_the_loss_of_a_categorical_member_is_categorical() -> None:
    members = grid(head=["scalar", "categorical"], value_range=[(-1, 1)])
    console, trainer = make_console(), make_trainer(members)
    make_reporter(trainer, console).on_start(trainer)
    assert [line.split()[5] for line in lines_of(console)[10:]] == ["l2", "categorical"]


def test_of_many_members_the_first_and_last_ten_are_listed() -> None:
    console, trainer = make_console(), make_trainer(grid(hidden=[(n,) for n in range(100, 125)]))
    make_reporter(trainer, console).on_start(trainer)
    rows = [line.split()[:2] for line in lines_of(console)[10:]]
    ten = [[str(k), str(100 + k)] for k in range(25)]
    assert rows == [*ten[:10], ["…", "…"], *ten[15:]]


def test_piped_there_is_a_line_every_twentieth_of_the_way() -> None:
    console, trainer = make_console(), make_trainer()
    trainer.run(1000, [ProgressLine(console=console, timer=Timer(trainer))])
    lines = lines_of(console)
    assert len(lines) == 20
    assert lines[0] == "step 50 of 1,000 (5%)  100 steps/s  return -  left 0:10  target 1: 50x50"
    assert lines[10] == "step 550 of 1,000 (55%)  100 steps/s  return 7.5  left 0:04  target 1: 50x50"
    assert lines[-1].startswith("step 1,000 of 1,000 (100%)")


def test_the_speed_is_that_of_the_last_ten_seconds() -> None:
    trainer = make_trainer()
    now = 0.0
    line = ProgressLine(1000, make_console(), lambda: now)
    line.on_start(trainer)
    for step, now in ((50, 100.0), (100, 101.0), (150, 102.0), (200, 112.0)):  # noqa: B007 (the lambda reads it)
        trainer.clock = trainer.clock._replace(step=step)
        line.on_step(trainer)
    assert line.speed == 50 / 10
    trainer.clock, now = trainer.clock._replace(step=250), 113.0
    line.on_step(trainer)
    assert line.speed == 100 / 11


@pytest.mark.parametrize(("start", "end", "count"), [(0, 7, 7), (900, 1000, 20), (0, 1001, 20)])
def test_plain_lines_of_short_and_continued_runs(start: int, end: int, count: int) -> None:
    console, trainer = make_console(), make_trainer(start=start)
    trainer.run(end, [ProgressLine(end, console, Timer(trainer))])
    lines = lines_of(console)
    assert len(lines) == count
    assert lines[-1].startswith(f"step {end:,} of {end:,} (100%)")


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_the_live_line_fits_the_terminal_and_ends_complete(width: int) -> None:
    long = grid(hidden=[(200, 200, 200), (25, 25, 25)], optimizer=["optimistic_gradient_descent", "adam"])
    console, trainer = make_console(width, terminal=True), make_trainer(long)
    trainer.run(1000, [ProgressLine(console=console, timer=Timer(trainer))])
    lines = lines_of(console)
    assert max(map(len, lines)) <= width
    assert len(lines) == pytest.approx(10 / 0.25, rel=0.2), "about four states a second"
    assert re.match(r"  0% +0 steps/s  return -  left -  ", lines[0])
    assert re.match(r"100% ━* ?100 steps/s  return 7\.5  left 0", lines[-1])
    assert lines[-1].count("━") == {40: 0, 80: 0, 100: 10, 200: 24}[width]
    if width >= 100:
        assert lines[-1].endswith("target 1: 200x200x200 adam")


def test_the_live_line_follows_the_speed_and_looks_at_the_time_seldom() -> None:
    trainer = make_trainer()
    timer = Timer(trainer)
    line = ProgressLine(10_000, make_console(terminal=True), timer)
    trainer.run(10_000, [line])
    assert timer.asked < 10_000 / 100 * 25, "twenty times a second"
    assert timer.asked > 10_000 / 100 * 10


def test_the_target_is_the_one_there_is_now() -> None:
    console, trainer = make_console(), make_trainer()
    line = ProgressLine(console=console, timer=Timer(trainer))
    line.on_start(trainer)
    for step, targets in ((50, (3,)), (100, (2, 0))):
        agent_of(trainer).targets = targets
        trainer.clock = trainer.clock._replace(step=step)
        line.on_step(trainer)
    assert lines_of(console)[0].endswith("target 3: 200x200")
    assert lines_of(console)[1].endswith("targets 2 and 0")


def test_a_collapse_shows_in_the_return_of_the_last_ten_episodes() -> None:
    console, trainer = make_console(), make_trainer()
    trainer.recent_episodes.extend(Episode(n, 100.0 if n < 10 else -20.0, 1) for n in range(20))
    line = ProgressLine(console=console, timer=Timer(trainer))
    line.on_start(trainer)
    trainer.clock = trainer.clock._replace(step=50)
    line.on_step(trainer)
    assert "  return 40.0 (last 10: -20.0)  " in lines_of(console)[0]
    reporter = make_reporter(trainer, console, run_directory=None)
    reporter.on_start(trainer)
    reporter.on_finish(trainer)
    assert "training return: 40.0 over the last 20 episodes, -20.0 over the last 10" in lines_of(console)


def test_an_evaluation_is_told_when_it_is_made() -> None:
    console, trainer = make_console(120), make_trainer()
    reporter = make_reporter(trainer, console)
    reporter.on_start(trainer)
    reporter.on_event(trainer, PolicyEvaluation(400, (1.0, 3.0), (10, 20)))
    assert lines_of(console)[-1] == (
        "step 400: evaluation return 2.0 (standard deviation 1.0) in 2 episodes of 15.0 steps"
    )


@pytest.mark.parametrize("terminal", [False, True])
def test_a_diverged_member_is_named_once(terminal: bool) -> None:
    console, trainer = make_console(terminal=terminal), make_trainer()
    line = ProgressLine(console=console, timer=Timer(trainer))
    line.on_start(trainer)
    line.on_event(trainer, update(1200, 0, [1.0, 1.0, np.inf, np.inf], newly_diverged=(2, 3)))
    line.on_event(trainer, update(1400, 0, [1.0, 1.0, np.inf, np.inf], newly_diverged=(2,)))
    line.on_close(trainer)
    assert [line for line in lines_of(console) if "diverged" in line] == [
        "step 1,200: member 2 (100x100) diverged and no longer takes part",
        "step 1,200: member 3 (200x200) diverged and no longer takes part",
    ]


def test_in_the_end_the_members_and_what_to_do_next() -> None:
    console, trainer = make_console(), make_trainer(diverged=2)
    reporter = make_reporter(trainer, console)
    trainer.run(1000, [reporter])
    lines = lines_of(console)
    end = lines[next(i for i, line in enumerate(lines) if line.startswith("step 1,000")) + 1 :]
    assert end[:2] == [
        "1,000 steps in 0:10 (100 steps/s), 2 episodes",
        "training return: 7.5 over the last 2 episodes",
    ]
    assert end[2].split() == ["cumulated"]
    assert end[3].split() == ["member", "hyperparameters", "selected", "loss", "return", "episodes"]
    assert [line.split() for line in end[5:9]] == [
        ["0", "25x25", "1.0%", "7", "-", "0"],
        ["1", "50x50", "2.0%", "8", "-", "0", "target"],
        ["2", "100x100", "3.0%", "-", "7.5", "2", "diverged"],
        ["3", "200x200", "4.0%", "10", "-", "0"],
    ]
    notes = " ".join(end[9:-6])
    assert "selected: share of the target updates" in notes
    assert "cumulated loss: squared TD error / 2 (batch mean), summed over the updates between two target" in notes
    assert "return: mean over the episodes in which the member acted most" in notes
    assert end[-6:] == [
        "last model     step 1,000, training return 7.5",
        "best model     step 600, training return 9.0 (best_model.zip)",
        "run directory  runs/lander",
        "next           adaqn evaluate runs/lander --episodes 20",
        "               adaqn evaluate runs/lander --episodes 20 --best",
        "               adaqn picture runs/lander",
    ]


def test_in_the_end_the_last_and_the_best_evaluation() -> None:
    console, trainer = make_console(), make_trainer()
    reporter = make_reporter(trainer, console)
    reporter.best_model = lambda: BestModel(400, 1234.5, "evaluation")
    reporter.on_start(trainer)
    reporter.on_event(trainer, PolicyEvaluation(800, (1.0, 3.0), (10, 20)))
    trainer.clock = trainer.clock._replace(step=1000)
    reporter.on_finish(trainer)
    assert lines_of(console)[-6:-4] == [
        "last model     step 1,000, evaluation return 2.0 at step 800",
        "best model     step 400, evaluation return 1,234.5 (best_model.zip)",
    ]


def test_without_a_directory_it_says_that_nothing_was_saved() -> None:
    console, trainer = make_console(), make_trainer()
    trainer.run(1000, [make_reporter(trainer, console, run_directory=None)])
    assert lines_of(console)[-1] == "Nothing was saved; --run-dir DIR keeps the run and its models."


@pytest.mark.parametrize("width", [60, 80])
def test_the_members_are_named_in_the_end_however_narrow_the_terminal(width: int) -> None:
    console, trainer = make_console(width), make_trainer(diverged=2)
    trainer.run(1000, [make_reporter(trainer, console, run_directory=None)])
    lines = lines_of(console)
    end = lines[next(index for index, line in enumerate(lines) if "hyperparameters" in line) :]
    assert max(map(len, end)) <= width
    rows = [line.split() for line in end if line.startswith("      ")]
    assert [row[:2] for row in rows] == [["0", "25x25"], ["1", "50x50"], ["2", "100x100"], ["3", "200x200"]]
    every = ["2", "100x100", "3.0%", "-", "7.5", "2", "diverged"]
    assert rows[2] == (every if width == 80 else ["2", "100x100", "3.0%", "7.5", "diverged"])


def test_both_of_a_pair_are_marked_and_the_shares_explained() -> None:
    console = make_console()
    trainer = make_trainer(targets=(3, 0), traits=Traits(sums_up_selections=True))
    trainer.run(1000, [make_reporter(trainer, console)])
    lines = lines_of(console)
    assert [line.split()[0] for line in lines if line.endswith("target")] == ["0", "3"]
    text = " ".join(lines)
    assert "in target pair: share of the updates in which the critic was one of the two in the target" in text
    assert "the shares add up to 200%" in text
    assert "cumulated loss: exponential average, with rate tau, of the squared TD error / 2 (batch mean)" in text


def test_piped_output_has_no_control_codes_even_if_colours_are_forced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    trainer = make_trainer(diverged=2)
    reporter = ConsoleReporter(algorithm="adadqn", steps=1000, gamma=0.99, memory=Memory(1, 1), timer=Timer(trainer))
    trainer.run(1000, [reporter])
    text = capsys.readouterr().out
    assert "diverged" in text and "\x1b" not in text and "\r" not in text


def test_of_many_members_the_most_often_selected_are_shown_in_the_end() -> None:
    console, trainer = make_console(), make_trainer(grid(hidden=[(n,) for n in range(100, 125)]))
    trainer.run(1000, [make_reporter(trainer, console, run_directory=None)])
    lines = lines_of(console)
    caption = [line.strip() for line in lines].index("the 20 most often selected of 25 members")
    assert [int(line.split()[0]) for line in lines[caption - 20 : caption]] == list(range(24, 4, -1))


def test_a_stopped_run_says_why_and_is_finished() -> None:
    console, trainer = make_console(), make_trainer()
    reporter = make_reporter(trainer, console, Path("my runs/lander"))
    reporter.on_start(trainer)
    trainer.clock = trainer.clock._replace(step=300)
    trainer.stop_reason = "the return is high enough"
    reporter.on_finish(trainer)
    reporter.on_close(trainer)
    lines = lines_of(console)
    assert "stopped at step 300 of 1,000: the return is high enough" in lines
    assert sum("member  hyperparameters" in line for line in lines) == 1
    assert lines[-4:] == [
        "run directory  my runs/lander",
        "next           adaqn evaluate 'my runs/lander' --episodes 20",
        "               adaqn evaluate 'my runs/lander' --episodes 20 --best",
        "               adaqn picture 'my runs/lander'",
    ]


def test_an_interrupted_run_shows_its_members_so_far() -> None:
    console, trainer = make_console(), make_trainer()
    reporter = make_reporter(trainer, console)
    reporter.on_start(trainer)
    trainer.clock = trainer.clock._replace(step=300)
    trainer.stop_reason, trainer.interrupted = "SIGINT", True
    reporter.on_close(trainer)
    lines = lines_of(console)
    assert "stopped at step 300 of 1,000: SIGINT" in lines
    assert ["3", "200x200", "4.0%", "10", "-", "0"] in [line.split() for line in lines]
    assert not any("best model" in line for line in lines), "the run is not over"


def test_after_an_error_only_the_line_is_ended() -> None:
    console, trainer = make_console(terminal=True), make_trainer()
    reporter = make_reporter(trainer, console)
    reporter.on_close(trainer)  # an error before the start
    reporter.on_start(trainer)
    before = text_of(console)
    reporter.on_close(trainer)
    assert "selected" not in text_of(console)
    assert text_of(console).startswith(before)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().rstrip().endswith("\x1b[?25h"), "the cursor is shown again"


def test_a_resumed_run_counts_its_own_steps() -> None:
    console, trainer = make_console(), make_trainer(start=400)
    trainer.run(1000, [make_reporter(trainer, console, run_directory=None)])
    lines = lines_of(console)
    assert any(re.fullmatch(r"steps +1,000, resumed at 400", line) for line in lines)
    assert "600 steps in 0:06 (100 steps/s), 2 episodes" in lines


def test_durations_and_sizes() -> None:
    assert [duration_label(s) for s in (0.4, 59.7, 61, 3599, 3661, 90000)] == [
        "0:00",
        "1:00",
        "1:01",
        "59:59",
        "1:01:01",
        "25:00:00",
    ]
    assert [bytes_label(n) for n in (0, 999, 1234, 56_700_000, 7_056_000_000)] == [
        "0 B",
        "999 B",
        "1.23 kB",
        "56.7 MB",
        "7.06 GB",
    ]
