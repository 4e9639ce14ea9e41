"""The public names, and the signatures that editors and `help` show, agree with the settings classes."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import adaqn
from adaqn.agents.registry import algorithm
from adaqn.api import MODELS, Model
from adaqn.model import signatures
from adaqn.model.signatures import OneKindArguments, RunArguments


def arguments_of(model: type[Model]) -> dict[str, Any]:
    """The types of a class's keyword arguments as an editor sees them."""
    (settings,) = [p for p in inspect.signature(model.__init__).parameters.values() if p.kind is p.VAR_KEYWORD]
    name = str(settings.annotation).removeprefix("Unpack[").removesuffix("]")
    return get_type_hints(getattr(signatures, name))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_editors_know_exactly_the_settings_with_their_types(model: type[Model]) -> None:
    chosen = algorithm(model.algo)
    run = get_type_hints(RunArguments)
    one_kind = get_type_hints(OneKindArguments) if chosen.copies is not None else {}
    hints = get_type_hints(chosen.settings)
    settings = {field.name: hints[field.name] for field in dataclasses.fields(chosen.settings)}
    assert arguments_of(model) == {**run, **settings, **one_kind}
    of_model = inspect.signature(Model.__init__).parameters
    assert set(run) == set(of_model) - {"self", "env", "members", "settings"}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_signatures_show_the_defaults_that_hold(model: type[Model]) -> None:
    chosen = algorithm(model.algo)
    shown = inspect.signature(model).parameters
    assert list(shown)[:2] == ["env", "members"] and not any(p.kind is p.VAR_KEYWORD for p in shown.values())
    defaults = {**{f.name: f.default for f in dataclasses.fields(chosen.settings)}, **chosen.overrides}
    assert {name: shown[name].default for name in defaults} == defaults
    assert set(shown) == {"env", "members"} | set(arguments_of(model))
    assert shown["threads"].annotation == "int | Literal['auto'] | None"


def test_a_class_of_ones_own_has_its_own_signature() -> None:
    class Mine(adaqn.AdaDQN):
        def __init__(self, size: int) -> None:
            super().__init__("CartPole-v1", [{"hidden": [size]}])

    assert list(inspect.signature(Mine).parameters) == ["size"]


def test_dir_shows_the_public_names_and_each_is_found() -> None:
    assert set(dir(adaqn)) == {*adaqn.__all__, "__version__"}
    assert {"AdaDQN", "EvalCallback", "BaseCallback", "evaluate_policy", "grid"} <= set(dir(adaqn))
    for name in adaqn.__all__:
        assert getattr(adaqn, name).__name__ == name
    assert set(adaqn._HOMES) == set(adaqn.__all__)
    with pytest.raises(AttributeError, match="module 'adaqn' has no attribute 'AdaDQM'"):
        adaqn.AdaDQM  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018


def test_looking_at_the_names_imports_no_jax() -> None:
    program = "import sys, adaqn; dir(adaqn); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.thorough
def test_a_type_checker_sees_settings_callbacks_and_mistakes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import adaqn\n"
        'adaqn.AdaDQN("CartPole-v1", buffer_size=10, seed=3)\n'
        'adaqn.DQN("CartPole-v1", learning_rate=1e-3, callback=None)\n'
        'adaqn.SAC("Pendulum-v1", tau="a")\n'
        "adaqn.EvalCallback(eval_freq=10)\n"
        "adaqn.EvalCalback()\n"
    )
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True)
    errors = [
        line.split(" - error: ")[0].rsplit(":", 2)[1] for line in done.stdout.splitlines() if " - error: " in line
    ]
    assert errors == ["3", "4", "6"], done.stdout + done.stderr
