from __future__ import annotations

import os
from pathlib import Path

import pytest

from adaqn.errors import CheckpointError, UserError
from adaqn.runs.recorders.exact_file import ExactFile


def test_lines_are_on_disk_at_once_with_plain_newlines(tmp_path: Path) -> None:
    file = ExactFile(tmp_path / "a.csv")
    assert file.size == 0
    file.append("ψ\n")
    assert (tmp_path / "a.csv").read_bytes() == b"\xcf\x88\n"
    assert file.size == 3
    file.close()


def test_it_is_cut_back_and_goes_on_from_there(tmp_path: Path) -> None:
    file = ExactFile(tmp_path / "a.csv")
    file.append("one\ntwo\n")
    file.close()
    file = ExactFile(tmp_path / "a.csv")
    file.truncate(4)
    file.append("three\n")
    file.close()
    assert (tmp_path / "a.csv").read_text() == "one\nthree\n"


def test_it_can_be_cut_back_while_it_is_open(tmp_path: Path) -> None:
    file = ExactFile(tmp_path / "a.csv")
    file.append("one\ntwo\n")
    file.truncate(4)
    file.append("three\n")
    file.close()
    file.append("four\n")
    file.close()
    assert (tmp_path / "a.csv").read_text() == "one\nthree\nfour\n"


def test_it_cannot_be_cut_to_more_than_it_has(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("one\n")
    with pytest.raises(CheckpointError, match="has 4 bytes, but the checkpoint was made when it had 5"):
        ExactFile(tmp_path / "a.csv").truncate(5)
    assert (tmp_path / "a.csv").read_text() == "one\n"
    with pytest.raises(CheckpointError, match="has 0 bytes"):
        ExactFile(tmp_path / "missing.csv").truncate(5)


def test_sync_reaches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    file = ExactFile(tmp_path / "a.csv")
    file.append("one\n")
    file.sync()
    file.close()
    file.sync()
    assert synced == [str(tmp_path / "a.csv")] * 2


def test_a_place_that_cannot_be_written_to_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot write .*a\.csv: No such file or directory"):
        ExactFile(tmp_path / "nowhere/a.csv").append("one\n")
