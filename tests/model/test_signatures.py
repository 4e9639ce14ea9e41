"""The public names, and the signatures that editors and `help` show, agree with the settings classes."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import adaqn
from adaqn.agents.registry import algorithm
from adaqn.api import MODELS, Model
from adaqn.model.signatures import ONE_KIND_ARGUMENTS, RUN_ARGUMENTS

ROOT = Path(__file__).parents[2]


def stub_arguments() -> dict[str, dict[str, tuple[str, str | None]]]:
    """The arguments of each class in the file that editors read, with types and defaults."""
    found = {}
    for statement in ast.parse((ROOT / "src" / "adaqn" / "api.pyi").read_text()).body:
        if not isinstance(statement, ast.ClassDef):
            continue
        for method in statement.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                of = method.args
                positional = [*zip(of.args[1:], [None, *of.defaults], strict=True)]
                listed = [*positional, *zip(of.kwonlyargs, of.kw_defaults, strict=True)]
                found[statement.name] = {
                    argument.arg: (ast.unparse(argument.annotation), default and ast.unparse(default))
                    for argument, default in listed
                    if argument.annotation is not None
                }
    return found


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_editors_see_every_argument_with_its_type_and_the_default_that_holds(model: type[Model]) -> None:
    chosen = algorithm(model.algo)
    seen = stub_arguments()[model.__name__]
    fields = {field.name: field for field in dataclasses.fields(chosen.settings)}
    defaults = {name: chosen.overrides.get(name, field.default) for name, field in fields.items()}
    one_kind = ONE_KIND_ARGUMENTS if chosen.copies is not None else {}
    assert set(seen) == {*RUN_ARGUMENTS, *fields, *one_kind}
    assert {name: ast.literal_eval(seen[name][1] or "") for name in fields} == defaults
    assert all(seen[name][0] == ast.unparse(ast.parse(str(field.type))) for name, field in fields.items())


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_help_explains_every_argument(model: type[Model]) -> None:
    shown = inspect.signature(model).parameters
    assert list(shown)[:2] == ["env", "members"] and not any(p.kind is p.VAR_KEYWORD for p in shown.values())
    assert shown["threads"].annotation == "int | Literal['auto'] | None"
    explained = dict(line.strip().split(": ", 1) for line in (model.__doc__ or "").split("Args:\n")[1].splitlines())
    assert set(explained) == set(shown) and all(explained.values())
    assert set(RUN_ARGUMENTS) == set(inspect.signature(Model.__init__).parameters) - {"self", "settings"}


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
