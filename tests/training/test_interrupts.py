"""SIGINT and SIGTERM leave a resumable run, and reach the calling program."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from adaqn import AdaDQN, Hyperparameters
from adaqn.cli import main
from adaqn.training.callbacks import BaseCallback, EvalCallback
from adaqn.training.trainer import Trainer

QUICK: dict[str, Any] = {
    "learning_starts": 50, "batch_size": 8, "target_update_interval": 40, "buffer_size": 300, "exploration_steps": 100,
}  # fmt: skip
STEPS = 240
EXACT = ("episodes.csv", "selection.csv", "evaluations.csv")
RAISED = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: SystemExit}


def agent() -> AdaDQN:
    return AdaDQN("CartPole-v1", [Hyperparameters(hidden=(8,)), Hyperparameters(hidden=(6, 6))], **QUICK)


def evaluation(run_dir: Path, env: gymnasium.Env[Any, Any] | None = None) -> EvalCallback:
    return EvalCallback(env, eval_freq=70, n_eval_episodes=2, log_path=run_dir, best_model_save_path=run_dir, verbose=0)


def signalled(number: signal.Signals, step: int) -> Callable[[Trainer], None]:
    def callback(trainer: Trainer) -> None:
        if trainer.clock.step == step:
            signal.raise_signal(number)

    return callback


def contents(run_dir: Path) -> dict[str, bytes]:
    return {name: (run_dir / name).read_bytes() for name in EXACT}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("whole") / "run"
    agent().learn(STEPS, run_dir=run_dir, callback=evaluation(run_dir))
    return run_dir


@pytest.mark.parametrize("number", RAISED)
def test_a_signal_is_passed_on_after_a_checkpoint(number: signal.Signals, whole: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    before = signal.getsignal(number)
    left = agent()
    with pytest.raises(RAISED[number]) as raised:
        left.learn(STEPS, run_dir=run_dir, callback=[evaluation(run_dir), signalled(number, 101)])
    assert number == signal.SIGINT or raised.value.code == 143
    assert left.num_timesteps == 101 and signal.getsignal(number) is before
    assert not (run_dir / "summary.json").exists()
    with pytest.raises(RAISED[number]):
        AdaDQN.resume(run_dir, callback=[evaluation(run_dir), signalled(number, 163)])
    assert AdaDQN.from_run(run_dir).num_timesteps == 163
    AdaDQN.resume(run_dir, callback=evaluation(run_dir))
    assert contents(run_dir) == contents(whole)


class Interrupting(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that raises a signal during step `at` and counts the steps after it."""

    def __init__(self, number: signal.Signals, at: int) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.number = number
        self.at = at
        self.steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps == self.at:
            signal.raise_signal(self.number)
        return super().step(action)


@pytest.mark.parametrize("number", RAISED)
def test_an_evaluation_is_left_at_once_and_made_again(number: signal.Signals, whole: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    # In the second episode of the evaluation at step 140: the rows of step 70 exist, and a partial result.
    rows = [line.split(",") for line in (whole / "evaluations.csv").read_text().splitlines()[1:]]
    lengths = [int(row[4]) for row in rows]
    env = Interrupting(number, sum(lengths[:3]) + 2)
    with pytest.raises(RAISED[number]):
        agent().learn(STEPS, run_dir=run_dir, callback=evaluation(run_dir, env))
    assert env.steps == env.at, "the evaluation continued after the signal"
    assert (run_dir / "evaluations.csv").read_text().splitlines()[1:] == [",".join(row) for row in rows[:2]]
    assert AdaDQN.from_run(run_dir).num_timesteps == 140
    AdaDQN.resume(run_dir, callback=evaluation(run_dir))
    assert contents(run_dir) == contents(whole)
    assert (run_dir / "best_model.zip").read_bytes() == (whole / "best_model.zip").read_bytes()


def test_an_evaluation_can_be_interrupted_again_when_it_is_made_again(whole: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    for env in (Interrupting(signal.SIGTERM, 3), Interrupting(signal.SIGTERM, 2)):
        with pytest.raises(SystemExit):
            if run_dir.exists():
                AdaDQN.resume(run_dir, callback=evaluation(run_dir, env))
            else:
                agent().learn(STEPS, run_dir=run_dir, callback=evaluation(run_dir, env))
    AdaDQN.resume(run_dir, callback=evaluation(run_dir))
    assert contents(run_dir) == contents(whole)


def test_an_evaluation_that_was_made_again_just_before_a_kill_is_not_logged_twice(whole: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with pytest.raises(SystemExit):
        agent().learn(STEPS, run_dir=run_dir, callback=evaluation(run_dir, Interrupting(signal.SIGTERM, 3)))

    class Killed(BaseCallback):
        def _on_training_start(self) -> None:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        AdaDQN.resume(run_dir, callback=[evaluation(run_dir), Killed()])
    assert (run_dir / "evaluations.csv").read_text().count("\n70,") == 2
    AdaDQN.resume(run_dir, callback=evaluation(run_dir))
    assert contents(run_dir) == contents(whole)


def test_what_nobody_takes_up_again_is_not_postponed_for_ever(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with pytest.raises(SystemExit):
        agent().learn(STEPS, run_dir=run_dir, callback=evaluation(run_dir, Interrupting(signal.SIGTERM, 3)))
    with pytest.raises(SystemExit):
        AdaDQN.resume(run_dir, callback=signalled(signal.SIGTERM, 150))
    AdaDQN.resume(run_dir, callback=evaluation(run_dir))
    rows = (run_dir / "evaluations.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["210", "210"]  # and not at step 150


def test_the_command_line_says_how_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(EvalCallback, "_on_step", lambda self: signalled(signal.SIGTERM, 130)(self.trainer))
    run_dir = tmp_path / "run"
    arguments = ["--env", "CartPole-v1", "--steps", "240", "--learning-starts", "50", "--grid", "hidden=8"]
    assert main(["train", "--quiet", *arguments, "--eval-interval", "70", "--run-dir", str(run_dir)]) == 143
    assert capsys.readouterr().out == f"interrupted by SIGTERM at step 130; continue with: adaqn resume {run_dir}\n"
