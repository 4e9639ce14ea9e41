"""Impossible sizes are refused in one sentence, before anything is allocated, wherever they are given."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ConfigSpace  # noqa: F401 (to import it while allocations are traced takes long)
import gymnasium
import numpy as np
import pytest
import yaml

from adaqn.api import model_class
from adaqn.base.errors import UserError
from adaqn.cli import main
from adaqn.members.hyperparameters import layers_from_text

MB, GB = 10**6, 10**9
AVAILABLE = 8 * GB
HAS = "but 8.00 GB of memory are available"


class ManyActions(gymnasium.Env[np.ndarray, np.int64]):
    """An environment that is never stepped."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,))
    action_space = gymnasium.spaces.Discrete(10**9)


class Case(NamedTuple):
    """A run that is refused."""

    algo: str
    values: dict[str, Any]  # settings, `hidden` of one member, `space` or `n_envs`
    sentence: str  # parts of the message, with ... between them
    env: str = "CartPole-v1"


CASES = {
    "buffer 1e18": Case(
        "dqn", {"buffer_size": 10**18}, f"the replay buffer takes ... GB ..., {HAS}: lower buffer_size"
    ),
    "buffer 1e12": Case(
        "dqn", {"buffer_size": 10**12}, f"replay buffer takes 48,000.00 GB ..., {HAS}: lower buffer_size"
    ),
    "batch 1e12": Case("dqn", {"batch_size": 10**12}, f"for a batch of 1000000000000 ..., {HAS}: lower batch_size"),
    "batch 1e9": Case("dqn", {"batch_size": 10**9}, f"needs 1,653.00 GB ... a batch ..., {HAS}: lower batch_size"),
    "batch of a search": Case("random-search", {"batch_size": 10**9}, f"for a batch ..., {HAS}: lower batch_size"),
    "batch of SAC": Case("sac", {"batch_size": 10**9}, f"for a batch ..., {HAS}: lower batch_size", "Pendulum-v1"),
    "layers": Case(
        "dqn",
        {"hidden": "100000x100000"},
        f"needs 160.06 GB ... (a layer has 100000 x 100000 weights), {HAS}: take smaller hidden layers",
    ),
    "layers of SAC": Case(
        "sac",
        {"hidden": "100000x100000"},
        f"of 2 members (a layer has 100000 x 100000 weights), {HAS}: take smaller hidden layers",
        "Pendulum-v1",
    ),
    "actor": Case("sac", {"actor_hidden": "100000x100000"}, f"for the actor, {HAS}: ... actor_hidden", "Pendulum-v1"),
    "actions": Case("dqn", {}, f"{HAS}: take an environment with fewer actions than 1000000000", "ManyActions-v0"),
    "actions of SEARL": Case("searl", {}, f"{HAS}: ... fewer actions than 1000000000", "ManyActions-v0"),
    "space": Case(
        "random-search",
        {"space": {"base": "vectors", "hidden": {"neurons": [25, 10**6]}}},
        f"for the largest network of the space, ..., {HAS}: take smaller hidden layers",
    ),
    "n_steps": Case("dqn", {"n_steps": 10**9}, "n_steps must be a whole number of at most 100000, but got 1000000000"),
    "n_steps of SAC": Case("sac", {"n_steps": 10**9}, "n_steps must be ... at most 100000, ...", "Pendulum-v1"),
    "n_steps of SEARL": Case("searl", {"n_steps": 10**9}, "n_steps must be ... at most 100000, ..."),
    "n_steps in memory": Case(
        "dqn", {"n_steps": 10**5, "batch_size": 10**4}, f"a batch of 10000 ... over 100000 steps, {HAS}: lower n_steps"
    ),
    "gradient_steps": Case("dqn", {"gradient_steps": 10**9}, "gradient_steps must be ... at most 100000, but got ..."),
    "gradient_steps of SAC": Case("sac", {"gradient_steps": 10**9}, "gradient_steps ... at most 100000", "Pendulum-v1"),
    "population": Case("searl", {"population": 10**9}, "population must be ... at most 1000, but got 1000000000"),
    "population of AdaDQN": Case("adadqn", {"population": 10**9, "space": "vectors"}, "population ... at most 1000,"),
    "n_envs": Case("dqn", {"n_envs": 10**6}, "n_envs must be a whole number of at most 1024, but got 1000000"),
    "trials": Case(
        "dehb",
        {"max_trial_steps": 10**18},
        "a bracket would start with ... trials, ... at most 100000 are allowed: ...",
    ),
}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A simulated machine with 8 GB, on which no run may reach its first step."""
    gymnasium.register("ManyActions-v0", lambda **_: ManyActions())
    for module in ("memory", "ring"):
        monkeypatch.setattr(f"adaqn.replay.{module}.available_memory", lambda: AVAILABLE)
    yield
    del gymnasium.registry["ManyActions-v0"]


def check(case: Case, told: str) -> None:
    """Check that the message has these parts in this order."""
    assert "\n" not in told
    place = 0
    for part in case.sentence.split("..."):
        found = told.find(part.strip(), place)
        assert found >= 0, f"{part!r} is not in {told!r}"
        place = found + 1


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_in_python(case: Case) -> None:
    values = dict(case.values)
    hidden = values.pop("hidden", None)
    members = None if hidden is None else [{"hidden": layers_from_text(hidden)}]
    tracemalloc.start()
    with pytest.raises(UserError) as caught:
        model_class(case.algo)(case.env, members, **values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    check(case, str(caught.value))
    assert peak < 200 * MB  # memory taken by imports


@pytest.mark.parametrize("case", [c for c in CASES.values() if not isinstance(c.values.get("space"), dict)])
def test_on_the_command_line(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["train", "--env", case.env, "--algo", case.algo, "--steps", "100000", "--run-dir", str(tmp_path / "run")]
    for name, value in case.values.items():
        flags += ["--grid", f"hidden={value}"] if name == "hidden" else [f"--{name.replace('_', '-')}", str(value)]
    assert main(flags) == 1
    (line,) = capsys.readouterr().err.splitlines()
    check(case, line)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_in_a_file(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = dict(case.values)
    config: dict[str, Any] = {"env": case.env, "algo": case.algo, "steps": 100_000}
    if "hidden" in values:
        config["members"] = [{"hidden": list(layers_from_text(values.pop("hidden")))}]
    config |= {name: values.pop(name) for name in ("space", "n_envs") if name in values}
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(config | {"settings": values}))
    assert main(["train", "--config", str(file), "--run-dir", str(tmp_path / "run")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    check(case, line)
    assert list(tmp_path.iterdir()) == [file]


def test_what_the_system_refuses_is_the_same_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates unknown or overestimated memory: the allocation itself fails."""
    for module in ("memory", "ring"):
        monkeypatch.setattr(f"adaqn.replay.{module}.available_memory", lambda: None)
    for size in (10**16, 10**18, 10**30):
        with pytest.raises(UserError, match=r"^the replay buffer takes .* GB when it is full, .*: lower buffer_size$"):
            model_class("dqn")("CartPole-v1", buffer_size=size)


def test_the_largest_that_is_allowed_is_made() -> None:
    settings: dict[str, Any] = {
        "gradient_steps": 100_000,
        "n_steps": 100_000,
        "batch_size": 1,
        "buffer_size": 200_000_000,
    }
    agent = model_class("dqn")("CartPole-v1", [{"hidden": [4]}], **settings)  # not yet filled
    assert agent.trainer.replay.nbytes == 9_600_000_000 > AVAILABLE
