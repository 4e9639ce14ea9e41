from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest

from adaqn.agents.protocol import PolicyEvaluation
from adaqn.runs.recorders.progress import Metrics, ProgressRecorder, Stopwatch
from adaqn.training.observers import Episode, Observer


class ListSink:
    """Records all calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.rows: dict[int, Metrics] = {}

    def open(self, step: int) -> None:
        self.calls.append(("open", step))

    def write(self, step: int, metrics: Metrics) -> None:
        self.calls.append(step)
        self.rows[step] = metrics

    def close(self) -> None:
        self.calls.append("close")


class EvaluatedAt(Observer):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer: Any) -> None:
        if trainer.clock.step == self.step:
            trainer.tell(PolicyEvaluation(self.step, (1.0, 3.0), (4, 6)))


@pytest.mark.parametrize(
    ("n_envs", "until", "steps"), [(2, 50, [20, 40, 50]), (2, 40, [20, 40]), (7, 60, [21, 42, 63])]
)
def test_it_logs_each_interval_and_the_end(new_trainer: Any, n_envs: int, until: int, steps: list[int]) -> None:
    sink = ListSink()
    new_trainer(n_envs).run(until, [ProgressRecorder(20, [sink])])
    assert sink.calls == [("open", 0), *steps, "close"]


def test_it_logs_nothing_for_a_run_that_is_resumed_at_its_end(trainer: Any) -> None:
    trainer.run(40, [])
    sink = ListSink()
    trainer.run(40, [ProgressRecorder(20, [sink])])
    assert sink.calls == [("open", 40), "close"]


def test_the_metrics_and_their_tags(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr("adaqn.runs.recorders.progress.resident_memory", lambda: 250_000_000)
    sink, stopwatch = ListSink(), Stopwatch()
    stopwatch.set(1000.0)  # elapsed time of the previous process
    recorder = ProgressRecorder(20, [sink], stopwatch)
    trainer.clock = trainer.clock._replace(step=60)
    recorder.on_start(trainer)
    trainer.clock = trainer.clock._replace(step=80)
    trainer.updates = 17
    now[0] = 104.0
    recorder.on_step(trainer)
    assert sink.rows[80] == {
        "time/total_timesteps": 80,
        "time/time_elapsed": 1004.0,
        "time/fps": 5,
        "time/episodes": 0,
        "time/compile_seconds": ANY,
        "time/memory_mb": 250.0,
        "rollout/ep_rew_mean": None,
        "rollout/ep_len_mean": None,
        "train/n_updates": 17,
        "ada/target_member": 0.0,
    }
    trainer.clock = trainer.clock._replace(step=100)
    trainer.state, trainer.episodes = trainer.state._replace(updates=3), 2
    trainer.recent_episodes.extend([Episode(84, 10.0, 4), Episode(90, -3.0, 6)])
    recorder.on_step(trainer)
    assert sink.rows[100] == {
        "time/total_timesteps": 100,
        "time/time_elapsed": 1004.0,
        "time/fps": 10,
        "time/episodes": 2,
        "time/compile_seconds": ANY,
        "time/memory_mb": 250.0,
        "rollout/ep_rew_mean": 3.5,
        "rollout/ep_len_mean": 5.0,
        "train/n_updates": 17,
        "ada/target_member": 0.0,
        "train/loss": 0.75,
    }


def test_an_evaluation_is_logged_at_its_own_step(trainer: Any) -> None:
    sink = ListSink()
    trainer.run(50, [EvaluatedAt(26), ProgressRecorder(20, [sink])])
    assert sink.calls == [("open", 0), 20, 26, 40, 50, "close"]
    assert sink.rows[26] == {"time/total_timesteps": 26, "eval/mean_reward": 2.0, "eval/mean_ep_length": 5.0}
    assert not any("eval/mean_reward" in row for step, row in sink.rows.items() if step != 26)


def test_logging_changes_nothing(new_trainer: Any) -> None:
    quiet, logged = new_trainer(), new_trainer()
    quiet.run(100, [Observer()])
    logged.run(100, [ProgressRecorder(3, [ListSink()])])
    assert logged.snapshot().meta == quiet.snapshot().meta
    assert logged.state == quiet.state
