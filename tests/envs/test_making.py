"""Ids that cannot be made, and the error message for each."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import gymnasium
import pytest

from adaqn.base.errors import EnvironmentFault, UserError
from adaqn.envs.making import EXTRAS, make_environment, name_of, with_our_extra


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("LunarLandr-v3", "LunarLander-v3"),
        ("cartpole-v1", "CartPole-v1"),
        ("CartPole-v9", "CartPole-v1"),
        ("Probe/Truncated-v0", "Probe/Truncation-v0"),
        ("Prob/Truncation-v0", "Probe/Truncation-v0"),
    ],
)
def test_an_unknown_id_gets_the_nearest_one(given: str, meant: str) -> None:
    with pytest.raises(UserError, match=f"^unknown environment '{given}'; did you mean '{meant}'\\?"):
        make_environment(given, {})


@pytest.mark.parametrize("given", ["Nowhere/Walker-v5", "CartPol-v1"])
def test_an_unknown_id_gets_a_way_to_name_the_package_that_registers_it(given: str) -> None:
    with pytest.raises(
        UserError, match=f"unknown environment '{given}'.*write 'package:{given}', or import .* --import PACKAGE"
    ):
        make_environment(given, {})


def test_an_unknown_id_of_a_module_that_was_found_names_the_module() -> None:
    with pytest.raises(
        UserError, match=r"'gymnasium:CartPol-v1'; did you mean 'CartPole-v1'\? \(module 'gymnasium' has"
    ):
        make_environment("gymnasium:CartPol-v1", {})


def test_missing_packages_are_installed_by_our_extras() -> None:
    """What Gymnasium's MuJoCo environments raise, and what an import of each extra's module does."""
    message = 'MuJoCo is not installed, run `pip install "gymnasium[mujoco]"`'
    assert with_our_extra(message) == 'MuJoCo is not installed, run `pip install "adaqn[mujoco]"`'
    message = with_our_extra("No module named 'ale_py'")
    assert message == "No module named 'ale_py'; `pip install \"adaqn[atari]\"` installs it"
    assert with_our_extra("No module named 'mujoco_py'") == "No module named 'mujoco_py'"
    pyproject = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    elsewhere = {"hub", "onnx", "ray", "report", "slurm"}  # these are named where they are imported
    tools = {"cuda", "dev", "docs"}  # nothing imports these
    assert {*EXTRAS.values(), *elsewhere, *tools} == set(pyproject["project"]["optional-dependencies"])


def test_mujoco_missing_names_our_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("gymnasium.envs.mujoco")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(UserError, match=r"'HalfCheetah-v5' needs a package that is missing: .*\"adaqn\[mujoco\]\""):
        make_environment("HalfCheetah-v5", {})


def test_a_missing_package_is_named_with_the_extra_that_brings_it() -> None:
    def entry(**_: object) -> gymnasium.Env:
        raise gymnasium.error.DependencyNotInstalled('Box2D is not installed,\n run `pip install "gymnasium[box2d]"`')

    gymnasium.register("Needy-v0", entry)
    try:
        with pytest.raises(UserError, match=r"'Needy-v0' needs .* Box2D is not installed, run .*gymnasium\[box2d\]"):
            make_environment("Needy-v0", {})
    finally:
        del gymnasium.registry["Needy-v0"]
    with pytest.raises(UserError, match="needs a package that is missing: No module named 'nowhere'"):
        make_environment("nowhere:Xyzzy-v0", {})


def test_arguments_that_the_environment_does_not_take_are_shown() -> None:
    with pytest.raises(EnvironmentFault, match=r"'CartPole-v1' raised TypeError.*'foo'.* made with {'foo': 1}"):
        make_environment("CartPole-v1", {"foo": 1})
    with pytest.raises(UserError, match="'no id!' cannot be made: Malformed environment ID"):
        make_environment("no id!", {})


def test_arguments_reach_the_environment() -> None:
    env = make_environment("Pendulum-v1", {"g": 3.5, "max_episode_steps": 4})
    assert env.get_wrapper_attr("g") == 3.5
    env.reset(seed=0)
    ends = [env.step([0.0])[3] for _ in range(4)]
    assert ends == [False, False, False, True]
    assert name_of(env) == "Pendulum-v1"
