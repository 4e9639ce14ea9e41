"""Ids that cannot be made, and the sentence for each."""

from __future__ import annotations

import gymnasium
import pytest

from adaqn.envs.making import make_environment, name_of
from adaqn.errors import EnvironmentFault, UserError


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


def test_an_unknown_suite_gets_a_way_to_name_its_module() -> None:
    with pytest.raises(UserError, match=r"unknown environment 'Nowhere/Walker-v5'; .*'<module>:Nowhere/Walker-v5'"):
        make_environment("Nowhere/Walker-v5", {})


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
