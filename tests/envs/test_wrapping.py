"""Wrappers by name: found, applied in order, written to the configuration; and an error message for invalid ones."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import FlattenObservation, RescaleObservation, TimeLimit

from adaqn.base.errors import EnvironmentFault, UserError
from adaqn.envs.wrapping import Wrapping, import_module, modules_from, wrappings_from

LIMIT = {"name": "gymnasium.wrappers:TimeLimit", "kwargs": {"max_episode_steps": 3}}


def cartpole() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1")


def test_names_mappings_and_classes_are_read_and_written_back() -> None:
    given = ["gymnasium.wrappers:FlattenObservation", LIMIT, FlattenObservation]
    read = wrappings_from(given)
    plain = [one.to_plain() for one in read]
    assert plain[:2] == given[:2]
    assert wrappings_from(plain) == read
    assert isinstance(read[2].around(cartpole()), FlattenObservation)
    assert wrappings_from(None) == () == wrappings_from([])


def test_the_first_wrapper_is_the_innermost() -> None:
    env = cartpole()
    for wrapping in wrappings_from([LIMIT, "gymnasium.wrappers:FlattenObservation"]):
        env = wrapping.around(env)
    assert isinstance(env, FlattenObservation) and isinstance(env.env, TimeLimit)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a:B", r"wrappers must be a list such as \[gymnasium.wrappers:FlattenObservation\], but got 'a:B'"),
        (7, "wrappers must be a list"),
        (["FlattenObservation"], "is written module:Name, .* but got 'FlattenObservation'"),
        (["gymnasium.wrappers."], "is written module:Name"),
        ([":B"], "is written module:Name"),
        ([7], "a wrapper is written as .* but got 7"),
        ([{"kwargs": {}}], "has a name and optionally kwargs, but got"),
        ([{"name": "a:B", "kwarg": {}}], "has a name and optionally kwargs, but got"),
        ([{"name": 3}], "is written module:Name, .* but got 3"),
        ([{"name": "a:B", "kwargs": [1]}], r"must be a mapping of names to values, but got \[1\]"),
        ([lambda env: env], "cannot be found by a name when the run is resumed; .*pass env= a function"),
    ],
)
def test_what_is_no_wrapper_is_said_when_it_is_read(given: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        wrappings_from(given)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:Wrapper", "there is no module 'nowhere'; install .* PYTHONPATH"),
        ("gymnasium.wrappers:FlatenObservation", "has no wrapper 'FlatenObservation'; did you mean 'FlattenObs"),
        ("math:pi", "'math:pi' is not a wrapper, but a float"),
        ("builtins:str", "'builtins:str' is not a wrapper: it returns a str, where a gymnasium.Env"),
    ],
)
def test_what_cannot_be_applied_is_said_in_one_sentence(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Wrapping(name).around(cartpole())


def test_a_wrapper_that_fails_is_named_with_what_it_was_given() -> None:
    with pytest.raises(EnvironmentFault, match=r"'gymnasium.wrappers:TimeLimit' raised .* made with {'steps': 3}"):
        Wrapping("gymnasium.wrappers:TimeLimit", {"steps": 3}).around(cartpole())
    limits = {"min_obs": np.float32(0), "max_obs": np.float32(1)}
    assert isinstance(
        Wrapping("gymnasium.wrappers:RescaleObservation", limits).around(gymnasium.make("MountainCar-v0")),
        RescaleObservation,
    )


def test_modules_are_names_and_each_is_imported_once() -> None:
    assert modules_from(["a.b", "c", "a.b"]) == ("a.b", "c")
    for given in ("math", 3, ["a-b"], [3], ["a."]):
        with pytest.raises(UserError, match="imports must "):
            modules_from(given)


def test_a_module_that_fails_is_said_in_one_sentence(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needy_module.py").write_text("import surely_not_installed\n")
    (tmp_path / "broken_module.py").write_text("raise RuntimeError('no display')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="'needy_module' cannot be imported: No module named 'surely_not_installed'"):
        import_module("needy_module")
    with pytest.raises(UserError, match="'broken_module' cannot be imported: it raised RuntimeError"):
        import_module("broken_module")
