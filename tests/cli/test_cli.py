"""Tests of the command line, in this process: its output, exit status and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from adaqn.cli import commands, main

TRAIN = ["train", "--env", "CartPole-v1", "--steps", "300", "--learning-starts", "50", "--quiet"]


def run_config(run_dir: Path) -> dict:
    return yaml.safe_load((run_dir / "config.yaml").read_text())


def fails_with(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 1
    output = capsys.readouterr()
    lines = output.err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("adaqn: "), output.err
    return lines[0]


def test_help_needs_no_jax() -> None:
    program = "import sys; from adaqn.cli import main; main(['--help']); sys.exit('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0
    assert "usage: adaqn COMMAND" in done.stdout


def test_grid_makes_the_product(tmp_path: Path) -> None:
    grid = ["hidden=8x8,12,linear", "learning_rate=3e-4,1e-3", "optimizer.eps=1e-4"]
    assert main([*TRAIN, "--run-dir", str(tmp_path / "run"), "--grid", *grid]) == 0
    members = run_config(tmp_path / "run")["members"]
    assert [member["hidden"] for member in members] == [[8, 8], [8, 8], [12], [12], [], []]
    assert [member["learning_rate"] for member in members] == [3e-4, 1e-3] * 3
    assert all(member["optimizer_options"] == {"eps": 1e-4} for member in members)


def test_grid_has_heads(tmp_path: Path) -> None:
    grid = ["hidden=8", "head=scalar,categorical", "bins=7", "value_range=-20:1e2"]
    assert main([*TRAIN, "--run-dir", str(tmp_path / "run"), "--grid", *grid]) == 0
    members = run_config(tmp_path / "run")["members"]
    assert [member.get("head") for member in members] == [None, "categorical"]
    assert all((member["bins"], member["value_range"]) == (7, [-20.0, 100.0]) for member in members)


def test_grid_has_convolutions(tmp_path: Path) -> None:
    flags = ["train", "--quiet", "--env", "MinAtar/Breakout", "--steps", "60", "--learning-starts", "50"]
    grid = ["convolutions=4k3s1,4k3s2+2k2s1,none", "hidden=8"]
    assert main([*flags, "--run-dir", str(tmp_path / "run"), "--grid", *grid]) == 0
    first, second = {"channels": 4, "kernel": 3, "stride": 1}, {"channels": 2, "kernel": 2, "stride": 1}
    members = run_config(tmp_path / "run")["members"]
    assert [member.get("convolutions") for member in members] == [[first], [first | {"stride": 2}, second], None]


def test_config_file_with_overrides_repeats_the_run(tmp_path: Path) -> None:
    first, again, other = tmp_path / "first", tmp_path / "again", tmp_path / "other"
    main([*TRAIN, "--run-dir", str(first), "--grid", "hidden=8,12"])
    config = str(first / "config.yaml")
    assert main(["train", "--config", config, "--quiet", "--run-dir", str(again)]) == 0
    assert (again / "episodes.csv").read_bytes() == (first / "episodes.csv").read_bytes()
    assert (again / "config.yaml").read_bytes() == (first / "config.yaml").read_bytes()
    assert main(["train", "--config", config, "--quiet", "--seed", "3", "--gamma", "0.9", "--run-dir", str(other)]) == 0
    changed = run_config(other)
    assert (changed["seed"], changed["settings"]["gamma"]) == (3, 0.9)
    assert changed["members"] == run_config(first)["members"]


def test_another_algorithm_over_a_complete_file_is_that_algorithm(tmp_path: Path) -> None:
    first, other = tmp_path / "first", tmp_path / "other"
    main([*TRAIN, "--run-dir", str(first), "--grid", "hidden=8,12"])
    for algo, selection in (("randdqn", "random"), ("adadqn-max", "highest"), ("adadqn", "lowest")):
        config = str((other if other.exists() else first) / "config.yaml")
        values = yaml.safe_load(Path(config).read_text())
        arguments = ["train", "--config", config, "--algo", algo, "--quiet", "--force", "--run-dir", str(other)]
        assert main(arguments) == 0
        changed = run_config(other)
        assert changed["algo"] == algo and changed["settings"] == values["settings"] | {"selection": selection}


@pytest.mark.parametrize(
    ("preset", "algo", "flags", "note"),
    [
        ("lunar-lander-infinite", "dqn", {}, "lunar-lander-infinite has a space, which dqn does not use."),
        ("lunar-lander", "random-search", {}, "lunar-lander has members, which random-search does not use."),
        ("lunar-lander-infinite", "searl", {}, None),
        ("lunar-lander", "randdqn", {"grid": ["hidden=8,12"]}, None),
        (None, "dqn", {}, None),
    ],
)
def test_what_another_algorithm_cannot_use_of_a_preset_is_said(
    preset: str | None, algo: str, flags: dict[str, object], note: str | None
) -> None:
    values = commands.with_flags(commands.base_values(preset, algo, None), flags)
    assert commands.left_out(preset, values) == note


def test_the_note_is_printed_before_the_run_unless_it_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "--config", "lunar-lander-infinite", "--algo", "dqn", "--steps", "1010"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("lunar-lander-infinite has a space, which dqn does not use.\n")
    assert main([*arguments, "--quiet"]) == 0
    assert "which dqn does not use" not in capsys.readouterr().out


def test_preset_is_found_by_name(tmp_path: Path) -> None:
    arguments = [
        "train",
        "--config",
        "lunar-lander",
        "--steps",
        "1010",
        "--quiet",
        "--run-dir",
        str(tmp_path / "run"),
    ]
    assert main(arguments) == 0
    config = run_config(tmp_path / "run")
    assert config["env"] == "LunarLander-v3"
    assert [member["hidden"] for member in config["members"]] == [[25, 25], [50, 50], [100, 100], [200, 200]]


def test_header_table_and_next_steps_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [flag for flag in TRAIN if flag != "--quiet"]
    assert main([*arguments, "--run-dir", str(tmp_path / "run"), "--grid", "hidden=8,12"]) == 0
    text = capsys.readouterr().out
    for expected in ("CartPole-v1", "Box (4,) float32", "Discrete 2", "replay", "selected", "adaqn evaluate"):
        assert expected in text


def test_evaluate_and_video(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = tmp_path / "run"
    main([*TRAIN, "--run-dir", str(run_dir), "--grid", "hidden=8"])
    film = tmp_path / "film.gif"
    assert main(["evaluate", str(run_dir), "--episodes", "3", "--video", str(film)]) == 0
    text = capsys.readouterr().out
    assert text.count("episode ") == 3 and "mean return" in text and str(film) in text
    assert film.stat().st_size > 1000
    assert main(["evaluate", str(run_dir), "--episodes", "3"]) == 0
    again = capsys.readouterr().out
    assert again.splitlines() == text.splitlines()[:4]  # the same episodes
    assert "exists already" in fails_with(capsys, "evaluate", str(run_dir), "--video", str(film))
    assert "did you mean '.mp4'?" in fails_with(capsys, "evaluate", str(run_dir), "--video", "film.mp5")


def test_evaluate_reads_a_saved_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from adaqn import DQN

    DQN("CartPole-v1", [{"hidden": [8]}], learning_starts=50).learn(100).save(tmp_path / "agent")
    assert main(["evaluate", str(tmp_path / "agent.zip"), "--episodes", "2"]) == 0
    assert "over 2 episodes" in capsys.readouterr().out


def test_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = tmp_path / "run"
    main([*TRAIN, "--run-dir", str(run_dir), "--grid", "hidden=8,12"])
    assert main(["picture", str(run_dir)]) == 0
    assert capsys.readouterr().out.strip() == str(run_dir / "picture.png")
    assert (run_dir / "picture.png").read_bytes().startswith(b"\x89PNG")
    other = tmp_path / "mine.png"
    other.write_text("mine")
    assert main(["picture", str(run_dir), "-o", str(other)]) == 1
    assert other.read_text() == "mine"
    assert main(["picture", str(run_dir), "-o", str(other), "--force"]) == 0
    assert main(["picture", str(run_dir)]) == 0  # the default picture is replaced


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["trian"], "did you mean 'train'?"),
        (["train", "--stesp", "5"], "did you mean '--steps'?"),
        (["train", "--env", "CartPole-v1"], "the command line does not set --steps, "),
        (["train", "--steps", "5000"], "the command line does not set --env, "),
        (["train", "--env", "CartPol-v1", "--steps", "5000"], "did you mean 'CartPole-v1'?"),
        (["train", "--env", "CartPole-v1", "--steps", "many"], "'many'"),
        (["train", "--env", "CartPole-v1", "--steps", "-5"], "steps must be a whole number of at least 1"),
        (
            ["train", "--env", "CartPole-v1", "--steps", "500"],
            "would never learn, because learning_starts is 1000",
        ),
        (
            ["train", "--env", "CartPole-v1", "--steps", "5000", "--gamma", "nan"],
            "gamma must be a finite number",
        ),
        (
            ["train", "--env", "CartPole-v1", "--steps", "5000", "--batch-size", "0"],
            "batch_size must be a whole number",
        ),
        (
            ["train", "--env", "CartPole-v1", "--steps", "5000", "--selection", "lowst"],
            "did you mean 'lowest'?",
        ),
        (["train", "--algo", "adadqm", "--env", "x", "--steps", "5000"], "did you mean 'adadqn'?"),
        (["train", "--env", "Pendulum-v1", "--steps", "5000"], "must be Discrete, but it is a Box"),
        (["train", "--env", "Blackjack-v1", "--steps", "5000"], "must be a Box, but it is a Tuple"),
        ([*TRAIN, "--grid", "activation=rellu"], "did you mean 'relu'?"),
        ([*TRAIN, "--grid", "optimizer=adamm"], "did you mean 'adam'?"),
        ([*TRAIN, "--grid", "loss=hubber"], "did you mean 'huber'?"),
        ([*TRAIN, "--grid", "hiden=8"], "did you mean 'hidden'?"),
        ([*TRAIN, "--grid", "learning_rate=-1"], "learning_rate must be a finite number of at least 0"),
        ([*TRAIN, "--grid", "learning_rate=.nan"], "learning_rate must be a finite number"),
        ([*TRAIN, "--grid", "optimizer.epz=1"], "optimizer 'adam' has no option 'epz'; did you mean 'eps'?"),
        ([*TRAIN, "--grid", "hidden=8x"], "such as 25x25, but got '8x'"),
        ([*TRAIN, "--grid", "hidden"], "--grid takes name=value,value pairs"),
        ([*TRAIN, "--grid", "hidden=64,64"], "members 0 and 1 of this grid are equal"),
        ([*TRAIN, "--grid", "hidden=64,64"], "one network with several layers is written 64x64 on the command line"),
        ([*TRAIN, "--grid", "convolutions=32c8s4"], "such as 32k8s4+64k4s2+64k3s1, or none, but got '32c8s4'"),
        ([*TRAIN, "--grid", "convolutions=8k3s1"], "convolutions need image observations"),
        ([*TRAIN, "--grid", "head=categorical"], "a categorical head needs value_range"),
        ([*TRAIN, "--grid", "value_range=5"], "two numbers joined by a colon, such as -100:100, but got '5'"),
        ([*TRAIN, "--grid", "value_range=0:x"], "value_range must be a number, but got 'x'"),
        ([*TRAIN, "--grid", "loss=["], "the value of loss in --grid is not valid YAML"),
        ([*TRAIN, "--env-kwargs", "{a:"], "--env-kwargs is not valid YAML"),
        (["train", "--algo"], "(see `adaqn train --help`)"),
        (["train", "--config", "missing.yaml"], "there is no file missing.yaml"),
        (["train", "--config", "lunar-landr"], "did you mean 'lunar-lander'?"),
        (["resume", "nowhere"], "there is no run directory nowhere"),
        (["evaluate", "nowhere"], "there is no run directory and no saved agent nowhere"),
        (["evaluate", "nowhere", "--episodes", "0"], "--episodes must be at least 1"),
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
    assert expected in fails_with(capsys, *arguments)


def test_files_with_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = {"env": "CartPole-v1", "steps": 2000, "members": [{"hidden": [8]}]}

    def message(**changes: object) -> str:
        file = tmp_path / "run.yaml"
        file.write_text(yaml.safe_dump({**good, **changes}))
        return fails_with(capsys, "train", "--config", str(file))

    assert "has version 7, but this adaqn reads version 1" in message(version=7)
    assert "members is empty" in message(members=[])
    assert "members 0 and 2 of this grid are equal" in message(members=None, grid={"hidden": [[8], [9], 8]})
    assert "did you mean 'steps'?" in message(stepz=1)
    assert "did you mean 'gamma'?" in message(settings={"gama": 0.9})
    assert "a member must be a mapping" in message(members=["relu"])
    assert "settings must be a mapping" in message(settings=[1])
    (tmp_path / "run.yaml").write_bytes(b"\x80\x81")
    assert "cannot read" in fails_with(capsys, "train", "--config", str(tmp_path / "run.yaml"))
    (tmp_path / "run.yaml").write_text("a: [1")
    assert "is not valid YAML" in fails_with(capsys, "train", "--config", str(tmp_path / "run.yaml"))


def test_a_run_directory_that_exists_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = tmp_path / "run"
    main([*TRAIN, "--run-dir", str(run_dir), "--grid", "hidden=8"])
    before = (run_dir / "episodes.csv").read_bytes()
    message = fails_with(capsys, *TRAIN, "--run-dir", str(run_dir), "--seed", "5")
    assert f"adaqn resume {run_dir}" in message and "--force" in message
    assert (run_dir / "episodes.csv").read_bytes() == before
    assert main([*TRAIN, "--run-dir", str(run_dir), "--grid", "hidden=8", "--seed", "5", "--force"]) == 0
    assert (run_dir / "episodes.csv").read_bytes() != before


def test_resume_of_a_finished_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*TRAIN, "--run-dir", str(tmp_path / "run"), "--grid", "hidden=8"])
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert "nothing to resume" in capsys.readouterr().out


def test_resume_refuses_a_changed_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = tmp_path / "run"
    main([*TRAIN, "--run-dir", str(run_dir), "--grid", "hidden=8"])
    (run_dir / "summary.json").unlink()  # as if the run were unfinished
    text = (run_dir / "config.yaml").read_text()
    (run_dir / "config.yaml").write_text(text.replace("gamma: 0.99", "gamma: 0.9"))
    message = fails_with(capsys, "resume", str(run_dir))
    assert "settings" in message and "config.yaml" in message
    # Other logging and evaluation settings are allowed.
    (run_dir / "config.yaml").write_text(text.replace("log_interval: 1000", "log_interval: 10"))
    assert main(["resume", str(run_dir), "--quiet"]) == 0


def test_resume_without_checkpoint_or_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = tmp_path / "run"
    main([*TRAIN, "--run-dir", str(run_dir), "--grid", "hidden=8"])
    (run_dir / "summary.json").unlink()
    for file in (run_dir / "checkpoint").glob("*.zip"):
        file.unlink()
    assert "there is no checkpoint" in fails_with(capsys, "resume", str(run_dir))
    (run_dir / "config.yaml").unlink()
    assert "has no config.yaml" in fails_with(capsys, "resume", str(run_dir))
