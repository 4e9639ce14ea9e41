"""User files are read in bounded time, files are replaced atomically, and foreign files are not overwritten."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from adaqn.base.errors import LONGEST_MESSAGE, OutputFault, UserError
from adaqn.base.files import (
    json_value,
    make_parent,
    read_text,
    read_yaml,
    replacing,
    require_free,
    require_ours,
    yaml_text,
    yaml_value,
)
from adaqn.cli import main

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join(['*' + before] * 9)}]\n"
    for before, after in zip("abcdefghij", "bcdefghijk", strict=True)
)


def test_plain_values_are_read_as_yaml_has_them() -> None:
    text = "a: 1\nb: [0.5, true, null, text]\nc: {d: 'x', e: .inf}\nf: &f {g: 2}\nh: {<<: *f, i: *f}"
    values = {"a": 1, "b": [0.5, True, None, "text"], "c": {"d": "x", "e": float("inf")}}
    assert yaml_value("it", text) == values | {"f": {"g": 2}, "h": {"g": 2, "i": {"g": 2}}}


def test_dates_stay_text_also_impossible_ones() -> None:
    assert yaml_value("it", "[2024-02-28, 2024-13-45, 2024-01-01 10:00:00]") == [
        "2024-02-28",
        "2024-13-45",
        "2024-01-01 10:00:00",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("!!int abc", "a value does not fit its tag"),
        ("!!float ''", "a value does not fit its tag"),
        ("!!bool 7", "a value does not fit its tag"),
        ("9" * 5000, "a number has more than 400 characters"),
        ("1:" * 5000 + "1", "a number has more than 400 characters"),
        ("[" * 3000 + "]" * 3000, "more than 50 lists or mappings are nested"),
        ("- " * 3000, "more than 50 lists or mappings are nested"),
        (BOMB, "it has more than 100,000 values"),
        (
            BOMB.replace("[", "{<<: [").replace("]", "]}").replace("{<<: [x, x, x, x, x, x, x, x, x]}", "{k: v}"),
            "values",
        ),
        ("&a [*a]", "a value contains itself"),
        ("!!binary aGk=", "could not determine a constructor"),
        ("!!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("a: [", "while parsing"),
        ("x" * 1_000_001, "at most 1,000,000 are read"),
    ],
    ids=lambda value: value[:20],
)
def test_what_is_wrong_with_yaml_is_told_soon(text: str, reason: str) -> None:
    began = time.monotonic()
    with pytest.raises(UserError, match=reason) as caught:
        yaml_value("run.yaml", text)
    assert str(caught.value).startswith("run.yaml ") and "\n" not in str(caught.value)
    assert time.monotonic() - began < 20.0  # seconds on a busy machine; an unbounded bomb takes hours


def test_json_that_is_nested_too_deeply_or_has_too_many_digits() -> None:
    assert json_value("it", '{"a": [1]}') == {"a": [1]}
    for text in ("[" * 100_000, "9" * 5000, "{", b"\xff"):
        with pytest.raises(UserError, match=r"^it is not valid JSON: "):
            json_value("it", text)


def test_a_file_that_is_not_utf_8_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("caf\xe9".encode("latin-1"))
    for path in (tmp_path / "latin", tmp_path / "missing", tmp_path):
        with pytest.raises(UserError, match=r"^cannot read .* as text: "):
            read_text(path)
    (tmp_path / "utf-8").write_text("caf\xe9", encoding="utf-8")
    assert read_yaml(tmp_path / "utf-8") == "caf\xe9"


@pytest.mark.parametrize("flag", ["--env-kwargs={}", "--grid=learning_rate={}"])
@pytest.mark.parametrize("text", ["!!int abc", "9" * 5000, "[" * 300], ids=lambda text: text[:10])
def test_yaml_on_the_command_line_is_bounded_too(flag: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--env", "CartPole-v1", "--steps", "5000", flag.format(text)]) == 1
    assert capsys.readouterr().err.startswith(f"adaqn: {'--env-kwargs' if 'env' in flag else 'the value of'} ")


@pytest.mark.parametrize("entry", ["algo: 5", "algo: [dqn]", "env: [CartPole-v1]", "wandb_project: [x]"])
def test_a_number_or_a_list_where_a_name_belongs(
    entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    defaults = {"env": "CartPole-v1", "steps": "2000"}
    lines = [entry, *(f"{name}: {value}" for name, value in defaults.items() if not entry.startswith(name))]
    (tmp_path / "run.yaml").write_text("\n".join(lines))
    assert main(["train", "--config", str(tmp_path / "run.yaml")]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and entry.partition(": ")[2].strip("[]") in told


@pytest.mark.parametrize("command", ["resume {}", "picture {}", "export {}", "train --config {}", "train --space {}"])
def test_a_name_that_is_too_long_for_a_file(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.format("x" * 5000).split(), *(["--env", "CartPole-v1"] if "train" in command else [])]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and told.startswith("adaqn: ")


def test_a_message_is_one_line_of_bounded_length() -> None:
    assert str(UserError("first\nsecond")) == "first second"
    message = str(UserError(f"begin {'x' * 100_000} end"))
    assert len(message) <= LONGEST_MESSAGE + 10 and message.startswith("begin x") and message.endswith("x end")


def test_written_yaml_reads_back_and_keeps_its_order() -> None:
    values = {"b": [1, 2.5, None, True], "a": {"z": "text", "c": []}}
    text = yaml_text(values)
    assert text == "b: [1, 2.5, null, true]\na:\n  z: text\n  c: []\n"
    assert yaml_value("it", text) == values
    with pytest.raises(UserError, match=r"^only plain values can be written as YAML, but got 1j$"):
        yaml_text({"a": 1j})


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "some" / "file.txt"
    with pytest.raises(OutputFault, match=r"^cannot write .*file.txt: No such file or directory$"), replacing(path):
        pass
    make_parent(path)
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), replacing(path) as file:
        file.write(b"half of the n")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path], "a temporary file was left"
    with pytest.raises(OutputFault, match=r"^cannot write .*below: (File exists|Not a directory)$"):
        make_parent(path / "below")


def test_a_taken_path_is_overwritten_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    require_free(path)
    path.symlink_to(tmp_path / "nowhere")  # even a dangling link counts as existing
    with pytest.raises(UserError, match=r"file.txt exists already; add --force to overwrite it, or name another file$"):
        require_free(path)
    require_free(path, force=True)


def test_only_what_adaqn_wrote_is_replaced_unasked(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    ours = lambda file: file.read_text() == "ours"  # noqa: E731
    require_ours(path, "note that adaqn wrote", ours)
    path.write_text("ours")
    require_ours(path, "note that adaqn wrote", ours)
    path.write_text("theirs")
    with pytest.raises(
        UserError, match=r"file.txt exists, but is no note that adaqn wrote, so it is not overwritten: "
    ):
        require_ours(path, "note that adaqn wrote", ours)
