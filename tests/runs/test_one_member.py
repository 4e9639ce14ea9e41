"""`--member 3` and `member: 3` train one member of a file or preset alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from adaqn import DQN, SAC, Hyperparameters, grid
from adaqn.agents.registry import algorithm
from adaqn.base.errors import UserError
from adaqn.cli import main
from adaqn.runs.config import RunConfig, read_config

FOUR = [{"hidden": [n]} for n in (4, 5, 6, 7)]
RUN: dict[str, Any] = {"env": "CartPole-v1", "steps": 2_000, "algo": "dqn"}


@pytest.mark.parametrize("member", [0, 2, 3, "3"])
def test_the_member_with_this_number_is_the_only_one(member: int | str) -> None:
    config = RunConfig.from_dict(RUN | {"members": FOUR, "member": member})
    assert config.members == (Hyperparameters(hidden=(4 + int(member),)),)
    # The configuration is complete without the number.
    assert "member" not in config.to_dict()
    assert RunConfig.from_dict(yaml.safe_load(config.to_yaml())) == config


def test_a_preset_is_trained_one_by_one() -> None:
    values = read_config("lunar-lander")
    members = RunConfig.from_dict(values).members
    for number, member in enumerate(members):
        assert RunConfig.from_dict(values | {"algo": "dqn", "member": number}).members == (member,)
    # A grid is a list of members too, and SAC trains two equal ones.
    sixteen = RunConfig.from_dict(read_config("mujoco")).members
    assert RunConfig.from_dict(read_config("mujoco") | {"algo": "sac", "member": 11}).members == (sixteen[11],) * 2


def test_an_ensemble_of_one_is_one_as_well() -> None:
    assert len(RunConfig.from_dict(RUN | {"algo": "adadqn", "members": FOUR, "member": 1}).members) == 1
    with pytest.raises(UserError, match="needs at least 2 members, but got 1"):
        RunConfig.from_dict(RUN | {"algo": "adasac", "env": "Pendulum-v1", "members": FOUR, "member": 1})


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"members": FOUR, "member": 4}, "^member must be from 0 to 3, for 4 members, but got 4$"),
        ({"members": FOUR, "member": -1}, "^member must be a whole number of at least 0, but got -1$"),
        ({"members": FOUR, "member": "two"}, "^member must be a number, but got 'two'$"),
        ({"member": 0}, "^member picks one of the members that the configuration lists, but it lists none"),
        (
            {"algo": "adadqn", "members": FOUR, "space": "vectors", "member": 0},
            "^member picks one of .*, but this run has a space, which changes members: leave one of the two",
        ),
        (
            {"schedule": [{"step": 0, "hyperparameters": {}}], "member": 0},
            "^member picks one of .*, but this run has a schedule, which changes members",
        ),
    ],
)
def test_what_cannot_be_picked_is_told_in_a_sentence(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        RunConfig.from_dict(RUN | values)


@pytest.mark.parametrize(("name", "many"), [("dqn", "one member"), ("sac", "2 equal members")])
def test_several_members_for_one_are_told_with_the_way_to_pick_one(name: str, many: str) -> None:
    members = grid(hidden=[4, 5, 6])
    with pytest.raises(UserError) as caught:
        algorithm(name)._checked(members)
    assert str(caught.value) == (
        f"this algorithm trains exactly {many}, but got 3 (of 3 kinds): pick one by its number, 0 to 2, with --member "
        "on the command line, member: in a file, or members=[members[0]] in Python"
    )
    model = {"dqn": (DQN, "CartPole-v1"), "sac": (SAC, "Pendulum-v1")}[name]
    picked = model[0](model[1], members=[members[1]])  # as the sentence says
    assert {report.hyperparameters for report in picked.members} == {members[1]}


def train(tmp_path: Path, *flags: str) -> list[Any]:
    """The members of the run that these flags make, after a few steps."""
    run = tmp_path / "run"
    assert main(["train", "--quiet", "--run-dir", str(run), *flags]) == 0
    return yaml.safe_load((run / "config.yaml").read_text())["members"]


def test_the_command_line_trains_it(tmp_path: Path) -> None:
    (member,) = train(tmp_path, "--config", "lunar-lander", "--algo", "dqn", "--member", "1", "--steps", "1050")
    assert member["hidden"] == [50, 50]


def test_the_command_line_goes_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        yaml.safe_dump(RUN | {"members": FOUR, "member": 1, "steps": 60, "settings": {"learning_starts": 50}})
    )
    assert [member["hidden"] for member in train(tmp_path, "--config", str(file), "--member", "2")] == [[6]]
    # The file's `member` does not apply to members given on the command line.
    again = train(tmp_path, "--config", str(file), "--grid", "hidden=9", "--force")
    assert [member["hidden"] for member in again] == [[9]]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            ["--algo", "dqn"],
            "exactly one member, but got 4 (of 4 kinds): pick one by its number, 0 to 3, with --member",
        ),
        (["--algo", "dqn", "--member", "4"], "member must be from 0 to 3, for 4 members, but got 4"),
        (["--algo", "dqn", "--member", "two"], "argument --member: must be a whole number, but got 'two'"),
        (["--gamma", "high"], "argument --gamma: must be a number, but got 'high'"),
        (
            ["--member", "1", "--grid", "hidden=4,5"],
            "--member picks one of the members of a file or preset, but --grid",
        ),
        (["--member", "1", "--space", "vectors"], "but this run has a space"),
        (["--algo", "dqn", "--config", "lunar-lander-infinite", "--member", "1"], "lists none (members are sampled"),
        (["--algo", "dqn", "--member", "1", "--schedule", "s.yaml"], "but this run has a schedule"),
    ],
)
def test_mistakes_on_the_command_line_get_one_sentence(
    flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert main(["train", "--config", "lunar-lander", "--run-dir", str(run), *flags]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert sentence in line
    assert not run.exists()
