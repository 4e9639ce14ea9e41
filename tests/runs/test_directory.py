from __future__ import annotations

import os
from pathlib import Path

import pytest

from adaqn.base.errors import UserError
from adaqn.runs.config import RunConfig
from adaqn.runs.directory import RunDirectory

WRITTEN = [
    "config.yaml",
    "episodes.csv",
    "selection.csv",
    "members.jsonl",
    "evaluations.csv",
    "policy_evaluations.csv",
    ".evaluations.csv.3.tmp",
    "trials.jsonl",
    "progress.csv",
    "summary.json",
    "best_model.zip",
    "picture.png",
    "video.mp4",
    ".summary.json.77.tmp",
    "tensorboard/events.out.tfevents.1.host",
    "checkpoint/step-000000100.zip",
    "checkpoint/.step-000000200.zip.5.tmp",
    "checkpoint/segments/rows-000000000-000004096.zip",
]
FOREIGN = ["notes.md", "config.yaml.bak", "checkpoint/mine.zip", "tensorboard/readme", "plots/curve.csv"]


CONFIG = RunConfig.from_dict({"env": "CartPole-v1", "steps": 5_000}).to_yaml()


def fill(path: Path, names: list[str]) -> None:
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(CONFIG if name == "config.yaml" else name)


def files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def test_a_new_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path / "runs/lander")
    assert directory.path.is_dir()
    assert directory.episodes == tmp_path / "runs/lander/episodes.csv"
    assert RunDirectory.create(str(tmp_path / "runs/lander")) == directory  # still empty


def test_the_names_are_those_of_the_documentation(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    names = ("config", "episodes", "selection", "members", "evaluations", "trials", "progress")
    names += ("tensorboard", "checkpoint", "summary")
    assert [getattr(directory, name).name for name in names] == [
        *("config.yaml", "episodes.csv", "selection.csv", "members.jsonl", "evaluations.csv", "trials.jsonl"),
        *("progress.csv", "tensorboard", "checkpoint", "summary.json"),
    ]


@pytest.mark.parametrize("present", [["config.yaml", "episodes.csv"], ["notes.md"]])
def test_what_is_there_is_not_overwritten(tmp_path: Path, present: list[str]) -> None:
    fill(tmp_path, present)
    with pytest.raises(UserError) as caught:
        RunDirectory.create(tmp_path)
    message = str(caught.value)
    assert f"it holds {', '.join(present)})" in message
    assert "nothing was overwritten" in message
    assert (f"`adaqn resume {tmp_path}`" in message) == ("config.yaml" in present)
    assert "--force" in message
    assert files(tmp_path) == set(present)


def test_a_long_listing_is_cut(tmp_path: Path) -> None:
    fill(tmp_path, [f"{letter}.txt" for letter in "abcdefghi"])
    with pytest.raises(UserError, match=r"holds a.txt, b.txt, c.txt, d.txt, e.txt, f.txt and 3 more\)"):
        RunDirectory.create(tmp_path)


def test_force_removes_what_a_run_wrote_and_nothing_else(tmp_path: Path) -> None:
    fill(tmp_path, WRITTEN + FOREIGN)
    RunDirectory.create(tmp_path, force=True)
    assert files(tmp_path) == set(FOREIGN)


def test_force_leaves_no_empty_directories_of_a_run(tmp_path: Path) -> None:
    fill(tmp_path, WRITTEN)
    RunDirectory.create(tmp_path, force=True)
    assert os.listdir(tmp_path) == []


def test_force_deletes_the_summary_first_and_the_configuration_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, WRITTEN)
    deleted: list[str] = []
    unlink = os.unlink
    monkeypatch.setattr(os, "unlink", lambda path: (deleted.append(Path(path).name), unlink(path)))
    RunDirectory.create(tmp_path, force=True)
    assert deleted[0] == "summary.json"
    assert deleted[-1] == "config.yaml"  # so that an incomplete deletion can be continued


