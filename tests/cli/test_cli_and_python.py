"""The command line and `learn` and `resume` in Python do exactly the same."""

from __future__ import annotations

import ast
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

import adaqn
from adaqn import AdaDQN, EvalCallback, Hyperparameters
from adaqn.agents.registry import Algorithm
from adaqn.api import Model
from adaqn.base.errors import UserError
from adaqn.cli import main
from adaqn.envs.source import EnvironmentSource
from adaqn.runs.recorders.summary import SummaryWriter
from adaqn.training.interrupts import RunInterrupted

TRAIN = ["train", "--env", "CartPole-v1", "--steps", "240", "--learning-starts", "50", "--quiet", "--grid", "hidden=8"]


def agent() -> AdaDQN:
    return AdaDQN("CartPole-v1", [Hyperparameters(hidden=(8,))], learning_starts=50)


def exact_contents(run_dir: Path) -> dict[str, bytes]:
    names = ("config.yaml", "episodes.csv", "selection.csv", "members.jsonl", "evaluations.csv", "best_model.csv")
    return {name: (run_dir / name).read_bytes() for name in names}


def test_a_run_of_the_command_line_is_that_of_learn(tmp_path: Path) -> None:
    flags = ["--horizon", "500", "--eval-interval", "70", "--eval-episodes", "2", "--log-interval", "50"]
    assert main([*TRAIN, *flags, "--run-dir", str(tmp_path / "typed")]) == 0
    agent().learn(
        240, run_dir=tmp_path / "called", horizon=500, eval_interval=70, eval_episodes=2, log_interval=50
    )  # fmt: skip
    contents = exact_contents(tmp_path / "typed")
    assert exact_contents(tmp_path / "called") == contents
    assert contents["evaluations.csv"].count(b"\n") == 1 + 3 * 2
    config = yaml.safe_load(contents["config.yaml"])
    assert (config["horizon"], config["eval_interval"], config["eval_episodes"]) == (500, 70, 2)
    # Extending the run is the same either way, too.
    assert main(["resume", str(tmp_path / "typed"), "--quiet", "--steps", "300"]) == 0
    Model.resume(tmp_path / "called", steps=300)
    assert exact_contents(tmp_path / "called") == exact_contents(tmp_path / "typed") != contents


def test_the_horizon_is_what_schedules_refer_to() -> None:
    short, long = agent(), agent()
    short.learn(60)
    long.learn(60, horizon=10_000)
    assert (short.trainer.clock.horizon, long.trainer.clock.horizon) == (60, 10_000)
    long.learn(60, horizon=[(0, 500), (30, 900)])
    assert long.trainer.clock.horizon == 900
    with pytest.raises(UserError, match="the steps of horizon must begin with 0 and increase"):
        agent().learn(60, horizon=[(5, 500)])


@pytest.mark.parametrize("algo", ["adadqn", "random-search"])
def test_the_population_is_resolved_once_with_the_environment_that_is_trained_in(
    algo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def counted(owner: type, name: str) -> None:
        method = getattr(owner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            return method(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    counted(EnvironmentSource, "make")
    counted(Algorithm, "population")
    flags = ["--env", "CartPole-v1", "--algo", algo, "--steps", "80", "--learning-starts", "50", "--quiet"]
    flags += ["--trial-steps", "60"] if algo == "random-search" else []
    assert main(["train", *flags, "--run-dir", str(tmp_path / "run")]) == 0
    assert calls == ["make", "population"]
    calls.clear()
    assert main(["resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert calls == [], "no model is built to report that a run is finished"
    assert main(["resume", str(tmp_path / "run"), "--quiet", "--steps", "90"]) == 0
    assert calls == ["make", "population"]


def test_a_flag_of_the_base_of_a_search_is_heard(tmp_path: Path) -> None:
    flags = ["--env", "Pendulum-v1", "--algo", "random-search", "--base", "sac", "--tau", "0.25", "--steps", "60"]
    flags += ["--trial-steps", "60", "--learning-starts", "50", "--actor-hidden", "8", "--quiet"]
    assert main(["train", *flags, "--run-dir", str(tmp_path / "run")]) == 0
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["settings"]["tau"] == 0.25


def test_two_evaluations_in_one_file_are_refused_before_a_run_is_given_up_for_them(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    agent().learn(120, run_dir=run_dir, eval_interval=50, eval_episodes=1)
    before = exact_contents(run_dir)
    with pytest.raises(UserError, match=r"evaluations.csv would have two writers"):
        agent().learn(120, EvalCallback(log_path=run_dir), run_dir=run_dir, eval_interval=50, force=True)
    assert exact_contents(run_dir) == before


def test_a_signal_that_comes_when_the_run_is_over_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = SummaryWriter.on_finish

    def late(self: SummaryWriter, trainer: Any) -> None:
        write(self, trainer)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(SummaryWriter, "on_finish", late)
    assert main([*TRAIN, "--run-dir", str(tmp_path / "typed")]) == 0
    assert capsys.readouterr().out == ""
    # A Python program is interrupted anyway, because Ctrl-C was meant for it too.
    with pytest.raises(KeyboardInterrupt) as left:
        agent().learn(240, run_dir=tmp_path / "called")
    assert isinstance(left.value.__cause__, RunInterrupted) and left.value.__cause__.finished


def test_who_interrupts_a_run_may_say_why() -> None:
    with pytest.raises(SystemExit) as left:
        agent().learn(100, lambda trainer: trainer.interrupt("the moon") if trainer.clock.step == 70 else None)
    assert left.value.code == 143 and str(left.value.__cause__) == "interrupted by the moon at step 70"


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_why_learn_was_left_is_the_cause(number: signal.Signals, kind: type[BaseException]) -> None:
    def callback(trainer: Any) -> None:
        if trainer.clock.step == 70:
            signal.raise_signal(number)

    with pytest.raises(kind) as left:
        agent().learn(100, callback)
    assert type(left.value) is kind, "Python exits by SIGINT only for KeyboardInterrupt itself, not a subclass"
    cause = left.value.__cause__
    assert isinstance(cause, RunInterrupted)
    assert (str(cause), cause.signal, cause.finished) == (f"interrupted by {number.name} at step 70", number, False)


def test_only_the_command_line_reads_arguments() -> None:
    package = Path(adaqn.__file__).parent
    importing = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and "argparse" in [*(alias.name for alias in node.names), getattr(node, "module", None)]
    }
    assert importing == {"cli/__init__.py"}
