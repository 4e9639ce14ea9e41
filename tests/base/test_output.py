"""Failing output never ends training: ASCII terminals, closed pipes, full disks and closed streams."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adaqn import AdaDQN, Hyperparameters
from adaqn.base.output import STDOUT, SteadyOutput, fitting, print_line
from adaqn.cli import main

TRAIN = [
    "train", "--env", "CartPole-v1", "--steps", "400", "--learning-starts", "50", "--batch-size", "8",
    "--grid", "hidden=8,6", "--eval-interval", "100", "--eval-episodes", "1", "--checkpoint-interval", "150",
]  # fmt: skip
ADAQN = f"{sys.executable} -m adaqn.cli"


class Failing(io.StringIO):
    """A stream that fails after a few lines, like a pipe whose reader has gone."""

    def __init__(self, lines: int, error: Exception) -> None:
        super().__init__()
        self.left = lines
        self.error = error
        self.tried = 0

    def write(self, text: str) -> int:
        self.left -= 1
        if self.left < 0:
            self.tried += 1
            raise self.error
        return super().write(text)


FAULTS = [BrokenPipeError(errno.EPIPE, "Broken pipe"), OSError(errno.ENOSPC, "No space left on device"), ValueError()]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    assert main([*TRAIN, "--quiet", "--run-dir", str(tmp_path / "whole")]) == 0
    return tmp_path / "whole"


def assert_equal_runs(one: Path, other: Path) -> None:
    for name in ("episodes.csv", "selection.csv", "evaluations.csv", "members.jsonl"):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    assert (one / "summary.json").exists()


@pytest.mark.filterwarnings("default:standard output cannot be written")
@pytest.mark.parametrize("fault", FAULTS, ids=["pipe", "full", "closed"])
def test_training_goes_on_without_the_console(
    fault: Exception, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = Failing(5, fault)
    monkeypatch.setattr(sys, "stdout", stream)
    assert main([*TRAIN, "--run-dir", str(tmp_path / "run")]) == 0
    assert stream.tried == 1, "a failed stream must not be used again"
    [warning] = capsys.readouterr().err.splitlines()
    assert warning.startswith("adaqn: warning: standard output cannot be written")
    assert_equal_runs(tmp_path / "run", whole)


def test_the_same_for_a_progress_bar_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Failing(0, FAULTS[0]))
    model = AdaDQN("CartPole-v1", [Hyperparameters(hidden=(8,))], learning_starts=50)
    with pytest.warns(RuntimeWarning, match="standard output cannot be written .Broken pipe.; the run goes on"):
        model.learn(120, progress_bar=True)
    assert model.num_timesteps == 120


@pytest.mark.filterwarnings("default:standard output cannot be written")
def test_warnings_that_nobody_can_read_do_not_end_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Failing(0, FAULTS[1]))
    monkeypatch.setattr(sys, "stdout", Failing(0, FAULTS[1]))
    assert main([*TRAIN, "--run-dir", str(tmp_path / "run")]) == 0


@contextlib.contextmanager
def ascii_stdout() -> Iterator[io.BytesIO]:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii", write_through=True)
    with contextlib.redirect_stdout(stream):
        yield written
    stream.detach()


def test_an_ascii_terminal_gets_words_for_signs() -> None:
    with ascii_stdout() as written:
        print_line("return 1.0 ± 0.5 … ψ")
        assert STDOUT.encoding == "ascii"
    assert written.getvalue() == b"return 1.0 +/- 0.5 ... ?\n"
    assert fitting("1 ± 2", io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) == "1 ± 2"


def test_training_and_evaluating_on_an_ascii_terminal(tmp_path: Path) -> None:
    with ascii_stdout() as written:
        assert main([*TRAIN, "--run-dir", str(tmp_path / "run")]) == 0
        assert "CartPole-v1" in written.getvalue().decode("ascii")
        written.truncate(0)
        assert main(["evaluate", str(tmp_path / "run"), "--episodes", "2"]) == 0
        assert b" +/- " in written.getvalue()


def test_no_standard_output_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    output = SteadyOutput()
    assert output.write("text") == 4 and not output.isatty()
    print_line("text")


def test_a_new_stream_is_written_after_another_one_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    output: Any = SteadyOutput()
    monkeypatch.setattr(sys, "stdout", Failing(0, FAULTS[0]))
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        output.write("lost")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        output.write("lost too")
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    output.write("found")
    assert stream.getvalue() == "found"


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_closed_standard_output_gets_no_file_in_its_place(whole: Path, tmp_path: Path) -> None:
    done = shell(f"{ADAQN} {' '.join(TRAIN)} --run-dir {tmp_path / 'run'} >&- 2>&- <&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert_equal_runs(tmp_path / "run", whole)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("redirection", "environment"),
    [
        ("| head -n 1", {}),
        ("> /dev/full", {}),
        ("2> /dev/full > /dev/full", {}),
        ("", {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}),
    ],
    ids=["head", "full", "all full", "ascii"],
)
def test_real_outputs_that_fail(redirection: str, environment: dict[str, str], whole: Path, tmp_path: Path) -> None:
    done = shell(f"{ADAQN} {' '.join(TRAIN)} --run-dir {tmp_path / 'run'} {redirection}", **environment)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert_equal_runs(tmp_path / "run", whole)


@pytest.mark.thorough
def test_other_commands_say_that_their_output_is_lost(whole: Path) -> None:
    done = shell(f"{ADAQN} evaluate {whole} --episodes 1 > /dev/full")
    assert done.returncode == 1
    assert done.stderr == "adaqn: the system refused to write or read: [Errno 28] No space left on device\n"
    assert shell(f"{ADAQN} --help > /dev/full").returncode == 1
