"""Environments that fail during a run: a clear error, the run so far is kept and can be resumed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from adaqn import AdaDQN, grid
from adaqn.base.errors import AllMembersDiverged, EnvironmentFault
from adaqn.cli import main

FAULTS = {
    "raises": "raised OSError('the simulator is gone')",
    "nan reward": "reward",
    "nan observation": "observation",
    "text reward": "returned the reward '1.0'",
    "two ends": "for terminated in step 1",
}


class Faulty(gymnasium.Env[Any, Any]):
    """Episodes of ten steps; from step 250 it fails in one of several ways, until it is repaired."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    fault: str | None = None
    steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return self._observation(), {}

    def _observation(self) -> np.ndarray:
        return self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        Faulty.steps += 1
        self.count += 1
        failing = Faulty.steps > 250
        observation, reward = self._observation(), 1.0
        if failing and Faulty.fault == "raises":
            raise OSError("the simulator is gone")
        if failing and Faulty.fault == "nan reward":
            reward = math.nan
        if failing and Faulty.fault == "nan observation":
            observation = np.full(2, math.nan, np.float32)
        ended: Any = self.count == 10
        if failing and Faulty.fault == "text reward":
            reward = "1.0"
        if failing and Faulty.fault == "two ends":
            ended = np.array([True, False])
        return observation, reward, ended, False, {}  # pyright: ignore[reportReturnType]


@pytest.fixture(scope="module", autouse=True)
def registered() -> Any:
    gymnasium.register("Faulty-v0", entry_point=lambda **_: Faulty())
    yield
    gymnasium.registry.pop("Faulty-v0")


ARGUMENTS = ["train", "--env", "Faulty-v0", "--steps", "400", "--learning-starts", "100", "--quiet",
             "--checkpoint-interval", "150", "--grid", "hidden=8"]  # fmt: skip


@pytest.fixture(scope="module")
def whole(registered: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which nothing failed."""
    Faulty.fault, Faulty.steps = None, 0
    run_dir = tmp_path_factory.mktemp("whole") / "run"
    assert main([*ARGUMENTS, "--run-dir", str(run_dir)]) == 0
    return run_dir


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_keeps_the_run_and_it_can_be_resumed(
    fault: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Faulty.fault, Faulty.steps = fault, 0
    run_dir = tmp_path / "run"
    assert main([*ARGUMENTS, "--run-dir", str(run_dir)]) == 1
    message = capsys.readouterr().err
    assert len(message.strip().splitlines()) == 1
    assert "Faulty" in message and FAULTS[fault] in message
    assert f"adaqn resume {run_dir}" in message
    # 25 episodes and a header: everything before the fault is kept.
    assert (run_dir / "episodes.csv").read_text().count("\n") == 26
    assert not (run_dir / "summary.json").exists()
    Faulty.fault = None
    assert main(["resume", str(run_dir), "--quiet"]) == 0
    for name in ("episodes.csv", "selection.csv"):
        assert (run_dir / name).read_bytes() == (whole / name).read_bytes()


def test_a_fault_in_python_is_an_error_of_its_own() -> None:
    Faulty.fault, Faulty.steps = "nan reward", 0
    with pytest.raises(EnvironmentFault, match="reward"):
        AdaDQN("Faulty-v0", grid(hidden=[(8,)]), learning_starts=100).learn(1200)


def test_when_all_members_diverge_the_run_stops_and_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Faulty.fault = None
    members = ["optimizer=sgd", "learning_rate=1e30", "hidden=8,12"]
    arguments = [*ARGUMENTS[:-2], "--grid", *members, "--run-dir", str(tmp_path / "run")]
    assert main(arguments) == 1
    message = capsys.readouterr().err
    assert "all members diverged" in message and "[8]" in message and "[12]" in message
    assert list((tmp_path / "run" / "checkpoint").glob("step-*.zip"))
    with pytest.raises(AllMembersDiverged):
        AdaDQN("Faulty-v0", grid(hidden=[(8,)], learning_rate=[1e30]), learning_starts=100).learn(1200)


def test_resume_refuses_an_environment_with_other_spaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Faulty.fault, Faulty.steps = "raises", 0
    main([*ARGUMENTS, "--run-dir", str(tmp_path / "run")])
    capsys.readouterr()
    monkeypatch.setattr(Faulty, "action_space", gymnasium.spaces.Discrete(3))
    assert main(["resume", str(tmp_path / "run"), "--quiet"]) == 1
    message = capsys.readouterr().err
    assert "was made for the action space Discrete 2, but the environment has Discrete 3" in message
