"""A run of SEARL interrupted at any step, within or between evaluations, resumes exactly; agents save and load."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adaqn
from adaqn import SEARL
from adaqn.agents.protocol import Clock, Generation, MemberEvaluation, Operation
from adaqn.agents.registry import algorithm
from adaqn.agents.searl import SEARLAgent
from adaqn.agents.settings import SEARLSettings
from adaqn.base.errors import UserError
from adaqn.base.snapshot import Snapshot
from adaqn.cli import main
from adaqn.members.space import SearchSpace
from adaqn.training.observers import Observer
from adaqn.training.trainer import Trainer
from tests.agents.searl.cases import Diary

SPACE = SearchSpace.from_dict(
    {
        "activation": ["relu", "tanh"],
        "optimizer": ["noisy_sgd", "adam"],
        "loss": ["l2", "huber"],
        "learning_rate": [1e-3, 1e-1],
        "hidden": {"layers": [0, 1], "neurons": [2, 3]},
    }
)
QUICK: dict[str, Any] = {
    "population": 3,
    "generation_interval": 40,
    "batch_size": 8,
    "train_freq": 2,
    "target_update_interval": 6,
}
STEPS = 150


def model(seed: int = 4, **changes: Any) -> SEARL:
    return SEARL("CartPole-v1", space=SPACE, seed=seed, **{**QUICK, **changes})


def everything(trainer: Trainer) -> tuple[dict[str, bytes], str]:
    snapshot = trainer.snapshot()
    rows = trainer.replay.rows(trainer.replay.oldest, trainer.replay.added)
    arrays = snapshot.arrays | {f"replay/{name}": array for name, array in rows.items()}
    return {name: array.tobytes() for name, array in arrays.items()}, json.dumps(snapshot.meta)


class Keeper(Observer):
    """Records a snapshot at every step."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[Snapshot, int, dict[str, np.ndarray]]] = {}

    def on_step(self, trainer: Trainer) -> None:
        replay = trainer.replay
        rows = replay.rows(replay.oldest, replay.added)
        self.kept[trainer.clock.step] = (trainer.snapshot(), replay.oldest, rows)


@pytest.fixture(scope="module")
def whole() -> tuple[Trainer, Keeper, Diary]:
    trainer, keeper, diary = model().trainer, Keeper(), Diary()
    trainer.run(STEPS, [keeper, diary])
    return trainer, keeper, diary


def borders(diary: Diary) -> dict[str, int]:
    """Steps of all kinds: within an evaluation, and at and around the ends of evaluations and generations."""
    episodes, first = diary.of(MemberEvaluation), diary.of(Generation)[0].step
    turn = next(e.step for e, after in itertools.pairwise(episodes) if e.member != after.member)
    return {
        "in an episode": episodes[0].step - 2,
        "at the end of an episode": episodes[0].step,
        "at the end of a turn": turn,
        "after it": turn + 1,
        "at the end of a generation": first,
        "before it": first - 1,
        "after that": first + 1,
    }


@pytest.mark.parametrize("where", [
    "in an episode", "at the end of an episode", "at the end of a turn", "after it",
    "at the end of a generation", "before it", "after that",
])  # fmt: skip
def test_a_run_goes_on_from_any_step(where: str, whole: tuple[Trainer, Keeper, Diary]) -> None:
    trainer, keeper, diary = whole
    step = borders(diary)[where]
    snapshot, first, rows = keeper.kept[step]
    other, later = model(seed=99).trainer, Diary()
    other.replay.restore(first, rows)
    other.restore(Snapshot(snapshot.arrays, json.loads(json.dumps(snapshot.meta))))
    other.run(STEPS, [later])
    arrays, meta = everything(other)
    expected_arrays, expected_meta = everything(trainer)
    assert [name for name in expected_arrays if arrays.get(name) != expected_arrays[name]] == []
    assert (arrays.keys(), meta) == (expected_arrays.keys(), expected_meta)
    assert later.events == [event for event in diary.events if event.step >= step]


