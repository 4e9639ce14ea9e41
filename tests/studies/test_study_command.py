"""`adaqn study` on the command line, in this process, with runs that only write their files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from adaqn.cli import main
from adaqn.studies import calibration, command, cost, execution
from adaqn.studies.cost import Measurement
from adaqn.studies.directory import StudyDirectory
from adaqn.studies.launchers import Ending, Job, Options
from adaqn.studies.study import RunKey
from tests.studies.tiny import TINY, FakeLauncher, finish, tiny


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(execution, "LOOK", 0.01)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY))
    yield path


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[FakeLauncher]:
    """The launchers that the command opened; their jobs finish runs of the seed 0, and fail at the others."""
    opened: list[FakeLauncher] = []

    def act(job: Job) -> Ending:
        if job.key.seed == 0:
            finish(StudyDirectory(job.study_dir), tiny(), job.key)
            return Ending(0)
        return Ending(None, "its process was ended by SIGKILL")

    def opens(name: str, options: Options) -> FakeLauncher:
        assert name == "local" and options.study_dir.is_absolute()
        opened.append(FakeLauncher(act))
        return opened[-1]

    monkeypatch.setattr(command, "open_launcher", opens)
    return opened


def test_a_study_is_run_and_what_failed_is_listed_with_its_log(
    file: Path, launched: list[FakeLauncher], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", str(file), "--retries", "2"]) == 1
    output = capsys.readouterr().out
    assert "0 of 6 runs are finished" in output
    assert "finished adadqn/CartPole-v1/0: " in output
    assert "failed: dqn-8/CartPole-v1/1 after 3 attempts: its process was ended by SIGKILL" in output
    assert f"its log: {Path('runs/tiny/logs/dqn-8/CartPole-v1/1.log')}" in output
    assert "3 of 6 runs are finished in runs/tiny; the same command tries the others again" in output
    assert yaml.safe_load(Path("runs/tiny/study.yaml").read_text()) == tiny().to_dict()
    # The next command does only what is left.
    assert main(["study", str(file), "--retries", "0"]) == 1
    assert {key.seed for key in launched[1].started} == {1}
    assert len(launched[1].started) == 3


def test_arms_and_seeds_choose_runs_and_leave_the_definition_whole(
    file: Path, launched: list[FakeLauncher], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", str(file), "--dir", "d", "--arms", "dqn-*", "--seeds", "0"]) == 0
    assert [str(key) for key in launched[0].started] == ["dqn-8/CartPole-v1/0", "dqn-16/CartPole-v1/0"]
    assert StudyDirectory(Path("d")).read() == tiny()
    assert "2 of 2 runs are finished in d" in capsys.readouterr().out


def test_a_dry_run_shows_the_table_and_writes_nothing(
    file: Path, launched: list[FakeLauncher], capsys: pytest.CaptureFixture[str]
) -> None:
    finish(StudyDirectory(Path("d")), tiny(), RunKey("adadqn", "CartPole-v1", 0))
    before = sorted(Path("d").rglob("*"))
    assert main(["study", str(file), "--dir", "d", "--dry-run"]) == 0
    lines = [" ".join(line.replace("│", " ").split()) for line in capsys.readouterr().out.splitlines()]
    assert "adadqn 1 400" in lines and "dqn-8 2 800" in lines and "all 5 2,000" in lines
    assert "not calibrated: runs of up to 20,000 steps are not" in " ".join(lines)
    assert sorted(Path("d").rglob("*")) == before
    assert launched == []


def test_the_cost_follows_from_the_calibration(
    file: Path, launched: list[FakeLauncher], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def measured(arms: dict, jobs: int, told: Callable[[int], None]) -> dict[str, Measurement]:
        asked.append(list(arms))
        return {arm: Measurement(50.0 if arm == "adadqn" else 100.0, 2 * 10**9, 35 * 10**6) for arm in arms}

    monkeypatch.setattr(cost, "calibrate", measured)
    file.write_text(yaml.safe_dump({**TINY, "run": {"steps": 90_000}}))
    assert main(["study", str(file), "--dry-run", "--jobs", "2"]) == 0
    table = capsys.readouterr().out
    lines = [" ".join(line.replace("│", " ").split()) for line in table.splitlines()]
    # Two runs of 90,000 steps at 50 a second are an hour; those of the others half an hour each.
    assert "adadqn 2 180,000 50 1 h 00 min 2.0 GB 35 MB" in lines
    assert "dqn-16 2 180,000 100 30 min 2.0 GB 35 MB" in lines
    assert "all 6 540,000 2 h 00 min 210 MB" in lines
    caption = " ".join(table.split())
    assert "1 h 00 min with 2 runs at a time, which then take up to 4.0 GB of memory" in caption
    assert asked == [["adadqn", "dqn-8", "dqn-16"]]
    assert main(["study", str(file), "--dry-run", "--no-calibration"]) == 0
    caption = capsys.readouterr().out
    assert "not calibrated" in caption and "are not" not in caption
    assert len(asked) == 1


def test_a_calibration_is_remembered_for_the_same_arm_on_the_same_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    asked: list[list[str]] = []

    def measured(arms: dict, jobs: int, told: Callable[[int], None]) -> dict[str, Measurement]:
        asked.append(list(arms))
        return {arm: Measurement(10.0, 1, 2) for arm in arms}

    monkeypatch.setattr(cost, "calibrate", measured)
    directory, console = StudyDirectory(tmp_path), Console(quiet=True)
    study = tiny(run={"steps": 90_000})
    for _ in range(2):
        found = cost.measurements(study, directory, study.runs(), 1, console, keep=True)
        assert found["dqn-8"] == Measurement(10.0, 1, 2)
    other = tiny(
        run={"steps": 90_000}, arms={"adadqn": {"settings": {"batch_size": 48}}, "dqn": {"algo": "dqn", "member": 0}}
    )
    cost.measurements(other, directory, other.runs(), 1, console, keep=True)
    assert asked == [["adadqn", "dqn-8", "dqn-16"], ["adadqn"]]  # "dqn" is what was measured as dqn-8
    # Runs of a few seconds are not worth it.
    assert cost.measurements(tiny(), directory, tiny().runs(), 1, console, keep=True) == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lunar-lander"], "comes in several scales: say --scale paper or --scale laptop"),
        (["lunar-landr", "--scale", "paper"], "'lunar-landr'; did you mean 'lunar-lander'"),
        (["tiny.yaml", "--scale", "paper"], "unknown scale of the study tiny: 'paper'"),
        (["tiny.yaml", "--seeds", "1", "7"], "has no seed 7: --seeds chooses among its own, 0-1"),
        (["tiny.yaml", "--arms", "dqn"], "unknown arm 'dqn'"),
        (
            ["tuned.yaml", "--arms", "adadqn", "--seeds", "9"],
            "no run of the study tuned has such an arm and such a seed",
        ),
        (["study.yaml"], "adaqn study . goes on with it"),
        (["tiny.yaml", "--retries", "-1"], "--retries must be a whole number of at least 0"),
        (["tiny.yaml", "--resource", "gpu"], "--resource takes NAME=VALUE"),
        (["tiny.yaml", "--launcher", "lokal"], "unknown launcher 'lokal'; did you mean 'local'"),
        (["missing.yaml"], "there is no file missing.yaml"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(
    file: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.with_name("tuned.yaml").write_text(yaml.safe_dump({**TINY, "choices": {"best": ["dqn"]}, "tuning_seeds": [9]}))
    StudyDirectory(file.parent).freeze(tiny())
    assert main(["study", *arguments]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("adaqn: ") and message in line
    assert not Path("runs").exists()


def test_the_directory_alone_is_enough_to_go_on(
    file: Path, launched: list[FakeLauncher], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", str(file), "--dir", "here", "--seeds", "0", "--arms", "adadqn"]) == 0
    Path("here").rename("there")
    file.unlink()
    assert main(["study", "there", "--seeds", "0"]) == 0
    assert [str(key) for key in launched[1].started] == ["dqn-8/CartPole-v1/0", "dqn-16/CartPole-v1/0"]
    assert "3 of 3 runs are finished in there" in capsys.readouterr().out
    assert main(["study", "there", "--scale", "paper"]) == 1
    assert "the study in there has the scale None, but got --scale paper" in capsys.readouterr().err
    # A preset keeps its name, whatever is in the working directory.
    Path("there").rename("lunar-lander")
    assert main(["study", "lunar-lander", "--scale", "laptop", "--dry-run", "--no-calibration"]) == 0
    assert "study lunar-lander at the scale laptop" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--resource", "gpu=1"], "the launcher local has no resources"),
        (["--address", "auto"], "--address is for a cluster of Ray"),
        (["--dir", "tiny.yaml"], "cannot write tiny.yaml/study.yaml"),
    ],
)
def test_what_prevents_the_start_is_said_before_the_calibration(
    file: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(arms: dict, jobs: int, told: Callable[[int], None]) -> dict[str, Measurement]:
        raise AssertionError("nobody waits for a calibration in vain")

    monkeypatch.setattr(cost, "calibrate", measured)
    file.write_text(yaml.safe_dump({**TINY, "run": {"steps": 90_000}}))
    assert main(["study", str(file), *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_changed_study_is_refused_on_the_command_line(
    file: Path, launched: list[FakeLauncher], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", str(file), "--seeds", "0"]) == 0
    file.write_text(yaml.safe_dump({**TINY, "run": {"settings": {"gamma": 0.9}}}))
    assert main(["study", str(file)]) == 1
    error = capsys.readouterr().err
    assert "arms.adadqn.settings.gamma was 0.99 and is 0.9" in error
    assert len(launched) == 1


def test_work_names_a_run_of_the_study(
    file: Path, launched: list[FakeLauncher], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", str(file), "--seeds", "0"]) == 0
    assert main(["work", "runs/tiny", "adadqn/CartPole-v1/0"]) == 0  # it is finished
    capsys.readouterr()
    for run, message in (
        ("adadqn/CartPole-v1", "is named ARM/ENVIRONMENT/SEED"),
        ("adadq/CartPole-v1/0", "unknown arm 'adadq'; did you mean 'adadqn'"),
        ("adadqn/CartPole-v1/9", "is not among the runs of the study"),
    ):
        assert main(["work", "runs/tiny", run]) == 1
        assert message in capsys.readouterr().err


def test_an_arm_that_cannot_be_trained_is_found_by_the_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    program = 'print(\'{"error": "there is no such environment"}\')'
    real = calibration.subprocess.run
    monkeypatch.setattr(
        calibration.subprocess, "run", lambda command, **options: real([sys.executable, "-S", "-c", program], **options)
    )
    with pytest.raises(Exception, match=r"the arm a cannot be calibrated .*: there is no such environment"):
        calibration.calibrate({"a": {}}, 1, lambda done: None)
