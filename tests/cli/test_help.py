"""Tests of the help texts: they are quick, have no repetitions, and fit the chosen algorithm."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from adaqn.agents.registry import algorithm, algorithm_names
from adaqn.cli import main

HEAVY = ("jax", "jaxlib", "optax", "gymnasium", "matplotlib", "ConfigSpace", "tensorboardX")


def help_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--help"])
    assert end.value.code == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["train"],
        ["train", "--algo", "adasac"],
        ["train", "--config", "atari-dehb"],
        ["resume"],
        ["evaluate"],
        ["export"],
        ["figures"],
        ["study"],
        ["work"],
    ],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from adaqn.cli import main\n"
        "try: main([*sys.argv[1:], '--help'])\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
    assert "usage: adaqn" in done.stdout
    assert done.stderr.strip() == "[]"


def test_every_algorithm_has_its_settings_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in algorithm_names():
        text = help_of(capsys, "train", "--algo", name)
        assert f"settings of {name}:" in text
        for setting in algorithm(name).settings.__dataclass_fields__:
            assert f" --{setting.replace('_', '-')} " in text, (name, setting)


def test_the_help_says_how_to_see_other_settings(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys, "train")
    assert "those of adadqn: `adaqn train --algo NAME --help` shows those of another algorithm" in text
    assert "--target-update-interval" in text and "--tau" not in text
    assert "(default: lowest)" in text and "inverse_loss (default: epsilon, or inverse_loss with a space)" in text


def test_every_command_is_in_the_overview_and_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = re.findall(r"^  (\w+) +\w", capsys.readouterr().out.partition("commands:\n")[2].partition("\n\n")[0], re.M)
    assert listed == [
        "train",
        "resume",
        "evaluate",
        "schedule",
        "picture",
        "figures",
        "report",
        "export",
        "push",
        "study",
        "work",
    ]
    for command in listed:
        text = help_of(capsys, command)
        assert text.startswith(f"usage: adaqn {command} [-h]") and " -h, --help show this help" in text


def test_no_default_is_told_twice(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["train"], ["train", "--algo", "sac"], ["evaluate"], ["export"], ["picture"], ["resume"]):
        text = help_of(capsys, *arguments)
        assert "None" not in text and "False" not in text and "SUPPRESS" not in text
        for option in re.split(r" (?=--)", text):
            assert option.count("(default:") <= 1, option
