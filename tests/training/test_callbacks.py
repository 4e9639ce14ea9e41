"""Callbacks: called at the right time, with any number of environments, and able to stop the training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from adaqn.agents.protocol import Clock, Event, PolicyEvaluation, TargetUpdate
from adaqn.agents.registry import NO_TRAITS, Traits
from adaqn.base.errors import UserError
from adaqn.training.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    FunctionCallback,
    StopTrainingOnReturn,
    StopTrainingOnRewardThreshold,
    as_callback,
)
from adaqn.training.evaluation import episode_seed, evaluate_policy
from adaqn.training.observers import Episode, Observer
from adaqn.training.trainer import Trainer
from tests.fakes import MEMBERS, FakeAgent, fake_run


def make_trainer(
    environments: int = 1, start: int = 0, episodes_at: dict[int, float] | None = None, traits: Traits = NO_TRAITS
) -> Trainer:
    """A run in which nothing happens but these episodes; its target is member 3."""
    trainer = fake_run(
        environments, MEMBERS * 2, interval=None, start=start, episodes_at=episodes_at or {}, traits=traits
    )
    assert isinstance(trainer.agent, FakeAgent)
    trainer.agent.targets = (3,)
    return trainer


class Listener(Observer):
    """Records the events."""

    def __init__(self) -> None:
        self.told: list[Event] = []

    def on_event(self, trainer: Trainer, event: Event) -> None:
        self.told.append(event)


class Fails(Observer):
    def on_step(self, trainer: Trainer) -> None:
        raise RuntimeError("failed")


class FakeModel:
    """Pushes the cart to one side; it is better after `improves_at` steps, when it balances for a while."""

    def __init__(self, trainer: Trainer, improves_at: int = 10**9) -> None:
        self.trainer = trainer
        self.improves_at = improves_at
        self.saved: list[tuple[int, str]] = []
        self.made: list[gymnasium.Env[Any, Any]] = []

    def predict(self, observation: np.ndarray, *, deterministic: bool = True) -> tuple[Any, None]:
        good = self.trainer.clock.step >= self.improves_at
        return np.int64(observation[2] + observation[3] > 0 if good else 0), None

    def save(self, path: str | Path) -> None:
        self.saved.append((self.trainer.clock.step, str(path)))

    def make_env(self) -> gymnasium.Env[Any, Any]:
        self.made.append(ClosingCartPole(gymnasium.make("CartPole-v1", max_episode_steps=50)))
        return self.made[-1]


class ClosingCartPole(gymnasium.Wrapper[Any, Any, Any, Any]):
    closed = False

    def close(self) -> None:
        self.closed = True
        super().close()


class Diary(BaseCallback):
    """Records every call."""

    def __init__(self, stop_at: int | None = None) -> None:
        super().__init__()
        self.stop_at = stop_at
        self.entries: list[Any] = []

    def _on_training_start(self) -> None:
        self.entries.append(("start", self.num_timesteps))

    def _on_step(self) -> bool:
        self.entries.append(self.num_timesteps)
        return self.num_timesteps != self.stop_at

    def _on_episode(self, episode: Episode) -> None:
        self.entries.append(("episode", episode.total, self.num_timesteps))

    def _on_event(self, event: Event) -> None:
        self.entries.append(event)

    def _on_training_end(self) -> None:
        self.entries.append(("end", self.num_timesteps))


def run(callback: BaseCallback, until: int, trainer: Trainer | None = None, improves_at: int = 10**9) -> FakeModel:
    trainer = trainer or make_trainer()
    model = FakeModel(trainer, improves_at)
    callback.bind(model)
    trainer.run(until, [callback])
    return model


def test_hooks_are_called_in_order() -> None:
    diary = Diary()
    trainer = make_trainer(environments=2, start=4, episodes_at={6: 1.5})
    model = run(diary, 8, trainer)
    assert diary.entries == [("start", 4), ("episode", 1.5, 6), 6, 8, ("end", 8)]
    assert diary.model is model
    assert diary.trainer is trainer
    event = TargetUpdate(8, 0, (1.0,), (8,), ())
    diary.on_event(trainer, event)
    assert diary.entries[-1] is event


def test_false_stops_and_the_end_is_heard_exactly_once() -> None:
    for stop_at, until in [(3, 10), (3, 3)]:
        diary, trainer = Diary(stop_at), make_trainer()
        run(diary, until, trainer)
        assert diary.entries == [("start", 0), 1, 2, 3, ("end", 3)]
        assert trainer.stop_reason == "Diary asked to stop"


def test_after_an_error_there_is_no_end() -> None:
    diary, trainer = Diary(), make_trainer()
    with pytest.raises(RuntimeError, match="failed"):
        trainer.run(5, [diary, Fails()])
    assert diary.entries == [("start", 0), 1]


def test_a_hook_that_returns_nothing_does_not_stop() -> None:
    class Forgetful(BaseCallback):
        def _on_step(self) -> bool:
            return None  # type: ignore[return-value]

    trainer = make_trainer()
    run(Forgetful(), 5, trainer)
    assert (trainer.clock.step, trainer.stop_reason) == (5, None)


def test_all_callbacks_of_a_list_are_called_even_if_one_stops() -> None:
    first, second = Diary(stop_at=2), Diary()
    trainer = make_trainer(episodes_at={1: 7.0})
    model = run(CallbackList([first, second]), 9, trainer)
    expected = [("start", 0), ("episode", 7.0, 1), 1, 2, ("end", 2)]
    assert first.entries == expected
    assert second.entries == expected
    assert second.model is model


def test_a_plain_function_of_the_trainer_is_a_callback() -> None:
    steps: list[int] = []

    def watch(trainer: Any) -> bool | None:
        steps.append(trainer.clock.step)
        return False if trainer.clock.step == 3 else None

    trainer = make_trainer()
    run(as_callback(watch), 9, trainer)
    assert steps == [1, 2, 3]
    assert trainer.stop_reason == "callback watch returned False"


def test_what_learn_accepts_as_callback() -> None:
    diary = Diary()
    assert as_callback(diary) is diary
    nested = as_callback([diary, [lambda trainer: None]])
    assert isinstance(nested, CallbackList)
    assert nested.callbacks[0] is diary
    assert isinstance(nested.callbacks[1], CallbackList)
    assert isinstance(nested.callbacks[1].callbacks[0], FunctionCallback)
    empty = as_callback(None)
    assert isinstance(empty, CallbackList)
    assert empty.callbacks == ()
    with pytest.raises(UserError, match=r"takes one argument, the trainer, but got <lambda>\(local, globals\)"):
        as_callback(lambda local, globals: True)
    with pytest.raises(UserError, match="or a list of these, but got 'diary'"):
        as_callback("diary")
    with pytest.raises(UserError, match="but got <class"):
        as_callback(Diary)


@pytest.mark.parametrize(
    ("environments", "start", "expected"),
    [(1, 0, [10, 20, 30]), (3, 0, [12, 21, 30]), (25, 0, [25, 50]), (1, 10, [20, 30]), (1, 14, [20, 30])],
)
def test_periods_are_crossed_once_with_any_number_of_environments(
    environments: int, start: int, expected: list[int], tmp_path: Path
) -> None:
    model = run(CheckpointCallback(10, tmp_path / "models", "cart"), 30, make_trainer(environments, start))
    assert model.saved == [(step, str(tmp_path / "models" / f"cart_{step}_steps.zip")) for step in expected]
    assert (tmp_path / "models").is_dir()

    trainer = make_trainer(environments, start)
    run(EvalCallback(eval_freq=10, n_eval_episodes=1, log_path=tmp_path, verbose=0), 30, trainer)
    rows = (tmp_path / "evaluations.csv").read_text().splitlines()[1:]
    assert [int(row.split(",")[0]) for row in rows] == expected


def test_evaluations_are_logged_and_repeat_exactly(tmp_path: Path) -> None:
    callback = EvalCallback(eval_freq=10, n_eval_episodes=2, log_path=tmp_path, seed=5, verbose=0)
    model = run(callback, 25, improves_at=20)
    env = gymnasium.make("CartPole-v1", max_episode_steps=50)
    lines = ["step,generation,member,return,length"]
    for step in (10, 20):
        model.trainer.clock = Clock(step=step)
        result = evaluate_policy(model, env, 2, seed=episode_seed(5, step))
        lines += [f"{step},0,3,{r},{n}" for r, n in zip(result.returns, result.lengths, strict=True)]
    assert (tmp_path / "evaluations.csv").read_text().splitlines() == lines
    assert callback.last_mean_reward == callback.best_mean_reward == result.mean == 50.0


def test_all_observers_are_told_of_an_evaluation() -> None:
    callback, trainer, listener = (
        EvalCallback(eval_freq=10, n_eval_episodes=2, seed=3, verbose=0),
        make_trainer(),
        Listener(),
    )
    callback.bind(FakeModel(trainer))
    trainer.run(20, [listener, callback])
    assert [event.step for event in listener.told if isinstance(event, PolicyEvaluation)] == [10, 20]
    first, last = listener.told
    assert isinstance(first, PolicyEvaluation) and isinstance(last, PolicyEvaluation)
    assert len(last.returns) == 2 and last.mean == callback.last_mean_reward
    assert last.mean_length == np.mean(last.lengths) == last.mean, "one reward per step"
    assert last.std == np.std(last.returns)


def test_the_environment_that_was_made_is_closed_and_the_users_is_not() -> None:
    callback = EvalCallback(eval_freq=10, n_eval_episodes=1, verbose=0)
    model = run(callback, 10)
    assert isinstance(model.made[0], ClosingCartPole)
    assert model.made[0].closed
    run(callback, 10)  # learning again makes another one

    own = ClosingCartPole(gymnasium.make("CartPole-v1"))
    model = run(EvalCallback(own, eval_freq=10, n_eval_episodes=1, verbose=0), 10)
    assert model.made == []
    assert not own.closed


def test_the_best_model_is_saved_and_announced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diary = Diary()
    callback = EvalCallback(
        eval_freq=10, n_eval_episodes=1, best_model_save_path=tmp_path / "best", callback_on_new_best=diary
    )
    model = run(callback, 40, improves_at=30)
    steps = [entry for entry in diary.entries if isinstance(entry, int)]
    best = str(tmp_path / "best" / "best_model.zip")
    assert model.saved == [(step, best) for step in steps]
    assert 10 in steps and 30 in steps
    assert 40 not in steps, "as good as the best is not better"
    assert diary.entries[0] == ("start", 0) and diary.entries[-1] == ("end", 40)
    assert diary.model is model
    assert callback.best_mean_reward == 50.0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "step 40: return 50.00 ± 0.00 in 1 evaluation episodes of 50.0 steps"
    assert len(lines) == 4


def test_a_resumed_run_remembers_its_best(tmp_path: Path) -> None:
    (tmp_path / "evaluations.csv").write_text("step,generation,member,return,length\n10,0,3,40.0,40\n")
    callback = EvalCallback(
        eval_freq=10, n_eval_episodes=1, log_path=tmp_path, best_model_save_path=tmp_path, verbose=0
    )
    model = run(callback, 30, make_trainer(start=10), improves_at=30)
    assert [step for step, _ in model.saved] == [30]


def test_the_best_is_known_from_the_log_of_the_policy_up_to_the_step_at_which_it_is_opened(tmp_path: Path) -> None:
    header = "step,generation,member,return,length\n"
    of_members = header + "10,0,1,400.0,400\n"
    (tmp_path / "evaluations.csv").write_text(of_members)
    # The evaluation of step 20 came after the checkpoint of step 10, and will be made again.
    log = tmp_path / "policy_evaluations.csv"
    log.write_text(header + "10,1,3,40.0,40\n10,1,3,44.0,44\n20,1,3,49.0,49\n")

    def callback() -> EvalCallback:
        return EvalCallback(
            eval_freq=10, n_eval_episodes=1, log_path=tmp_path, log_name=log.name, best_model_save_path=tmp_path,
            verbose=0,
        )  # fmt: skip

    opened = callback()
    run(opened, 10, make_trainer(start=10))
    assert opened.best_mean_reward == 42.0
    resumed = callback()
    model = run(resumed, 40, make_trainer(start=10), improves_at=40)
    assert [step for step, _ in model.saved] == [40]
    assert resumed.best_mean_reward == 50.0
    assert [row.split(",")[0] for row in log.read_text().splitlines()[1:]] == ["10", "10", "20", "30", "40"]
    assert (tmp_path / "evaluations.csv").read_text() == of_members


def test_what_somebody_else_wrote_is_not_overwritten_and_no_step_is_taken_first(tmp_path: Path) -> None:
    (tmp_path / "evaluations.csv").write_text("step,score\n1,2\n")
    (tmp_path / "best_model.zip").write_bytes(b"PK\x03\x04 of some other library")
    (tmp_path / "rl_model_500_steps.zip").write_text("mine")
    (tmp_path / "other_500_steps.zip").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for callback, sentence in (
        (EvalCallback(log_path=tmp_path), r"evaluations.csv must begin with .* but got step,score: .* not overwritten"),
        (EvalCallback(best_model_save_path=tmp_path), "best_model.zip exists, but is no agent that adaqn saved"),
        (CheckpointCallback(10, tmp_path), "rl_model_500_steps.zip exists, but is no agent that adaqn saved"),
    ):
        with pytest.raises(UserError, match=sentence):
            callback.bind(FakeModel(make_trainer()))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_where_members_are_evaluated_by_the_algorithm_the_policy_has_a_file_of_its_own(tmp_path: Path) -> None:
    trainer = make_trainer(traits=Traits(tables=("evaluations",)))
    run(EvalCallback(eval_freq=10, n_eval_episodes=1, log_path=tmp_path, verbose=0), 10, trainer)
    assert [path.name for path in tmp_path.iterdir()] == ["policy_evaluations.csv"]


def test_training_stops_at_the_evaluation_that_is_good_enough(capsys: pytest.CaptureFixture[str]) -> None:
    stop = StopTrainingOnRewardThreshold(50.0, verbose=1)
    trainer = make_trainer()
    run(EvalCallback(eval_freq=10, callback_on_new_best=stop, verbose=0), 100, trainer, improves_at=25)
    assert trainer.clock.step == 30
    assert trainer.stop_reason == "the mean evaluation return 50.00 reached the threshold 50"
    assert capsys.readouterr().out == f"step 30: {trainer.stop_reason}\n"


def test_the_threshold_of_evaluations_needs_evaluations() -> None:
    with pytest.raises(UserError, match="must be the callback_on_new_best of an EvalCallback"):
        run(StopTrainingOnRewardThreshold(1.0), 5)


def test_training_stops_when_the_window_is_full_and_good() -> None:
    returns = {1: 100.0, 2: 0.0, 3: 0.0, 4: 6.0, 6: 6.0, 8: 9.0}
    trainer = make_trainer(episodes_at=returns)
    run(StopTrainingOnReturn(7.0, window=3), 20, trainer)
    assert trainer.clock.step == 3  # (100 + 0 + 0) / 3 is the first full window
    trainer = make_trainer(episodes_at={**returns, 1: 0.0})
    run(StopTrainingOnReturn(7.0, window=3), 20, trainer)
    assert trainer.clock.step == 8
    assert trainer.stop_reason == "the mean return 7.00 of the last 3 episodes reached the threshold 7"
    with pytest.raises(UserError, match="window must be at most 100 episodes, but got 101"):
        run(StopTrainingOnReturn(1.0, window=101), 5)


def test_mistakes_are_explained() -> None:
    with pytest.raises(UserError, match="eval_freq must be a whole number of at least 1, but got 0"):
        EvalCallback(eval_freq=0)
    with pytest.raises(UserError, match=r"n_eval_episodes must be .* but got 0"):
        EvalCallback(n_eval_episodes=0)
    with pytest.raises(UserError, match=r"save_freq must be .* but got -1"):
        CheckpointCallback(-1, "x")
    with pytest.raises(UserError, match=r"window must be .* but got 0"):
        StopTrainingOnReturn(1.0, window=0)
