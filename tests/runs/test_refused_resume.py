"""A refused resume changes no byte of the directory; an accepted one is exact."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from adaqn import AdaDQN, __version__
from adaqn.base.errors import UserError
from adaqn.cli import main
from adaqn.runs import checkpoint
from adaqn.runs.checkpoint import CheckpointStore
from adaqn.runs.config import RunConfig
from adaqn.runs.directory import EXACT_FILES
from tests.runs.killed import Killed, contents, evaluation, kill_at, train

WRITTEN = [name for name in EXACT_FILES if name not in ("policy_evaluations.csv", "trials.jsonl")]


@pytest.fixture(scope="module", autouse=True)
def small_segments() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointStore.__init__, "__defaults__", (32,))
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    run_dir = tmp_path_factory.mktemp("whole") / "run"
    train(run_dir)
    return run_dir


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed at step 290, with checkpoints of steps 100 and 200."""
    run_dir = tmp_path_factory.mktemp("killed") / "run"
    with pytest.raises(Killed):
        train(run_dir, kill_at(290))
    return run_dir


@pytest.fixture
def run_dir(killed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(killed, tmp_path / "run")


def halve(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def edit(path: Path) -> None:
    """Change a digit (or a letter, if there is only a header) in the first half of the file; its length stays."""
    data = bytearray(path.read_bytes())
    half = range(len(data) // 2)
    digits = [position for position in half if chr(data[position]).isdigit()]
    where = max(digits or [position for position in half if chr(data[position]).isalpha()])
    data[where] = ord("7") if data[where] != ord("7") else ord("3")
    path.write_bytes(data)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b"\x93NUMPY") + 128] ^= 0x10
    path.write_bytes(data)


def refused(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The message of a refused resume, after checking that no byte changed."""
    before = contents(run_dir)
    capsys.readouterr()
    assert main(["resume", str(run_dir), "--quiet"]) == 1
    assert contents(run_dir) == before
    *warnings, sentence = capsys.readouterr().err.splitlines()
    assert all(line.startswith("adaqn: warning: ") for line in warnings)
    return sentence


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (Path.unlink, "is missing, but the checkpoint was made when it had"),
        (halve, "lines are missing"),
        (edit, "was changed after the checkpoint was made"),
    ],
)
def test_every_exact_file_must_be_what_the_checkpoint_knew(
    name: str,
    damage: Callable[[Path], Any],
    sentence: str,
    run_dir: Path,
    whole: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = (run_dir / name).read_bytes()
    damage(run_dir / name)
    message = refused(run_dir, capsys)
    assert str(run_dir / name) in message and sentence in message
    (run_dir / name).write_bytes(good)
    assert AdaDQN.resume(run_dir, callback=evaluation(run_dir)).num_timesteps == 400
    for exact in WRITTEN:
        assert (run_dir / exact).read_bytes() == (whole / exact).read_bytes()


def damaged_segment(run_dir: Path) -> None:
    flip(run_dir / "checkpoint/segments/rows-000000064-000000096.zip")  # which both checkpoints need


def torn_checkpoints(run_dir: Path) -> None:
    for path in (run_dir / "checkpoint").glob("step-*.zip"):
        halve(path)


def another_seed(run_dir: Path) -> None:
    text = (run_dir / "config.yaml").read_text()
    (run_dir / "config.yaml").write_text(text.replace("seed: 3", "seed: 4"))


def linked(name: str) -> Callable[[Path], None]:
    def link(run_dir: Path) -> None:
        (run_dir / name).rename(run_dir.parent / "elsewhere")
        (run_dir / name).symlink_to(run_dir.parent / "elsewhere")

    return link


@pytest.mark.filterwarnings("default:the checkpoint of step")
@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (damaged_segment, "checkpoints share these segments of the replay buffer; restore the file"),
        (torn_checkpoints, "that is complete (tried those of steps 100, 200)"),
        (another_seed, "config.yaml was changed"),
        (linked("checkpoint"), "is a symbolic link"),
        (linked("tensorboard"), "is a symbolic link"),
        (linked("selection.csv"), "is a symbolic link"),
    ],
)
def test_whatever_is_wrong_nothing_is_changed(
    damage: Callable[[Path], None], sentence: str, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(run_dir)
    elsewhere = contents(run_dir.parent)
    assert sentence in refused(run_dir, capsys)
    assert contents(run_dir.parent) == elsewhere


def test_a_run_of_an_adaqn_with_fewer_settings_is_refused_with_both_versions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir, complete = tmp_path / "run", RunConfig.to_dict

    def without_double_q(config: RunConfig) -> dict[str, Any]:
        values = complete(config)
        del values["settings"]["double_q"]
        return values

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunConfig, "to_dict", without_double_q)
        patch.setattr(checkpoint, "__version__", "0.0.9")
        with pytest.raises(Killed):
            train(run_dir, kill_at(150))
    message = refused(run_dir, capsys)
    versions = f"made by adaqn 0.0.9, which did not have double_q, and this is adaqn {__version__}"
    assert versions in message and "was changed" not in message
    another_seed(run_dir)  # and a real change is still one
    assert "config.yaml was changed after the checkpoint was written (seed, settings)" in refused(run_dir, capsys)


def test_what_python_refuses_changes_nothing_either(run_dir: Path, tmp_path: Path) -> None:
    before = contents(run_dir)
    with pytest.raises(UserError, match="observation"):
        AdaDQN.resume(run_dir, env=gymnasium.make("Acrobot-v1"))
    (tmp_path / "best_model.zip").write_text("mine")
    callback = evaluation(tmp_path)
    with pytest.raises(UserError, match=r"best_model.zip exists, but is no agent that adaqn saved"):
        AdaDQN.resume(run_dir, callback=callback)
    assert contents(run_dir) == before and (tmp_path / "best_model.zip").read_text() == "mine"


def test_the_log_of_a_run_is_kept_exact_though_nobody_goes_on_with_it(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (run_dir / "evaluations.csv").read_text().splitlines()
    with pytest.raises(Killed):
        AdaDQN.resume(run_dir, callback=kill_at(350))
    known = (run_dir / "evaluations.csv").read_text().splitlines()
    assert known == [row for row in rows if row.startswith("step") or int(row.split(",")[0]) <= 200]
    assert len(known) < len(rows)
    halve(run_dir / "evaluations.csv")
    assert "evaluations.csv" in refused(run_dir, capsys)
