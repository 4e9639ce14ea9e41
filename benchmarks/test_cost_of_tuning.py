"""Tests of `cost_of_tuning`: what is counted, and that a run goes on where it was."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adaqn.base.errors import UserError
from adaqn.studies.definition import read_study
from benchmarks import tuning_check, tuning_optuna, tuning_run
from benchmarks.cost_of_tuning import Unit, units
from benchmarks.tuning_check import Meter, play
from benchmarks.tuning_page import ARCHITECTURES, METHODS, draw, page_text, read_records, table
from benchmarks.tuning_record import Check, Costs, TuningRecord, read_record, record_path, sweep, write_record


def record(method: str, *returns: float, seed: int = 0, cap: int = 40, every: int = 10) -> TuningRecord:
    """Checks every 10 samples, each of which took half a second of CPU and one second."""
    checks = tuple(
        Check(every * n, every * n * 0.5, every * n * 1.0, value, value, f"policy {n}", value if value >= 200 else None)
        for n, value in enumerate(returns, start=1)
    )
    spent = Costs(every * len(returns), every * len(returns) * 0.5, every * len(returns) * 1.0)
    return TuningRecord(method, seed, cap, checks, spent, Costs(7, 0.25, 0.5))


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    written = dataclasses.replace(record("searl", -100.0, 210.0), through=True)
    write_record(record_path(tmp_path, "searl", 0), written)
    assert read_record(tmp_path / "searl-seed0.json") == written


def test_the_first_check_at_200_within_the_cap_is_the_success() -> None:
    found = record("searl", 199.9, 200.0, 250.0)
    assert found.success == found.checks[1] and found.is_over
    assert record("searl", 199.9, 250.0, cap=19).success is None
    assert not record("searl", 0.0, 0.0, 0.0).is_over
    assert record("searl", 0.0, 0.0, 0.0, 0.0).is_over
    assert not dataclasses.replace(record("dqn-25x25", 300.0), through=True).is_over


def test_a_sweep_hands_over_the_best_by_training_return_and_counts_all_runs() -> None:
    one, other = record("dqn-25x25", -100.0, 220.0, 230.0), record("dqn-50x50", -50.0, 100.0, 240.0)
    # The second run has the better training return although its check is worse, so nothing is solved until 60 samples.
    lucky = dataclasses.replace(other.checks[1], training_return=300.0)
    other = dataclasses.replace(other, checks=(other.checks[0], lucky, other.checks[2]))
    found = sweep([one, other])
    assert [check.policy for check in found.checks] == ["dqn-50x50", "dqn-50x50", "dqn-50x50"]
    assert found.success == Check(60, 30.0, 60.0, 240.0, 240.0, "dqn-50x50", 240.0)
    assert (found.cap, found.spent, found.spent_on_checks) == (80, Costs(60, 30.0, 60.0), Costs(14, 0.5, 1.0))


def test_a_run_without_training_episodes_is_not_handed_over() -> None:
    blind = dataclasses.replace(record("a", 300.0).checks[0], training_return=None)
    found = sweep([dataclasses.replace(record("a", 300.0), checks=(blind,)), record("b", -500.0)])
    assert found.checks[0].policy == "b"


def test_units_share_the_cap_of_a_sweep(tmp_path: Path) -> None:
    found = units(["searl", "sweep"], range(2), 400_000, 20_000)
    assert found[0] == Unit("searl", 0, 400_000, 20_000)
    assert found[1:5] == [Unit(name, 0, 100_000, 5_000, True) for name in ARCHITECTURES]
    assert len(found) == 10 and found[5].seed == 1
    write_record(record_path(tmp_path, "searl", 0), record("searl", 0.0, 0.0))
    assert Unit("searl", 0, 20, 10).is_over(tmp_path)
    assert not Unit("searl", 0, 30, 10).is_over(tmp_path)  # a higher cap goes on
    assert not Unit("searl", 1, 20, 10).is_over(tmp_path)


def test_every_method_of_ours_is_an_arm_of_the_study() -> None:
    arms = list(read_study(tuning_run.STUDY).arms)
    assert set(arms) - set(ARCHITECTURES) == set(METHODS) - {"sweep", "optuna"}
    config = tuning_run.config_of("adadqn-architectures", 5, 60_000)
    assert (config.seed, config.steps, config.horizon, len(config.members)) == (5, 60_000, 200_000, 4)


class Falling:
    """Does nothing."""

    def predict(self, observation: np.ndarray, *, deterministic: bool = True) -> tuple[Any, Any]:
        assert deterministic
        return np.zeros(len(observation), int), None


def test_episodes_that_are_played_together_are_those_played_alone() -> None:
    together = play(Falling(), [3, 4])
    alone = [play(Falling(), [seed]) for seed in (3, 4)]
    assert together.returns == [one.returns[0] for one in alone]
    assert together.steps == sum(one.steps for one in alone)


def test_checks_are_not_on_the_meter(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"cpu": 2.0, "wall": 100.0}

    def slow(policy: object, seeds: list[int]) -> tuning_check.Played:
        clock["cpu"] += 5.0
        clock["wall"] += 8.0
        return tuning_check.Played([210.0] * len(seeds), 3 * len(seeds))

    monkeypatch.setattr(tuning_check, "play", slow)
    monkeypatch.setattr(tuning_check.time, "process_time", lambda: clock["cpu"])
    monkeypatch.setattr(tuning_check.time, "time", lambda: clock["wall"])
    meter = Meter(TuningRecord("m", 0, 50), started=90.0)
    first = meter.check(Falling(), 20, 1.0, "p")
    assert first == Check(20, 2.0, 10.0, 210.0, 1.0, "p", 210.0)
    assert (meter.cpu_seconds, meter.wall_seconds) == (2.0, 10.0)
    # 20 episodes and the 100 that confirm a success: six calls.
    assert meter.record.spent_on_checks == Costs(360, 30.0, 48.0)


def test_a_resumed_meter_goes_on_from_what_was_spent_up_to_the_checkpoint() -> None:
    before = dataclasses.replace(record("m", 1.0, 2.0, 3.0), spent=Costs(34, 99.0, 100.0))
    meter = Meter(before, started=0.0)
    meter.resume(25)
    assert [check.samples for check in meter.record.checks] == [10, 20]
    assert meter.record.spent == Costs(20, 10.0, 20.0)
    meter = Meter(before, started=0.0)
    meter.resume(34)  # interrupted between two checks
    assert meter.record.spent == Costs(34, 99.0, 100.0) and meter.cpu_seconds > 99.0


class Proposal:
    """Draws the last choice and the upper bound of everything."""

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
        return choices[-1]

    def suggest_float(self, name: str, low: float, high: float, log: bool = False) -> float:
        assert log == (name == "learning_rate")
        return high


def test_drawn_hyperparameters_become_arguments_of_dqn() -> None:
    assert tuning_optuna.arguments_of(tuning_optuna.suggest(Proposal())) == {
        "gamma": 0.9999,
        "batch_size": 512,
        "buffer_size": 1_000_000,
        "target_update_interval": 20_000,
        "learning_starts": 20_000,
        "train_freq": 1_000,
        "gradient_steps": 125,
        "policy_kwargs": {"net_arch": [256, 256]},
        "learning_rate": 1.0,
        "exploration_final_eps": 0.2,
        "exploration_fraction": 0.5,
    }


def test_only_a_finished_trial_can_be_the_best() -> None:
    ended = lambda value, state: tuning_optuna.Trial({}, {"5" if state == "COMPLETE" else "2": value}, state)  # noqa: E731
    trials = (ended(-5.0, "COMPLETE"), ended(100.0, "PRUNED"), ended(3.0, "COMPLETE"))
    assert tuning_optuna.Progress(trials).best == 2
    assert tuning_optuna.Progress(trials[1:2]).best is None


def test_the_page_tells_success_from_failure(tmp_path: Path) -> None:
    solved = record("adadqn-architectures", 0.0, 201.0)
    failed = record("adadqn-architectures", 0.0, 0.0, 0.0, 0.0, seed=1)
    for one in (solved, failed, record("searl", 0.0)):  # the last is not over
        write_record(record_path(tmp_path, one.method, one.seed), one)
    for name in ARCHITECTURES:
        write_record(record_path(tmp_path, name, 3), record(name, 220.0, 0.0, 0.0, 0.0, seed=3))
    records = read_records(tmp_path)
    assert [len(runs) for runs in records.values()] == [2, 1]
    lines = table(records).splitlines()
    assert lines[2] == "| AdaDQN, four architectures | 1 of 2 seeds | 20; > 40 | 10; > 20 | 40 | 201 | 7; 7 |"
    assert lines[3].startswith("| Sweep of four DQNs | 1 of 1 seeds | 40 | 20 | 160 | 220 |")
    text = page_text(records, "folder")
    assert (
        "Not run: AdaDQN, defaults, Random search, DEHB, SEARL, Optuna over SB3's DQN, AdaDQN, infinite space." in text
    )
    marks = [(line.get_marker(), float(np.asarray(line.get_xdata())[0])) for line in draw(records).axes[0].lines]
    assert marks == [("o", 20.0), ("x", 40.0), ("o", 40.0), ("None", 40.0)]


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises((KeyError, UserError)):
        tuning_run.config_of("adadqn-archs", 0, 1_000)


@pytest.mark.thorough
def test_a_run_with_a_raised_cap_has_the_checks_of_a_run_in_one_go(tmp_path: Path) -> None:
    arguments = ("dqn-25x25", 0)
    in_one_go = tuning_run.run(*arguments, 1_600, 800, tmp_path / "a", started=0.0)
    tuning_run.run(*arguments, 1_100, 800, tmp_path / "b", started=0.0)
    in_two = tuning_run.run(*arguments, 1_600, 800, tmp_path / "b", started=0.0)
    assert [check.samples for check in in_one_go.checks] == [800, 1_600]
    for one, other in zip(in_one_go.checks, in_two.checks, strict=True):
        assert (one.samples, one.mean_return, one.training_return) == (
            other.samples,
            other.mean_return,
            other.training_return,
        )
    assert in_two.spent.samples == 1_600 and in_two.cap == 1_600
    assert in_two.checks[1].cpu_seconds > in_two.checks[0].cpu_seconds
