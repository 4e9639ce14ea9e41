"""Tests of the validators of user input, which return the value in its proper type or raise one sentence."""

from __future__ import annotations

import math
from typing import Any

import pytest

from adaqn.agents.settings import EvolutionSettings
from adaqn.base.checks import Check, at_least, auto_or, between, count, flag, number, one_of, optional, some_of
from adaqn.base.errors import UserError
from adaqn.members.evolution import DEFAULT_MUTATIONS, FURTHER_MUTATIONS

COLOURS = one_of(lambda: ["red", "green", "blue"])
SOME = some_of(lambda: ["red", "green", "blue"])


@pytest.mark.parametrize(
    ("check", "given", "value"),
    [
        (at_least(2), 2, 2),
        (at_least(2), "3", 3),
        (at_least(2), 1e3, 1000),
        (between(0.0, 1.0), "1e-3", 1e-3),
        (between(0.0, 1.0), 1, 1.0),
        (between(-1.0), 7, 7.0),
        (flag, True, True),
        (COLOURS, "red", "red"),
        (SOME, "blue", ("blue",)),
        (SOME, "blue,red", ("blue", "red")),
        (SOME, ["green", "red"], ("green", "red")),
        (SOME, ("green",), ("green",)),
        (optional(at_least(0)), None, None),
        (optional(at_least(0)), "0", 0),
        (auto_or(between(0.0)), "auto", "auto"),
        (auto_or(between(0.0)), "0.5", 0.5),
    ],
)
def test_what_is_allowed_comes_back_in_its_type(check: Check, given: Any, value: Any) -> None:
    checked = check("colour", given)
    assert (checked, type(checked)) == (value, type(value))


@pytest.mark.parametrize(
    ("check", "given", "sentence"),
    [
        (at_least(2), 1, "x must be a whole number of at least 2, but got 1"),
        (at_least(2), 2.5, "x must be a whole number of at least 2, but got 2.5"),
        (at_least(2), True, "x must be a finite number, but got True"),
        (between(0.0, 1.0), 1.5, "x must be a finite number between 0 and 1, but got 1.5"),
        (between(0.0, 1.0), math.nan, "x must be a finite number between 0 and 1, but got nan"),
        (between(0.0), -1, "x must be a finite number of at least 0, but got -1"),
        (between(0.0), "much", "x must be a number, but got 'much'"),
        (between(0.0), None, "x must be a number, but got None"),
        (flag, 1, "x must be true or false, but got 1"),
        (flag, "true", "x must be true or false, but got 'true'"),
        (COLOURS, "redd", "unknown x 'redd'; did you mean 'red'? (allowed: blue, green, red)"),
        (COLOURS, None, "unknown x None (allowed: blue, green, red)"),
        (SOME, "red,gren", "unknown x 'gren'; did you mean 'green'? (allowed: blue, green, red)"),
        (SOME, "red,red", "x must be different names, but got 'red,red'"),
        (SOME, [], "x must be names such as red,green, but got []"),
        (SOME, 3, "x must be names such as red,green, but got 3"),
        (optional(at_least(0)), -1, "x must be a whole number of at least 0, but got -1"),
        (auto_or(between(0.0)), "otto", "x (auto, or a number) must be a number, but got 'otto'"),
    ],
)
def test_a_mistake_gets_one_sentence(check: Check, given: Any, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        check("x", given)
    assert str(error.value) == sentence


def test_large_whole_numbers_keep_all_their_digits() -> None:
    assert count("seed", 2**62 + 1) == 2**62 + 1
    assert number("x", "1e300") == 1e300
    with pytest.raises(UserError, match="seed must be a finite number, but got inf"):
        count("seed", math.inf)


def test_mutations_are_named_in_the_settings() -> None:
    assert EvolutionSettings().mutations == DEFAULT_MUTATIONS
    choices = EvolutionSettings.__dataclass_fields__["mutations"].metadata["choices"]()
    assert choices == sorted([*DEFAULT_MUTATIONS, *FURTHER_MUTATIONS, "discount"])  # which only runs that name it have
