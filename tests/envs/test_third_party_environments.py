"""Tests of other packages' environments, on the command line and in Python, with wrappers, imports and functions."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import yaml

from adaqn import DQN, AdaDQN, UserError
from adaqn.api import Model
from adaqn.cli import main
from adaqn.training.trainer import Trainer

# A package like a published one: it registers its ids when it is imported.
PACKAGE = '''
import gymnasium
import numpy as np
from gymnasium import spaces


class Corridor(gymnasium.Env):
    """Walk to the right; what is observed is a dictionary."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, length=5, render_mode=None):
        self.length = length
        self.render_mode = render_mode
        self.observation_space = spaces.Dict({"at": spaces.Box(0, 99, (1,)), "goal": spaces.Box(0, 99, (1,))})
        self.action_space = spaces.Discrete(2)

    def _observe(self):
        return {"at": np.array([self.at], np.float32), "goal": np.array([self.length], np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = int(self.np_random.integers(2))
        return self._observe(), {}

    def step(self, action):
        self.at = max(0, self.at + 2 * int(action) - 1)
        return self._observe(), -1.0, self.at >= self.length, False, {"at": self.at}

    def render(self):
        frame = np.zeros((16, 16, 3), np.uint8)
        frame[:, : 1 + min(self.at, 14)] = 255
        return frame


class Doubled(gymnasium.RewardWrapper):
    def __init__(self, env, factor=2.0):
        super().__init__(env)
        self.factor = factor

    def reward(self, reward):
        return reward * self.factor


gymnasium.register("Corridor-v0", Corridor, max_episode_steps=20)
'''
FLATTEN = "gymnasium.wrappers:FlattenObservation"
QUICK = ["--steps", "120", "--learning-starts", "50", "--grid", "hidden=8", "--quiet"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an importable package that has not been imported."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "corridors.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "corridors", raising=False)
    monkeypatch.delitem(gymnasium.registry, "Corridor-v0", raising=False)
    return "corridors"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget imported modules, as in a new process."""
    monkeypatch.delitem(sys.modules, "corridors", raising=False)
    monkeypatch.delitem(gymnasium.registry, "Corridor-v0", raising=False)


def sentence(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(arguments) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("adaqn: ")
    return lines[0]


def test_what_each_sentence_advises_leads_to_a_run(
    package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    train = ["train", "--env", "Corridor-v0", *QUICK]
    assert "--import PACKAGE" in sentence(capsys, *train)
    train += ["--import", package]
    assert f"--wrappers {FLATTEN}" in sentence(capsys, *train)
    run = tmp_path / "run"
    assert main([*train, "--wrappers", FLATTEN, "--run-dir", str(run)]) == 0
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert (config["imports"], config["wrappers"]) == ([package], [FLATTEN])
    # In a new process the run itself names the modules to import.
    forget(monkeypatch)
    evaluate = ["evaluate", str(run), "--episodes", "2", "--video", str(tmp_path / "film.gif")]
    assert f"imports '{package}', which can execute any code" in sentence(capsys, *evaluate)
    assert main([*evaluate, "--trust-env"]) == 0
    assert "over 2 episodes" in capsys.readouterr().out and (tmp_path / "film.gif").stat().st_size > 100
    forget(monkeypatch)
    again = tmp_path / "again"
    assert main(["train", "--config", str(run / "config.yaml"), "--quiet", "--run-dir", str(again)]) == 0
    assert (again / "episodes.csv").read_bytes() == (run / "episodes.csv").read_bytes()
    assert (again / "config.yaml").read_bytes() == (run / "config.yaml").read_bytes()
    forget(monkeypatch)
    assert main(["evaluate", str(run), "--episodes", "1", "--import", package]) == 0, "--import implies trust"


def test_wrappers_in_yaml_have_arguments_and_change_what_is_learned_from(package: str, tmp_path: Path) -> None:
    values = {
        "env": f"{package}:Corridor-v0",
        "steps": 120,
        "members": [{"hidden": [8]}],
        "settings": {"learning_starts": 50},
        "wrappers": [FLATTEN, {"name": f"{package}:Doubled", "kwargs": {"factor": 3.0}}],
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    run = tmp_path / "run"
    assert main(["train", "--config", str(tmp_path / "run.yaml"), "--quiet", "--run-dir", str(run)]) == 0
    assert yaml.safe_load((run / "config.yaml").read_text())["wrappers"] == values["wrappers"]
    for line in (run / "episodes.csv").read_text().splitlines()[1:]:
        _, total, length = line.split(",")
        assert float(total) == -3.0 * int(length)
    # Wrappers on the command line replace those of the file.
    other = tmp_path / "other"
    arguments = ["train", "--config", str(tmp_path / "run.yaml"), "--wrappers", FLATTEN, "--run-dir", str(other)]
    assert main([*arguments, "--quiet"]) == 0
    line = (other / "episodes.csv").read_text().splitlines()[1].split(",")
    assert float(line[1]) == -1.0 * int(line[2])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--import", "nowhere"], "there is no module 'nowhere'"),
        (["--import", "no-name"], "imports must name modules such as gymnasium_robotics, but got 'no-name'"),
        (["--wrappers", "FlattenObservation"], "is written module:Name"),
        (["--wrappers", "gymnasium.wrappers:Flaten"], "has no wrapper 'Flaten'"),
        (["--wrappers", "builtins:str"], "is not a wrapper"),
        (["--wrappers", "gymnasium.wrappers:TimeLimit"], "'gymnasium.wrappers:TimeLimit' raised TypeError"),
    ],
)
def test_mistakes_get_one_sentence(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert expected in sentence(capsys, "train", "--env", "CartPole-v1", *QUICK, *arguments)


def test_a_run_made_with_an_object_is_used_from_the_command_line_by_naming_its_environment(
    package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def env() -> gymnasium.Env[Any, Any]:
        return gymnasium.wrappers.FlattenObservation(gymnasium.make(f"{package}:Corridor-v0"))

    def interrupt(trainer: Trainer) -> None:
        if trainer.clock.step == 90:
            trainer.interrupt("SIGTERM")

    run, whole = tmp_path / "run", tmp_path / "whole"
    DQN(env(), [{"hidden": [8]}], learning_starts=50).learn(120, run_dir=whole)
    session = DQN(env(), [{"hidden": [8]}], learning_starts=50)
    with contextlib.suppress(KeyboardInterrupt, SystemExit):
        session.learn(120, callback=interrupt, run_dir=run)
    for command in ("evaluate", "resume"):
        message = sentence(capsys, command, str(run))
        assert "was made with an environment object" in message and "--env ID" in message
    named = ["--env", f"{package}:Corridor-v0", "--wrappers", FLATTEN]
    assert "must be a Box, but it is a Dict" in sentence(capsys, "evaluate", str(run), *named[:2])
    assert "was made for the observation space" in sentence(capsys, "evaluate", str(run), "--env", "CartPole-v1")
    film = tmp_path / "film.gif"
    assert main(["evaluate", str(run), "--episodes", "2", "--video", str(film), *named]) == 0
    assert film.stat().st_size > 100
    assert main(["export", str(run), *named]) == 0
    assert main(["resume", str(run), "--quiet", *named]) == 0
    assert main(["picture", str(run)]) == 0
    for name in ("episodes.csv", "selection.csv", "config.yaml"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()


def test_a_run_that_says_its_environment_does_not_go_on_in_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", "--env", "CartPole-v1", *QUICK, "--run-dir", str(run)]) == 0
    message = sentence(capsys, "resume", str(run), "--env", "Acrobot-v1")
    assert "continues in its own environment, 'CartPole-v1'" in message
    assert main(["resume", str(run), "--import", "math"]) == 0
    arguments = ["--env-kwargs", "{max_episode_steps: 3}", "--episodes", "2"]
    capsys.readouterr()
    assert main(["evaluate", str(run), *arguments]) == 0
    assert capsys.readouterr().out.count("3 steps") == 2


def test_the_command_finds_modules_in_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "corridors.py").write_text(PACKAGE)
    program = "import sys; sys.path = [p for p in sys.path if p]; from adaqn.cli import main; sys.exit(main())"
    arguments = ["train", "--env", "Corridor-v0", "--import", "corridors", "--steps", "3000"]
    done = subprocess.run([sys.executable, "-c", program, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert "must be a Box, but it is a Dict" in done.stderr and done.returncode == 1


def test_in_python_a_function_makes_several_and_evaluations_have_their_own(tmp_path: Path) -> None:
    made: list[gymnasium.Env[Any, Any]] = []

    def make_env() -> gymnasium.Env[Any, Any]:
        made.append(gymnasium.make("CartPole-v1", max_episode_steps=15))
        return made[-1]

    run = tmp_path / "run"
    model = AdaDQN(make_env, [{"hidden": [8]}], n_envs=2, learning_starts=50).learn(120, run_dir=run)
    assert model.trainer.environments.envs == tuple(made)
    assert max(episode.length for episode in model.trainer.recent_episodes) <= 15
    assert model.make_env() is made[-1] and len(made) == 3
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["env"] is None and config["n_envs"] == 2
    assert AdaDQN.from_run(run, make_env).trainer.environments.count == 2
    same = gymnasium.make("CartPole-v1")
    with pytest.raises(UserError, match="must make a new environment each time"):
        DQN(lambda: same).make_env()
    with pytest.raises(UserError, match=r"raised TypeError.* when it was called with {'render_mode': 'rgb_array'}"):
        model.make_env(render_mode="rgb_array")


def test_wrappers_in_python_are_saved_with_the_agent(package: str, tmp_path: Path) -> None:
    wrappers = [gymnasium.wrappers.FlattenObservation]
    model = DQN(f"{package}:Corridor-v0", [{"hidden": [8]}], wrappers=wrappers, env_kwargs={"length": 7})
    loaded = Model.load(model.save(tmp_path / "agent"))
    with pytest.raises(UserError, match=f"imports '{package}', which can execute any code"):
        loaded.make_env()
    env = Model.load(tmp_path / "agent", trust_env=True).make_env()
    assert isinstance(env, gymnasium.wrappers.FlattenObservation) and env.get_wrapper_attr("length") == 7
    # The wrappers are applied to the given environment; the recorded arguments belong to the id.
    mine = gymnasium.make(f"{package}:Corridor-v0")
    assert DQN.load(tmp_path / "agent", env=mine).observation_space.shape == (2,)


def test_dictionaries_get_the_exact_wrapper(package: str) -> None:
    with pytest.raises(UserError, match=f"it is a Dict; wrappers=\\['{FLATTEN}'\\] makes it a Box") as raised:
        DQN(f"{package}:Corridor-v0")
    assert f"--wrappers {FLATTEN}" in str(raised.value)
