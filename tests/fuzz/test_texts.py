"""Damaged and odd texts: configurations, spaces, schedules, tables of a run, and words on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from adaqn.agents.registry import algorithm_names
from adaqn.api import Model
from adaqn.members.space import space_from
from adaqn.runs.config import RunConfig, read_config, schedule_from
from adaqn.runs.directory import EXACT_FILES
from tests.fuzz.harness import WRONG, command, damaged_bytes, exhaustive, fingerprint, outcome, paths_in, replaced

pytestmark = pytest.mark.thorough

ALIASES = "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(12))
MERGES = "".join(f"{chr(98 + i)}: &{chr(98 + i)} {{<<: [{', '.join(['*' + chr(97 + i)] * 9)}]}}\n" for i in range(12))
TEXTS = [
    "", "~", "5", "[]", "{}", "- 1", "text", "2024-13-45", "steps: 2024-13-45", "!!int abc", "steps: !!int abc",
    "!!bool x",
    "!!float ''", "!!timestamp x", "!!binary x", "!!set {a}", "!!omap [a: 1]", "!!python/object/apply:os.getcwd []",
    "1" * 5000, "steps: " + "9" * 5000, "steps: " + "9" * 300, "[" * 3000, "[" * 3000 + "]" * 3000, "{a: " * 3000,
    "- " * 3000, "a: &a [x, x, x, x]\n" + ALIASES, "a: &a {k: 1}\n" + MERGES, "&a [*a]", "&a {b: *a}", "*a", "a: b: c",
    "algo: 5", "algo: [dqn]", "algo: {a: 1}", "env: 5", "env: [CartPole-v1]", "env: {}", "env: ''", "env: ':'",
    "env: 'x:'",
    "env: 'no_such_module:Id'", "env: a/b/c", "steps: -1", "steps: .nan", "steps: .inf", "steps: 1e400", "seed: -3",
    "seed: 1e3", "n_envs: 0", "n_envs: [1]", "members: 5", "members: {}", "members: [5]", "members: [{hidden: x}]",
    "members: [{hidden: [0]}]", "members: [{hidden: {}}]", "members: [{activation: 5}]",
    "members: [{activation: [relu]}]",
    "members: [{learning_rate: x}]", "members: [{optimizer_options: 5}]", "members: [{optimizer_options: {eps: x}}]",
    "members: [{optimizer_options: {no: 1}}]", "members: [{convolutions: [{}]}]", "members: [{5: 6}]", "grid: 5",
    "grid: {hidden: 5}", "grid: {5: [1]}", "grid: {no: [1]}", "grid: {hidden: []}", "settings: 5", "settings: {5: 1}",
    "settings: {gamma: x}", "settings: {gamma: [1]}", "settings: {selection: 5}", "settings: {selection: [lowest]}",
    "settings: {batch_size: 0.5}", "settings: {no: 1}", "space: 5", "space: no", "space: [1]", "space: {base: 5}",
    "space: {base: [vectors]}", "space: {hidden: 5}", "space: {activation: {}}", "space: {activation: [5]}",
    "space: {learning_rate: [1, 0]}", "space: {learning_rate: [x, y]}", "space: {fixed: 5}", "schedule: 5",
    "schedule: []",
    "schedule: [5]", "schedule: [{step: x, hyperparameters: {}}]", "schedule: {schedule: 5}", "env_kwargs: 5",
    "env_kwargs: {5: 1}", "env_kwargs: {no: 1}", "env_kwargs: {max_episode_steps: x}", "version: 7", "version: x",
    "wandb_project: 5", "wandb_project: [a]", "log_interval: x", "eval_interval: [1]", "a\x00b", "\t",
    "%YAML 9.9\n---\na",
    "--- a\n--- b", "? [a]\n: b", "<<: 5", "=", "\ufeffsteps: 5", "é: ü", "steps: 0x" + "f" * 300, "steps: 1:2:3",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:24]))
def test_odd_yaml_wherever_it_is_read(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    outcome(lambda: RunConfig.from_dict(read_config(file)))
    with_needed = f"{text}\n" + "".join(
        f"{name}: {value}\n" for name, value in (("env", "CartPole-v1"), ("steps", 2000)) if f"{name}:" not in text
    )
    (tmp_path / "whole.yaml").write_text(with_needed)
    outcome(lambda: RunConfig.from_dict(read_config(tmp_path / "whole.yaml")))
    outcome(lambda: space_from(file))
    outcome(lambda: schedule_from(file))
    short = ["train", "--env", "CartPole-v1", "--steps", "5000", "--learning-starts", "5001", "--quiet"]
    if "\x00" not in text and text:  # no system passes these on
        # A run that is too short is refused in the end, so that nothing is trained here.
        assert command([*short, f"--env-kwargs={text}"], capsys) is not None
        assert command([*short, "--grid", f"learning_rate={text}"], capsys) is not None
        assert command([*short, "--grid", text], capsys) is not None


@exhaustive(80)
@given(data=st.data())
def test_a_configuration_with_wrong_values(
    data: st.DataObject, whole_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = yaml.safe_load((whole_run / "config.yaml").read_text())
    path = data.draw(st.sampled_from(sorted(paths_in(values), key=repr)))
    changed = replaced(values, path, data.draw(st.sampled_from(WRONG)))
    outcome(lambda: RunConfig.from_dict(changed))
    changed["algo"] = data.draw(st.sampled_from([changed.get("algo"), *sorted(algorithm_names())]))
    outcome(lambda: RunConfig.from_dict(changed))


@exhaustive(60)
@given(data=st.data())
def test_a_run_with_a_damaged_configuration(
    data: st.DataObject, fresh_run: Callable[[], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = fresh_run()
    file = run / "config.yaml"
    if data.draw(st.booleans()):
        file.write_bytes(data.draw(damaged_bytes(file.read_bytes())))
    else:
        values = yaml.safe_load(file.read_text())
        path = data.draw(st.sampled_from(sorted(paths_in(values), key=repr)))
        new = data.draw(st.sampled_from([value for value in WRONG if value != "\ud800\n"]))  # no file can have it
        file.write_text(yaml.safe_dump(replaced(values, path, new)))
    before = fingerprint(run)
    outcome(lambda: Model.from_run(run))
    assert fingerprint(run) == before
    if command(["resume", str(run), "--quiet"], capsys) is not None:
        assert fingerprint(run) == before


TABLES = ("members.jsonl", "episodes.csv", "selection.csv", "progress.csv", "config.yaml")
LINES = [
    "", ",", "x", "1,2", "1,2,3,4,5,6,7,8,9", "nan,nan,nan", "1,inf,3", "-5,0,1,1,1,1", "4200,9,1,1,1,1",
    "4200,0.5,1,1,1,1",
    "4200,-1,1,1,1,1", "4200,nan,1,1,1,1", "1e300,0,1,1,1,1", "4200,0,nan,-inf,0,0", "4200,0,-1,0,0,0", '"', '"a\n',
    "\x00",
    "null", "5", "[]", "{}", '{"step": 0}', '{"members": []}', '{"step": "x", "members": []}',
    '{"step": 0, "members": 5}',
    '{"step": 0, "members": [5]}', '{"step": 0, "members": [{"hidden": 5}]}', '{"step": -1, "members": [{}]}',
    '{"step": 0, "members": [{"parent": [], "mutation": 5}]}', '{"step": 99999, "members": [{}, {}]}', "9" * 5000,
    "[" * 9999,
    '{"step": 0, "members": [{"no": 1}]}', "é,ü", "1" * 200_000,
]  # fmt: skip


@exhaustive(90)
@given(data=st.data())
def test_the_reading_commands_on_damaged_tables(
    data: st.DataObject, fresh_run: Callable[[], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = fresh_run()
    file = run / data.draw(st.sampled_from(TABLES))
    whole = file.read_bytes()
    kind = data.draw(st.sampled_from(["bytes", "bytes", "added", "only", "first", "latin", "missing", "directory"]))
    line = (data.draw(st.sampled_from(LINES)) + "\n").encode()
    if kind == "bytes":
        file.write_bytes(data.draw(damaged_bytes(whole)))
    elif kind == "missing":
        file.unlink()
    elif kind == "directory":
        file.unlink()
        file.mkdir()
    else:
        texts = {"added": whole + line, "only": line, "first": line + whole, "latin": whole + b"\xe9\xff\n"}
        file.write_bytes(texts[kind])
    if data.draw(st.booleans()):
        (run / "summary.json").write_bytes(data.draw(damaged_bytes(json.dumps({"steps": 4260}).encode())))
    before = fingerprint(run)
    for words in (["picture"], ["schedule"], ["schedule", "-o", str(run / "picture.png")]):
        told = command([words[0], str(run), *words[1:]], capsys)
        after = fingerprint(run)
        if told is not None:
            assert after == before, f"{words} was refused ({told}) and changed something"
        assert {name: after.get(name) for name in before} == before, "what was there stays as it was"
        before = after


@exhaustive(40)
@given(data=st.data())
def test_resuming_with_damaged_tables(
    data: st.DataObject, fresh_run: Callable[[], Path], resumed_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fresh_run()
    file = run / data.draw(st.sampled_from(TABLES[:4]))
    file.write_bytes(data.draw(damaged_bytes(file.read_bytes())))
    before = fingerprint(run)
    if command(["resume", str(run), "--quiet"], capsys) is not None:
        assert fingerprint(run) == before, f"{file.name}: a refused resume changes nothing"
        return
    # Only what the checkpoint does not vouch for was damaged, and the run has written it anew.
    after, expected = fingerprint(run), fingerprint(resumed_run)
    assert {name: after[name] for name in EXACT_FILES if name in expected} == {
        name: expected[name] for name in EXACT_FILES if name in expected
    }


NUMBERS = [
    "0",
    "-1",
    "1",
    "x",
    "",
    "nan",
    "inf",
    "1e3",
    "1e400",
    "9" * 30,
    "9" * 5000,
    "0.5",
    "true",
    "None",
    "[1]",
    "é",
    "1,2",
]
FLAGS = [
    "--seed", "--n-envs", "--steps", "--log-interval", "--checkpoint-interval", "--eval-interval", "--eval-episodes",
    "--gamma", "--tau", "--target-update-interval", "--train-freq", "--exploration-steps", "--selection", "--behaviour",
    "--space", "--schedule", "--algo", "--env", "--config", "--no-such-flag", "-x", "--", "--grid", "--env-kwargs",
    "--population",
]  # fmt: skip


@exhaustive(120)
@given(
    flags=st.lists(st.tuples(st.sampled_from(FLAGS), st.sampled_from(NUMBERS)), min_size=1, max_size=3),
    joined=st.booleans(),
)
def test_odd_words_behind_train(
    flags: list[tuple[str, str]], joined: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"{flag}={value}" if joined else word for flag, value in flags for word in ((flag, value))][
        : 2 * len(flags)
    ]
    # Too short to learn, so that whatever is right about the rest is refused in the end.
    arguments = ["train", "--env", "CartPole-v1", *words, "--quiet", "--steps", "5", "--learning-starts", "1000"]
    assert command(arguments, capsys) is not None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["resume", "evaluate", "picture", "schedule", "export"])
@pytest.mark.parametrize(
    "where", ["missing", "empty", "file", "binary", "no utf-8", "config only", "", ".", "long name"]
)
def test_commands_on_what_is_no_run(
    name: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target"
    if where in ("file", "binary", "no utf-8"):
        target.write_bytes({"file": b"text\n", "binary": b"PK\x03\x04" + bytes(40), "no utf-8": b"\xff\xfe"}[where])
    elif where == "long name":
        target = target / ("x" * 5000)
    elif where != "missing":
        target.mkdir()
    if where == "config only":
        (target / "config.yaml").write_bytes(b"env: CartPole-v1\nsteps: \xff\n")
    monkeypatch.chdir(tmp_path)
    before = fingerprint(tmp_path)
    told = command([name, where if where in ("", ".") else str(target)], capsys)
    assert told is not None and fingerprint(tmp_path) == before
