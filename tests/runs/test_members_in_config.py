"""Where members come from in a configuration: a grid, a space, a schedule; and that config.yaml repeats them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from adaqn.agents.algorithms import LARGE_IMAGE, SMALL_IMAGE, default_member, default_members
from adaqn.agents.population import Scheduled
from adaqn.api import AdaDQN, Model
from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import Hyperparameters, grid
from adaqn.runs.config import RunConfig, read_config, schedule_from

RUN: dict[str, Any] = {"env": "CartPole-v1", "steps": 2_000}
SPACE = {"base": "vectors", "activation": ["relu", "tanh"], "hidden": {"layers": [1, 1], "neurons": [2, 6]}}
SCHEDULE = [
    {"step": 0, "hyperparameters": {"hidden": [4], "learning_rate": 0.01}},
    {"step": 400, "hyperparameters": {"hidden": [8], "learning_rate": 0.01, "optimizer_options": {"eps": 1e-4}}},
]


def from_text(text: str, **changes: Any) -> RunConfig:
    return RunConfig.from_dict(RUN | yaml.safe_load(text) | changes)


def repeated(config: RunConfig) -> RunConfig:
    return RunConfig.from_dict(yaml.safe_load(config.to_yaml()))


def test_a_grid_is_a_short_way_to_write_members() -> None:
    config = from_text("grid: {hidden: [[4], [8, 8]], learning_rate: [1.0e-3, 1.0e-2], optimizer.eps: [1.0e-4]}")
    assert config.members == grid(
        Hyperparameters(optimizer_options=(("eps", 1e-4),)), hidden=[(4,), (8, 8)], learning_rate=[1e-3, 1e-2]
    )
    assert repeated(config) == config
    assert "grid" not in config.to_dict()  # the members are named one by one


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"grid": {"hidden": [[4]]}, "members": [{"hidden": [8]}]},
            "has members and a grid, .*: leave one of them out",
        ),
        ({"grid": [{"hidden": [4]}]}, "grid in the configuration must map names to lists of values, but got"),
        ({"grid": {"hiden": [[4]]}}, r"unknown hyperparameter 'hiden'; did you mean 'hidden'\?"),
        ({"grid": {"hidden": 4}}, "grid needs a list of values for hidden, but got 4"),
        (
            {"space": SPACE, "members": [{"hidden": [4]}, {"hidden": [7]}]},
            "member 1 is not in the space .*'hidden': .7.",
        ),
        ({"space": SPACE, "grid": {"hidden": [[4]], "activation": ["elu"]}}, "member 0 is not in the space"),
        ({"space": "vektors"}, r"unknown search space .*'vektors'; did you mean 'vectors'\?"),
        ({"space": SPACE, "algo": "dqn"}, "this algorithm cannot search a space of hyperparameters, but got one"),
        ({"schedule": SCHEDULE}, "only dqn supports a schedule of hyperparameters"),
        ({"schedule": SCHEDULE, "algo": "adasac", "env": "Pendulum-v1"}, "only dqn supports a schedule"),
        ({"schedule": SCHEDULE[::-1], "algo": "dqn"}, r"steps of a schedule must increase, but they are \[400, 0\]"),
        ({"schedule": [SCHEDULE[0]] * 2, "algo": "dqn"}, r"must increase, but they are \[0, 0\]"),
        ({"schedule": "nowhere.yaml", "algo": "dqn"}, "there is no file nowhere.yaml with a schedule"),
        ({"schedule": {"steps": []}, "algo": "dqn"}, "a list of entries with step and hyperparameters, but got None"),
        ({"schedule": [{"step": 3}], "algo": "dqn"}, "an entry of a schedule has step and hyperparameters, but got"),
        ({"schedule": [{"step": -3, "hyperparameters": {}}], "algo": "dqn"}, "the step of a schedule .*-3"),
        (
            {"schedule": [{"step": 3, "hyperparameters": {"rate": 1}}], "algo": "dqn"},
            "unknown hyperparameter 'rate'",
        ),
    ],
)
def test_what_does_not_fit_is_told_in_a_sentence(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        RunConfig.from_dict(RUN | values)


def test_an_interval_that_does_not_fit_is_told_before_the_run() -> None:
    settings = {"generation_interval": 300, "target_update_interval": 200, "population": 2}
    config = RunConfig.from_dict(RUN | {"space": SPACE, "settings": settings})
    with pytest.raises(UserError, match="must be a multiple of target_update_interval, 200, but it is 300"):
        Model.from_config(config)


def test_members_drawn_from_a_space_are_named_and_drawn_again_for_the_same_seed() -> None:
    config = RunConfig.from_dict(RUN | {"space": SPACE, "settings": {"population": 3}})
    assert config.space is not None and len(config.members) == 3
    assert all(config.space.contains(member) for member in config.members)
    assert repeated(config) == config
    assert RunConfig.from_dict(RUN | {"space": SPACE, "settings": {"population": 3}}) == config
    assert (
        RunConfig.from_dict(RUN | {"space": SPACE, "settings": {"population": 3}, "seed": 1}).members != config.members
    )
    agent = AdaDQN("CartPole-v1", space=SPACE, population=3)
    assert tuple(report.hyperparameters for report in agent.members) == config.members


def test_members_given_with_a_space_are_where_it_starts() -> None:
    members = [{"hidden": [4]}, {"hidden": [6], "activation": "tanh"}]
    config = RunConfig.from_dict(RUN | {"space": SPACE, "members": members})
    assert [member.hidden for member in config.members] == [(4,), (6,)]
    assert repeated(config) == config


def test_a_schedule_comes_from_values_a_file_or_itself(tmp_path: Path) -> None:
    expected = (
        Scheduled(0, Hyperparameters(hidden=(4,), learning_rate=0.01)),
        Scheduled(400, Hyperparameters(hidden=(8,), learning_rate=0.01, optimizer_options=(("eps", 1e-4),))),
    )
    path = tmp_path / "schedule.yaml"
    path.write_text(yaml.safe_dump({"schedule": SCHEDULE}))
    for given in (SCHEDULE, {"schedule": SCHEDULE}, str(path), path, expected):
        assert schedule_from(given) == expected
    config = RunConfig.from_dict(RUN | {"algo": "dqn", "schedule": str(path)})
    assert config.schedule == expected
    assert config.members == (expected[0].hyperparameters,)
    assert repeated(config) == config  # also when the file is gone
    plain = RunConfig.from_dict(RUN | {"algo": "dqn"})
    assert plain.schedule == () and repeated(plain) == plain


@pytest.mark.parametrize(("text", "sentence"), [("- [", "is not valid YAML"), ("3", "is a list .*, but got 3")])
def test_a_file_that_holds_no_schedule_is_told(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "schedule.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=sentence):
        schedule_from(path)


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "schedule.yaml"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UserError, match=r"cannot read .*schedule\.yaml as text"):
        schedule_from(path)


@pytest.mark.parametrize(("algo", "count"), [("adadqn", 4), ("dqn", 1), ("randdqn", 4)])
def test_without_members_there_are_default_ones(algo: str, count: int) -> None:
    config = RunConfig.from_dict(RUN | {"algo": algo})
    assert len(config.members) == count
    assert all(member.hidden and not member.convolutions for member in config.members)


@pytest.mark.parametrize(
    ("shape", "convolutions", "hidden"),
    [((84, 84, 4), LARGE_IMAGE, (512,)), ((36, 50, 3), LARGE_IMAGE, (512,)), ((10, 10, 6), SMALL_IMAGE, (128,))],
)
def test_images_have_convolutions_by_default(
    shape: tuple[int, ...], convolutions: tuple[Any, ...], hidden: tuple[int, ...]
) -> None:
    member = default_member(shape)
    assert (member.convolutions, member.hidden) == (convolutions, hidden)
    members = default_members(shape)
    assert {(m.convolutions, m.hidden) for m in members} == {(convolutions, hidden)}
    assert [m.learning_rate for m in members] == [1e-4, 3e-4, 1e-3]


def test_the_default_for_the_pixels_of_minatar_is_the_small_one() -> None:
    config = RunConfig.from_dict({"env": "MinAtar/Breakout", "steps": 2_000, "algo": "dqn"})
    assert config.members == (default_member((10, 10, 4)),)
    assert config.members[0].convolutions == SMALL_IMAGE


def test_a_preset_can_be_read_by_name_and_by_path(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(read_config("lunar-lander-infinite")))
    assert RunConfig.from_dict(read_config(path)) == RunConfig.from_dict(read_config("lunar-lander-infinite"))
