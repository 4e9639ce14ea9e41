"""Tests of the SAC family on the command line, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from adaqn.cli import main

TRAIN = ["train", "--env", "Pendulum-v1", "--steps", "150", "--learning-starts", "50", "--batch-size", "8",
         "--actor-hidden", "8", "--selection-interval", "50", "--buffer-size", "500", "--quiet"]  # fmt: skip
SMALL = ["--grid", "hidden=8"]


def fails_with(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("adaqn: "), lines
    return lines[0]


@pytest.mark.parametrize(
    ("algo", "grid", "selection", "members"),
    [
        ("adasac", ["--grid", "hidden=8", "learning_rate=1e-3,3e-3"], "lowest", [1e-3, 3e-3]),
        ("randsac", ["--grid", "hidden=8", "learning_rate=1e-3,3e-3", "--ent-coef", "0.2"], "random", [1e-3, 3e-3]),
        ("sac", ["--grid", "hidden=8", "learning_rate=2e-3"], "lowest", [2e-3, 2e-3]),
    ],
)
def test_train_writes_a_run_that_can_be_repeated_and_evaluated(
    algo: str, grid: list[str], selection: str, members: list[float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir, again = tmp_path / "run", tmp_path / "again"
    assert main([*TRAIN, "--algo", algo, *grid, "--run-dir", str(run_dir)]) == 0
    config = yaml.safe_load((run_dir / "config.yaml").read_text())
    assert (config["algo"], config["settings"]["selection"]) == (algo, selection)
    assert [member["learning_rate"] for member in config["members"]] == members
    assert config["settings"]["ent_coef"] == (0.2 if algo == "randsac" else "auto")
    assert config["settings"]["actor_hidden"] == "8"
    lines = (run_dir / "selection.csv").read_text().splitlines()
    assert lines[0] == "step,target,loss_0,loss_1,acted_0,acted_1,selected_0,selected_1"
    assert [line.split(",")[0] for line in lines[1:]] == ["100", "150"]
    # With two members, the pair always consists of both.
    assert all(line.endswith(",1.0,1.0,1.0,1.0") for line in lines[1:])
    if algo != "adasac":
        return
    assert main(["train", "--config", str(run_dir / "config.yaml"), "--quiet", "--run-dir", str(again)]) == 0
    for name in ("config.yaml", "episodes.csv", "selection.csv"):
        assert (again / name).read_bytes() == (run_dir / name).read_bytes()
    assert main(["evaluate", str(run_dir), "--episodes", "2"]) == 0
    text = capsys.readouterr().out
    assert text.count("episode ") == 2 and "mean return" in text
    assert main(["picture", str(run_dir)]) == 0
    assert (run_dir / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--algo", "adasac", *SMALL], "needs at least 2 members, but got 1"),
        (["--algo", "adasca"], "did you mean 'adasac'?"),
        (["--algo", "sac", "--grid", "hidden=8,9"], "exactly 2 equal members, but got 2 (of 2 kinds)"),
        (["--algo", "sac", "--env", "CartPole-v1"], "it is a Discrete; for Discrete actions use AdaDQN"),
        (["--algo", "sac", "--ent-coef", "autoo"], "ent_coef (auto, or a number) must be a number, but got 'autoo'"),
        (["--algo", "sac", "--tau", "2"], "tau must be a finite number between 0 and 1"),
        (["--algo", "sac", "--actor-hidden", "8y8"], "such as 25x25, but got '8y8'"),
        (["--algo", "sac", "--actor-activation", "rellu"], "did you mean 'relu'?"),
        (["--algo", "sac", "--exploration-steps", "5"], "unknown argument '--exploration-steps'"),
        (["--algo", "randsac", "--selection", "lowest"], "always uses selection='random'"),
        (["--algo", "sac", "--steps", "50"], "would never learn, because learning_starts is 50"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_mistakes_get_one_sentence(
    arguments: list[str],
    expected: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert expected in fails_with(capsys, *TRAIN, *arguments)
