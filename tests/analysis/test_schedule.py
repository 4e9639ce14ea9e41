"""From the history of a run to a schedule, and from a schedule to a run that follows it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from gymnasium import spaces

from adaqn import cli
from adaqn.agents.dqn import DQNAgent
from adaqn.agents.population import Population, Scheduled
from adaqn.agents.protocol import Clock, Generation, Operation, TargetUpdate
from adaqn.agents.settings import DQNSettings
from adaqn.analysis.schedule import schedule_of, write_schedule
from adaqn.api import DQN, AdaDQN
from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.config import schedule_from
from adaqn.runs.reading import RunData, member_of, read_run
from tests.agents.generation_cases import online_of, trained

SMALL, WIDE, DEEP = (Hyperparameters(hidden=hidden, learning_rate=0.01) for hidden in ((2,), (4,), (3, 3)))
SLOW = SMALL.replace(learning_rate=0.008)


def write_run(
    path: Path,
    generations: Sequence[tuple[int, Sequence[Hyperparameters]]],
    targets: Sequence[tuple[int, int]],
    header: str = "step,target,loss_0,loss_1,acted_0,acted_1",
    **settings: int,
) -> Path:
    """A run directory with these ensembles and target updates, as a run would have left it."""
    path.mkdir(parents=True)
    settings = settings or {"target_update_interval": 100}
    config = {"algo": "adadqn", "env": "CartPole-v1", "settings": settings}
    path.joinpath("config.yaml").write_text(yaml.safe_dump(config))
    lines = [
        json.dumps({
            "step": step,
            "generation": number,
            "members": [member.to_dict() | {"parent": None, "mutation": None} for member in members],
        })
        for number, (step, members) in enumerate(generations)
    ]  # fmt: skip
    path.joinpath("members.jsonl").write_text("".join(line + "\n" for line in lines))
    numbers = "," + ",".join(["0.5"] * (header.count(",") - 1))
    rows = [header, *(f"{step},{target}{numbers}" for step, target in targets)]
    path.joinpath("selection.csv").write_text("".join(row + "\n" for row in rows))
    return path


def test_a_schedule_by_hand(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run",
        [(0, [SMALL, WIDE]), (300, [DEEP, WIDE]), (500, [DEEP, SLOW]), (600, [SMALL, SLOW])],
        # At 300 the second stays target; at 400 it is the child in the first slot; at 500 and 600 the target's slot
        # says who it is after the generation of that step.
        [(100, 0), (200, 1), (300, 1), (400, 0), (500, 0), (600, 1), (700, 0), (800, 0)],
    )
    expected = (
        Scheduled(0, SMALL),
        Scheduled(200, WIDE),
        Scheduled(400, DEEP),
        Scheduled(600, SLOW),
        Scheduled(700, SMALL),
    )
    assert schedule_of(read_run(run)) == expected
    path = write_schedule(run)
    assert path == run / "schedule.yaml"
    assert schedule_from(path) == expected
    other = write_schedule(run, tmp_path / "new" / "other.yaml")
    assert other.read_bytes() == path.read_bytes()
    with pytest.raises(UserError, match="exists already; add --force"):
        write_schedule(run)
    assert write_schedule(run, force=True) == path
    assert yaml.safe_load(path.read_text())["schedule"][1] == {"step": 200, "hyperparameters": WIDE.to_dict()}


def test_equal_members_in_different_slots_are_no_change(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [(0, [SMALL, SMALL])], [(100, 1), (200, 0), (300, 1)])
    assert schedule_of(read_run(run)) == (Scheduled(0, SMALL),)


def test_a_target_that_is_replaced_at_once_counts_as_what_it_became(tmp_path: Path) -> None:
    header = "step,target,loss_0,acted_0"  # as in a run that follows a schedule itself
    run = write_run(tmp_path / "run", [(0, [SMALL]), (200, [WIDE])], [(100, 0), (200, 0), (300, 0)], header)
    assert schedule_of(read_run(run)) == (Scheduled(0, SMALL), Scheduled(200, WIDE))


def test_before_the_first_target_update_the_first_member_is_the_target(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [(0, [WIDE, SMALL])], [])
    assert schedule_of(read_run(run)) == (Scheduled(0, WIDE),)


def test_steps_are_those_at_which_an_interval_ends_and_not_those_that_all_environments_reached(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run",
        [(0, [SMALL, WIDE]), (201, [DEEP, WIDE])],
        [(102, 1), (201, 0), (300, 1), (402, 1), (501, 0)],  # three environments
    )
    expected = (
        Scheduled(0, SMALL),
        Scheduled(100, WIDE),
        Scheduled(200, DEEP),
        Scheduled(300, WIDE),
        Scheduled(500, DEEP),
    )
    assert schedule_of(read_run(run)) == expected


def test_of_several_target_updates_in_one_step_the_last_counts(tmp_path: Path) -> None:
    # Twenty-five environments go over the ends of two or three intervals at once.
    targets = [(25, 1), (25, 0), (50, 1), (50, 1), (50, 0), (75, 0), (75, 1), (100, 0), (100, 1)]
    run = write_run(tmp_path / "run", [(0, [SMALL, WIDE])], targets, target_update_interval=10)
    assert schedule_of(read_run(run)) == (Scheduled(0, SMALL), Scheduled(70, WIDE))


def test_in_one_environment_a_target_is_chosen_at_the_step_of_its_row(tmp_path: Path) -> None:
    run = write_run(tmp_path / "searl", [(0, [SMALL, WIDE])], [(37, 1), (101, 0)], target_update_interval=20)
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump(config | {"n_envs": 1}))
    assert schedule_of(read_run(run)) == (Scheduled(0, SMALL), Scheduled(37, WIDE), Scheduled(101, SMALL))


def test_what_has_no_schedule_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = "step,target,loss_0,loss_1,acted_0,acted_1,selected_0,selected_1"
    sac = write_run(tmp_path / "sac", [(0, [SMALL, WIDE])], [(100, 0)], header)
    with pytest.raises(UserError, match="has a pair of members as target, which no schedule of one member can follow"):
        write_schedule(sac)
    assert not (sac / "schedule.yaml").exists()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "config.yaml").write_text("{}")
    with pytest.raises(UserError, match="has no members yet"):
        write_schedule(tmp_path / "begun")
    with pytest.raises(UserError, match="there is no run directory"):
        write_schedule(tmp_path / "nowhere")
    assert cli.main(["schedule", str(sac)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_says_where_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [(0, [SMALL, WIDE])], [(100, 1)])
    assert cli.main(["schedule", str(run), "-o", str(tmp_path / "s.yaml")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 's.yaml'}\n"
    assert schedule_from(tmp_path / "s.yaml") == (Scheduled(0, SMALL), Scheduled(100, WIDE))


# A run that follows one.

BOX = spaces.Box(-9.0, 9.0, (1,))


def follower(*schedule: Scheduled, **settings: Any) -> DQNAgent:
    values = DQNSettings(**{"target_update_interval": 10, "learning_starts": 0, **settings})
    population = Population((schedule[0].hyperparameters,), schedule=schedule)
    return DQNAgent(values, population, BOX, spaces.Discrete(2))


def changes(agent: DQNAgent, steps: int) -> list[tuple[int, Hyperparameters]]:
    """The steps at which the member changed, in a run without environments."""
    run, seen = agent.init(0), []
    for step in range(1, steps + 1):
        clock = Clock(step, step - 1, steps)
        for operation in agent.plan(run, clock, np.zeros(1, bool)):
            if not operation.needs_batch:
                run, events = agent.perform(run, operation, clock, np.random.default_rng(0))
                if operation is Operation.GENERATION:
                    assert [type(event) for event in events] == [TargetUpdate, Generation]
                    seen.append((step, run.members[0]))
    return seen


def test_members_change_at_the_first_target_update_from_their_step_on() -> None:
    agent = follower(Scheduled(0, SMALL), Scheduled(20, WIDE), Scheduled(33, DEEP), Scheduled(60, SMALL))
    assert changes(agent, 80) == [(20, WIDE), (40, DEEP), (60, SMALL)]


def test_what_was_passed_over_before_learning_starts_is_made_up_for() -> None:
    agent = follower(Scheduled(0, SMALL), Scheduled(20, WIDE), Scheduled(30, DEEP), learning_starts=45)
    assert changes(agent, 80) == [(50, DEEP)]


def test_a_change_waits_for_an_update() -> None:
    agent = follower(Scheduled(0, SMALL), Scheduled(30, WIDE), train_freq=25)
    # Updates at 25, 50 and 75: at 30 there was one since 20, at 40 none since 30.
    assert changes(agent, 80) == [(30, WIDE)]
    agent = follower(Scheduled(0, SMALL), Scheduled(40, WIDE), train_freq=25)
    assert changes(agent, 80) == [(50, WIDE)]


def test_weights_are_inherited_and_the_optimizer_starts_afresh() -> None:
    agent = follower(Scheduled(0, SMALL), Scheduled(20, WIDE))
    run = trained(agent, agent.init(0), updates=3)
    before = online_of(run)[0]
    run, (update, generation) = agent.perform(run, Operation.GENERATION, Clock(step=20), np.random.default_rng(0))
    assert isinstance(update, TargetUpdate) and isinstance(generation, Generation)
    assert (update.target, generation.number, generation.members[0][1:]) == (0, 1, (0, "schedule"))
    assert run.members == (WIDE,)
    after = online_of(run)[0]
    # [1, n] kernel, [n] bias, [n, 2] kernel, [2] bias, with n = 2 and then 4.
    assert after[:2].tolist() == before[:2].tolist()
    assert after[4:6].tolist() == before[2:4].tolist()
    assert after[8:12].tolist() == before[4:8].tolist()
    assert after[16:].tolist() == before[8:].tolist()
    assert not np.any(np.asarray(run.learning.ensemble[0].optimizer[0].mu))
    assert jnp.array_equal(run.learning.target[0][0], after)
    trained(agent, run, updates=1)


SETTINGS: dict[str, Any] = {
    "learning_starts": 20, "target_update_interval": 10, "batch_size": 4, "buffer_size": 100, "exploration_steps": 50,
}  # fmt: skip
SPACE = {
    "activation": "relu", "optimizer": "adam", "loss": "l2", "learning_rate": [1e-3, 1e-1],
    "hidden": {"layers": [1, 1], "neurons": [3, 3]},
}  # fmt: skip


def replayed(folder: Path, steps: int, n_envs: int = 1) -> tuple[Scheduled, ...]:
    """The schedule of a run `ada` in a space, after a run `dqn` that followed it."""
    shared: dict[str, Any] = {**SETTINGS, "n_envs": n_envs}
    ada = AdaDQN("Probe/DelayedReward-v0", space=SPACE, population=3, generation_interval=20, seed=1, **shared)
    ada.learn(steps, run_dir=folder / "ada")
    path = write_schedule(folder / "ada")
    DQN("Probe/DelayedReward-v0", schedule=path, seed=2, **shared).learn(steps, run_dir=folder / "dqn")
    return schedule_from(path)


def target_changes(run: RunData) -> list[tuple[int, Hyperparameters]]:
    """The recorded steps at which the target changed, by the target after all operations of a step."""
    at_steps = {0: member_of(run.members[0]["members"][0])}
    for step, target in zip(run.selection.step.tolist(), run.selection.target.tolist(), strict=True):
        line = [line for line in run.members if line["step"] <= step][-1]
        at_steps[step] = member_of(line["members"][target])
    history = list(at_steps.items())
    return history[:1] + [now for before, now in itertools.pairwise(history) if now[1] != before[1]]


# Three environments are at 12, 21 and 30 when intervals of 10 end; twenty-five go over two or three ends at once.
@pytest.mark.parametrize(("n_envs", "steps"), [(3, 150), (25, 300)])
def test_a_run_of_several_environments_is_replayed(n_envs: int, steps: int, tmp_path: Path) -> None:
    schedule = replayed(tmp_path, steps, n_envs)
    changes = target_changes(read_run(tmp_path / "ada"))
    assert sum(step % 10 > 0 for step, _ in changes) >= 2
    assert all(step % n_envs == 0 for step, _ in changes)
    assert all(entry.step % 10 == 0 for entry in schedule)
    followed = [(line["step"], member_of(line["members"][0])) for line in read_run(tmp_path / "dqn").members]
    assert followed == changes
    assert schedule_of(read_run(tmp_path / "dqn")) == schedule


def test_a_run_is_replayed(tmp_path: Path) -> None:
    schedule = replayed(tmp_path, 120)
    assert len(schedule) > 2
    lines = read_run(tmp_path / "dqn").members
    assert [line["generation"] for line in lines] == list(range(len(schedule)))
    assert [(line["step"], member_of(line["members"][0])) for line in lines] == list(schedule)
    assert [line["members"][0]["mutation"] for line in lines] == [None, *["schedule"] * (len(schedule) - 1)]
    # The same schedule comes from the replay, and its config.yaml repeats it.
    assert schedule_of(read_run(tmp_path / "dqn")) == schedule
    assert cli.main([
        "train", "--quiet", "--config", str(tmp_path / "dqn" / "config.yaml"), "--run-dir", str(tmp_path / "again"),
    ]) == 0  # fmt: skip
    for name in ("config.yaml", "members.jsonl", "selection.csv", "episodes.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "dqn" / name).read_bytes()
