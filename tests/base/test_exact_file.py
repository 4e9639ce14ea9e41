from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adaqn.base.errors import CheckpointError, UserError
from adaqn.base.exact_file import NOTHING, ExactFile, Written


@pytest.fixture
def file(tmp_path: Path) -> Iterator[ExactFile]:
    """An open file with two lines, the first of which a checkpoint covers."""
    file = ExactFile(tmp_path / "a.csv")
    file.append("one\ntwo\n")
    yield file
    file.close()


ONE = Written(4, hashlib.sha256(b"one\n").hexdigest())


def test_lines_are_on_disk_at_once_with_plain_newlines(tmp_path: Path) -> None:
    file = ExactFile(tmp_path / "a.csv")
    assert file.written == NOTHING == (0, hashlib.sha256().hexdigest())
    file.append("ψ\n")
    assert (tmp_path / "a.csv").read_bytes() == b"\xcf\x88\n"
    file.append("φ\n")
    assert file.written == Written.of("ψ\nφ\n".encode())
    file.close()


def test_it_goes_on_behind_what_the_checkpoint_knew(file: ExactFile, tmp_path: Path) -> None:
    file.close()
    resumed = ExactFile(tmp_path / "a.csv")
    resumed.resume(ONE)
    assert (tmp_path / "a.csv").read_text() == "one\ntwo\n", "resume writes nothing before the next append"
    resumed.append("three\n")
    assert (tmp_path / "a.csv").read_text() == "one\nthree\n"
    resumed.close()
    resumed.append("four\n")
    resumed.close()
    assert (tmp_path / "a.csv").read_text() == "one\nthree\nfour\n"
    assert resumed.written == Written.of(b"one\nthree\nfour\n")


def test_a_checkpoint_cuts_it_off_too(file: ExactFile, tmp_path: Path) -> None:
    file.close()
    resumed = ExactFile(tmp_path / "a.csv")
    resumed.resume(ONE)
    resumed.sync()
    resumed.close()
    assert (tmp_path / "a.csv").read_text() == "one\n"


def test_it_begins_anew_also_where_half_a_line_was_left(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("on")
    for name in ("a.csv", "b.csv"):
        file = ExactFile(tmp_path / name)
        file.resume(NOTHING)
        file.append("one\n")
        file.close()
        assert (tmp_path / name).read_text() == "one\n"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "is missing, but the checkpoint was made when it had 4 bytes"),
        ("one", "has 3 bytes, but the checkpoint was made when it had 4: lines are missing"),
        ("One\ntwo\n", "was changed after the checkpoint was made: its first 4 bytes differ"),
    ],
)
def test_what_the_checkpoint_knew_must_still_be_there(tmp_path: Path, content: str | None, sentence: str) -> None:
    path = tmp_path / "a.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CheckpointError, match=sentence):
        ExactFile(path).resume(ONE)
    assert (path.read_text() if path.exists() else None) == content


def replace(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


def link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def truncate(path: Path) -> None:
    os.truncate(path, 4)


def add(path: Path) -> None:
    with path.open("a") as file:
        file.write("somebody else's\n")


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (os.unlink, "moved, removed or replaced"),
        (lambda path: path.rename(path.with_name("moved")), "moved, removed or replaced"),
        (link, "moved, removed or replaced"),
        (replace, "moved, removed or replaced"),
        (truncate, "has 4 bytes, but 8 were written"),
        (add, "has 24 bytes, but 8 were written"),
    ],
)
def test_what_happened_to_it_meanwhile_is_noticed_by_a_checkpoint(
    file: ExactFile, change: Callable[[Path], Any], sentence: str, closed: bool
) -> None:
    file.sync()
    if closed:
        file.close()
    change(file.path)
    if closed and change is replace:  # same content, and the file was not open
        file.sync()
        before = file.path.read_bytes()
        file.append("more\n")
        assert file.path.read_bytes() == before + b"more\n"
        file.close()
        return
    left = {path: path.read_bytes() for path in file.path.parent.iterdir()}
    with pytest.raises((CheckpointError, UserError), match=None if closed else sentence):
        file.sync()
    assert {path: path.read_bytes() for path in file.path.parent.iterdir()} == left


def test_sync_reaches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    file = ExactFile(tmp_path / "a.csv")
    file.append("one\n")
    file.sync()
    file.close()
    file.sync()
    file.close()
    assert synced == [str(tmp_path / "a.csv")] * 2


def test_a_new_file_takes_nobodys_place_and_goes_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("precious")
    (tmp_path / "b.csv").symlink_to(tmp_path / "target")
    for name in ("a.csv", "b.csv"):
        with pytest.raises(UserError, match=rf"cannot write .*{name}: File exists"):
            ExactFile(tmp_path / name).append("one\n")
    assert (tmp_path / "a.csv").read_text() == "precious" and not (tmp_path / "target").exists()
    (tmp_path / "target").write_text("one\n")
    with pytest.raises(CheckpointError, match=r"cannot read .*b\.csv: Too many levels of symbolic links"):
        ExactFile(tmp_path / "b.csv").resume(ONE)


def test_a_place_that_cannot_be_written_to_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot write .*a\.csv: No such file or directory"):
        ExactFile(tmp_path / "nowhere/a.csv").append("one\n")
