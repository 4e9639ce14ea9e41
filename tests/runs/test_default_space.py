"""Algorithms that need a space default to the one that fits the observations, report it, and record it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from adaqn import DEHB, SEARL, AdaDQN, RandomSearch
from adaqn.api import Model
from adaqn.cli import main
from adaqn.members.space import SearchSpace, default_space
from adaqn.runs.config import RunConfig

SEARCHERS = ["searl", "random-search", "dehb"]
NOTE = "No space was given: members come from the space 'vectors', which fits these observations (see --space)."


def config_of(algo: str, env: str, **values: Any) -> RunConfig:
    return RunConfig.from_dict({"algo": algo, "env": env, "steps": 50_000} | values)


@pytest.mark.parametrize("algo", SEARCHERS)
@pytest.mark.parametrize(("env", "name"), [("CartPole-v1", "vectors"), ("MinAtar/Breakout", "images")])
def test_it_fits_the_observations_and_is_written_down(algo: str, env: str, name: str) -> None:
    config = config_of(algo, env)
    assert config.space == SearchSpace.named(name)
    # The written configuration is explicit, and the same as if the space had been named.
    values = yaml.safe_load(config.to_yaml())
    assert values["space"] == SearchSpace.named(name).to_dict()
    assert RunConfig.from_dict(values) == config == config_of(algo, env, space=name)


def test_images_have_three_dimensions() -> None:
    named = [default_space(shape) for shape in ((), (8,), (8, 3), (84, 84, 4))]
    assert named == [SearchSpace.named(name) for name in ("vectors", "vectors", "vectors", "images")]


@pytest.mark.parametrize("kind", [SEARL, RandomSearch, DEHB])
def test_in_python_the_agent_has_it_too(kind: type) -> None:
    assert kind("CartPole-v1").space == SearchSpace.named("vectors")


def test_only_a_space_that_was_chosen_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(agent: Model) -> str:
        agent.learn(60, console=True)
        text = " ".join(capsys.readouterr().out.split())
        assert "60 steps in" in text
        return text

    search: dict[str, Any] = {"learning_starts": 50, "trial_steps": 60}
    other = {"base": "vectors", "optimizer": ["adam"]}
    given = RandomSearch("CartPole-v1", space=other, **search)
    assert given.space == SearchSpace.from_dict(other)
    assert "No space was given" not in shown(given)
    assert NOTE in shown(RandomSearch("CartPole-v1", **search))
    without = AdaDQN("CartPole-v1", [{"hidden": [8]}], learning_starts=50)
    assert without.space is None and "No space was given" not in shown(without)


def test_a_run_says_so_on_screen_and_in_its_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    flags = ["--env", "CartPole-v1", "--algo", "random-search", "--steps", "60", "--trial-steps", "60"]
    flags += ["--learning-starts", "50", "--run-dir", str(run)]
    assert main(["train", *flags]) == 0
    assert NOTE in " ".join(capsys.readouterr().out.split())
    assert yaml.safe_load((run / "config.yaml").read_text())["space"] == SearchSpace.named("vectors").to_dict()