# One update for two samples, and new targets at every sixth: in the midst of three updates, before and after renewals.
LEARN, RENEW = Operation.UPDATE, Operation.TARGET_UPDATE
POINTS = {
    "in an interval": ([LEARN] * 2, LEARN),
    "before a renewal": ([LEARN] * 3, RENEW),
    "after a renewal": ([LEARN] * 3 + [RENEW], LEARN),
    "before the next": ([LEARN] * 3 + [RENEW] + [LEARN] * 3, RENEW),
}


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in the same process", "from a checkpoint"])
@pytest.mark.parametrize("where", POINTS)
def test_a_run_that_was_interrupted_in_its_burst_does_the_rest_of_it(
    where: str, elsewhere: bool, whole: tuple[Trainer, Keeper, Diary], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, again, diary = whole[0], model().trainer, Diary()
    done_first, left = POINTS[where]
    done: list[Operation] = []

    def interrupting(original: Any) -> Any:
        def method(agent: SEARLAgent, state: Any, operation: Operation, *rest: Any) -> Any:
            if operation in (LEARN, RENEW):
                done.append(operation)
                if len(done) == len(done_first):
                    again.interrupt("SIGTERM")
            return original(agent, state, operation, *rest)

        return method

    for name in ("update", "perform"):
        monkeypatch.setattr(SEARLAgent, name, interrupting(getattr(SEARLAgent, name)))
    again.run(STEPS, [diary])
    first = whole[2].of(Generation)[0].step
    assert (again.clock.step, again.interrupted, done) == (first, True, done_first)
    assert (again.pending[0], again.pending[-1]) == (left, Operation.GENERATION)
    if elsewhere:
        snapshot, replay = again.snapshot(), again.replay
        again = model(seed=99).trainer
        again.replay.restore(replay.oldest, replay.rows(replay.oldest, replay.added))
        again.restore(Snapshot(snapshot.arrays, json.loads(json.dumps(snapshot.meta))))
    again.run(STEPS, [diary])
    assert everything(again) == everything(trainer)
    assert diary.events == whole[2].events


def test_from_the_agent_of_a_run_that_was_interrupted_in_its_burst_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update, steps = SEARLAgent.update, []
    interrupted = model(learning_starts=30)

    def noted(
        agent: SEARLAgent, state: Any, operation: Operation, batch: Any, clock: Clock, rng: Any, act_on: Any = None
    ) -> Any:
        steps.append(clock.step)
        if len(steps) == 5:
            interrupted.trainer.interrupt("SIGTERM")
        return update(agent, state, operation, batch, clock, rng, act_on)

    monkeypatch.setattr(SEARLAgent, "update", noted)
    with pytest.raises(SystemExit, match="143"):
        interrupted.learn(STEPS, run_dir=tmp_path / "run")
    left_at = interrupted.num_timesteps
    assert steps == [left_at] * 5 and interrupted.trainer.pending[-1] is Operation.GENERATION
    again = SEARL.from_run(tmp_path / "run")
    assert (again.num_timesteps, again.trainer.updates, again.trainer.state.population.generation) == (left_at, 5, 0)
    again.learn(150, reset_num_timesteps=False)
    # The pending rest of the burst is dropped: there is nothing to learn from until further steps were taken.
    assert len(steps) > 5 and min(steps[5:]) > left_at + 30
    assert again.trainer.updates == len(steps) and again.trainer.state.population.generation > 1
    later = [episode for episode in again.trainer.recent_episodes if episode.step > left_at]
    assert later and all(episode.length <= episode.step - left_at for episode in later)


def test_going_on_after_the_end_repeats_nothing() -> None:
    halves, one = model(), model()
    ends: list[int] = []
    one.learn(120, callback=lambda trainer: ends.append(trainer.clock.step) if trainer._ended[0] else None)
    # Interrupt at the end of an episode, where operations are due, and resume.
    halves.learn(ends[3]).learn(120 - ends[3], reset_num_timesteps=False)
    assert halves.trainer.updates == one.trainer.updates
    ours, theirs = (everything(m.trainer)[0] for m in (halves, one))
    assert ours == theirs


def test_save_load_and_predict(tmp_path: Path, whole: tuple[Trainer, Keeper, Diary]) -> None:
    trained = model().learn(STEPS)
    assert everything(trained.trainer)[0] == everything(whole[0])[0]
    observations = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    actions, _ = trained.predict(observations, deterministic=True)
    agent, state = trained.trainer.agent, trained.trainer.state
    assert isinstance(agent, SEARLAgent)
    elite = agent.members.target_member(state.population)
    values = agent.members.programs(state.population)[elite].values
    q = values(state.population.learning.ensemble[elite].parameters, observations)
    assert np.argmax(np.asarray(q), axis=1).tolist() == list(actions)
    loaded = SEARL.load(trained.save(tmp_path / "agent"))
    assert isinstance(loaded, SEARL)
    assert loaded.predict(observations, deterministic=False)[0].tolist() == actions.tolist()
    assert [m.hyperparameters for m in loaded.members] == [m.hyperparameters for m in trained.members]
    assert loaded.trainer.state.evaluation == state.evaluation
    # It continues with an empty replay buffer, in a new episode of the member under evaluation.
    loaded.learn(100, reset_num_timesteps=False)
    assert loaded.num_timesteps == STEPS + 100
    assert loaded.trainer.state.population.generation > state.population.generation


def test_a_run_on_the_command_line(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    flags = {
        "algo": "searl",
        "env": "CartPole-v1",
        "space": "vectors",
        "steps": "100",
        "population": "2",
        "generation-interval": "40",
        "batch-size": "8",
        "train-freq": "4",
        "log-interval": "50",
        "run-dir": str(run_dir),
    }
    assert main(["train", "--quiet", *(part for n, v in flags.items() for part in (f"--{n}", v))]) == 0
    with (run_dir / "evaluations.csv").open() as file:
        evaluations = list(csv.DictReader(file))
    assert list(evaluations[0]) == ["step", "generation", "member", "return", "length"]
    with (run_dir / "episodes.csv").open() as file:
        episodes = list(csv.DictReader(file))
    assert [(e["step"], e["return"], e["length"]) for e in evaluations] == [tuple(e.values()) for e in episodes]
    with (run_dir / "selection.csv").open() as file:
        rows = list(csv.DictReader(file))
    members = [json.loads(line) for line in (run_dir / "members.jsonl").read_text().splitlines()]
    assert [line["step"] for line in members] == [0, *(int(row["step"]) for row in rows)]
    assert len(rows) >= 1
    first = rows[0]
    lengths = [sum(int(e["length"]) for e in evaluations if (e["generation"], e["member"]) == ("0", k)) for k in "01"]
    assert [first["acted_0"], first["acted_1"]] == [str(length) for length in lengths]
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary["updates"] == sum((int(row["acted_0"]) + int(row["acted_1"])) // 4 for row in rows)
    with (run_dir / "progress.csv").open() as file:
        progress = list(csv.DictReader(file))
    means = [
        np.mean([float(e["return"]) for e in evaluations if (e["generation"], e["member"]) == (str(len(rows) - 1), k)])
        for k in "01"
    ]
    assert float(progress[-1]["rollout/searl_return_max"]) == pytest.approx(max(means))
    assert float(progress[-1]["rollout/searl_return_mean"]) == pytest.approx(np.mean(means))
    assert float(progress[-1]["rollout/searl_return_min"]) == pytest.approx(min(means))


def test_what_a_user_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="evaluates one member at a time: n_envs must be 1, but it is 2"):
        model(n_envs=2)
    with pytest.raises(UserError, match="unknown setting 'exploration_final_eps'"):
        model(exploration_final_eps=0.1)
    run_dir = tmp_path / "run"
    flags = ["--algo", "searl", "--env", "CartPole-v1", "--steps", "20000", "--run-dir", str(run_dir)]
    assert main(["train", *flags, "--space", "vectors", "--n-envs", "3"]) == 1
    assert "n_envs must be 1, but it is 3" in capsys.readouterr().err
    assert main(["train", *flags, "--space", "vectors", "--generation-interval", "20001"]) == 1
    told = capsys.readouterr().err
    assert "a run of 20000 steps is too short: it would never learn, because members learn at the end of a" in told
    assert "at least 20001 steps (generation_interval)" in told
    with pytest.raises(UserError, match="would never learn, because learning_starts is 150"):
        model(learning_starts=STEPS).learn(STEPS)
    assert not run_dir.exists()


@pytest.mark.parametrize(("name", "low"), [
    ("learning_starts", 0), ("buffer_size", 1), ("batch_size", 1), ("train_freq", 1), ("n_steps", 1),
    ("target_update_interval", 1),
    ("population", 1), ("generation_interval", 1),
])  # fmt: skip
def test_counts_in_the_settings(name: str, low: int) -> None:
    given: dict[str, Any] = {name: str(low)}
    assert getattr(SEARLSettings(**given), name) == low
    given[name] = low - 1
    with pytest.raises(UserError, match=f"{name} must be a whole number of at least {low}, but got {low - 1}"):
        SEARLSettings(**given)


def test_the_algorithm_and_its_names() -> None:
    assert algorithm("searl").configure({}).learning_starts == 0
    assert adaqn.SEARL is SEARL and SEARL.algo == "searl"
    with pytest.raises(UserError, match=r"gamma must be a finite number between 0 and 1, but got 1\.5"):
        SEARLSettings(gamma=1.5)