def test_force_does_not_touch_what_no_run_wrote(tmp_path: Path) -> None:
    fill(tmp_path, ["notes.md", "episodes.csv", "checkpoint/step-000000100.zip"])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match=r"holds no run, .* nothing there \(such as episodes.csv, checkpoint/step-"):
        RunDirectory.create(tmp_path, force=True)
    (tmp_path / "config.yaml").write_text("defaults:\n  - optimizer: adam\nseed: 1\n")  # some other program's
    with pytest.raises(UserError, match="holds no run"):
        RunDirectory.create(tmp_path, force=True)
    (tmp_path / "config.yaml").unlink()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_force_begins_a_run_beside_files_that_are_not_in_its_way(tmp_path: Path) -> None:
    fill(tmp_path, ["notes.md", "plots/curve.csv"])
    RunDirectory.create(tmp_path, force=True)
    assert files(tmp_path) == {"notes.md", "plots/curve.csv"}


@pytest.mark.parametrize("name", ["tensorboard", "checkpoint", "checkpoint/segments", "episodes.csv", "wandb"])
def test_nothing_is_written_or_removed_through_a_link(tmp_path: Path, name: str) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    fill(run, ["config.yaml", "members.jsonl", "checkpoint/step-000000100.zip"])
    fill(elsewhere, ["events.out.tfevents.1.host", "step-000000100.zip", "rows-000000000-000004096.zip"])
    if name == "checkpoint":
        (run / "checkpoint/step-000000100.zip").unlink()
        (run / "checkpoint").rmdir()
    (run / name).symlink_to(elsewhere)
    before = files(tmp_path)
    with pytest.raises(UserError, match=f"{name} is a symbolic link, which a run does not write through"):
        RunDirectory.create(run, force=True)
    with pytest.raises(UserError, match=f"{name} is a symbolic link"):
        RunDirectory.open(run).require_no_links()
    assert files(tmp_path) == before and (run / name).is_symlink()


def test_a_link_to_a_file_that_is_replaced_as_a_whole_is_removed_without_its_target(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fill(run, ["config.yaml"])
    fill(tmp_path, ["mine.png"])
    (run / "picture.png").symlink_to(tmp_path / "mine.png")
    RunDirectory.create(run, force=True)
    assert files(tmp_path) == {"mine.png"} and os.listdir(run) == []


def test_the_run_directory_itself_may_be_a_link(tmp_path: Path) -> None:
    fill(tmp_path / "disk", ["config.yaml", "episodes.csv", "checkpoint/step-000000100.zip"])
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    RunDirectory.create(tmp_path / "run", force=True)
    assert os.listdir(tmp_path / "disk") == [] and (tmp_path / "run").is_symlink()


def test_a_lock_is_no_content_and_stays_when_forced(tmp_path: Path) -> None:
    fill(tmp_path, [".lock"])
    RunDirectory.create(tmp_path)
    fill(tmp_path, WRITTEN)
    RunDirectory.create(tmp_path, force=True)
    assert os.listdir(tmp_path) == [".lock"]


@pytest.mark.parametrize("force", [False, True])
def test_a_run_that_was_killed_while_it_wrote_its_configuration_has_not_begun(tmp_path: Path, force: bool) -> None:
    fill(tmp_path, [".config.yaml.77.tmp", ".lock"])
    RunDirectory.create(tmp_path, force)
    assert [file.name for file in tmp_path.iterdir()] == [".lock"]


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "lander").write_text("")
    with pytest.raises(UserError, match=r"cannot make the run directory .*lander: File exists"):
        RunDirectory.create(tmp_path / "lander", force=True)


def test_only_a_run_is_opened(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no run directory .*nowhere"):
        RunDirectory.open(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"is not a run directory: it has no config\.yaml"):
        RunDirectory.open(tmp_path)
    fill(tmp_path, ["config.yaml"])
    directory = RunDirectory.open(tmp_path)
    assert directory.path == tmp_path
    assert not directory.finished
    fill(tmp_path, ["summary.json"])
    assert directory.finished
