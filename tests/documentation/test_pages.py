"""The pages are complete: everything public is in the reference, and tables of other libraries' names are right."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import adaqn
from adaqn import DQN, SAC, TD3
from adaqn.agents.registry import algorithm_names
from adaqn.api import MODELS, Model
from adaqn.cli import _COMMANDS
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.model.stable_baselines import _INSTEAD, _INSTEAD_UNLESS_SETTING

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = "\n".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
SB3 = (DOCS / "from_sb3.md").read_text()


def test_every_algorithm_command_and_public_name_is_in_the_reference() -> None:
    assert {name for name in algorithm_names() if f"```{{settings}} {name}\n" not in REFERENCE} == set()
    assert {name for name in _COMMANDS if f"```{{flags}} {name}\n" not in REFERENCE} == set()
    public = {name for name in adaqn.__all__ if not re.search(rf":: adaqn\.{name}\b", REFERENCE)}
    assert public == set()


def test_every_algorithm_is_in_the_table_of_algorithms() -> None:
    page = (DOCS / "algorithms.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| `([\w-]+)` \|$", page, re.MULTILINE))
    assert rows == {model.__name__: name for name, model in MODELS.items() if name in algorithm_names()}


def test_every_argument_that_is_refused_is_on_the_page_about_stable_baselines() -> None:
    assert [name for name in (*_INSTEAD, *_INSTEAD_UNLESS_SETTING) if f"`{name}" not in SB3] == []


def rows_of(model: type[Model]) -> list[tuple[str, object, str, object]]:
    """Rows of the table about one algorithm: SB3's argument and default, ours and its default; a missing one is ''."""
    section = SB3.split(f"### Names and defaults of {model.__name__}\n")[1].split("\n## ")[0].split("\n### ")[0]
    rows = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            theirs, default, ours, own = cells if len(cells) == 4 else (*cells, "")
            rows.append((theirs, value(default), ours, value(own.rstrip(" |"))))
    assert len(rows) > 10
    return rows


def value(text: str) -> object:
    return "" if not text else ast.literal_eval(text if text.startswith(('"', "[")) else text.replace(",", ""))


@pytest.mark.parametrize("model", [DQN, SAC, TD3], ids=lambda model: model.__name__)
def test_our_defaults_in_the_tables_are_those_of_the_code(model: type[Model]) -> None:
    signature = inspect.signature(model).parameters
    agent = model("CartPole-v1" if model is DQN else "Pendulum-v1")
    member: Hyperparameters = agent.members[0].hyperparameters
    for theirs, _, ours, default in rows_of(model):
        if ours.startswith("none"):
            assert default == ""
        elif theirs.startswith("`policy_kwargs"):
            assert list(member.hidden) == default
        else:
            (name,) = re.findall(r"^`(\w+)`", ours)
            actual = member.learning_rate if name == "learning_rate" else signature[name].default
            assert actual == default, name


@pytest.mark.parametrize("model", [DQN, SAC, TD3], ids=lambda model: model.__name__)
def test_their_arguments_and_defaults_in_the_tables_are_those_of_stable_baselines(model: type[Model]) -> None:
    theirs = pytest.importorskip("stable_baselines3", reason="only in the environment of the benchmarks")
    parameters = inspect.signature(getattr(theirs, model.__name__)).parameters
    for names, default, _, _ in rows_of(model):
        if names.startswith("`policy_kwargs"):
            continue
        name = re.findall(r"\w+", names)[0]
        assert parameters[name].default == default, name
    assert [name for name in parameters if f"`{name}" not in SB3] == []
