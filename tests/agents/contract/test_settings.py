"""An invalid setting is reported in one sentence that names it."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest

from adaqn.base.checks import most
from adaqn.base.errors import UserError
from tests.agents.contract.cases import Case, cases

NO_NUMBERS: tuple[Any, ...] = (math.nan, math.inf, "soon", True, [1, 2], {"value": 1})


def fields_of(case: Case) -> list[dataclasses.Field[Any]]:
    return list(dataclasses.fields(case.entry.settings))


def wrong_values(field: dataclasses.Field[Any]) -> list[Any]:
    """Values that are invalid for every setting with this type of default."""
    if field.metadata["choices"] is not None:
        known = field.metadata["choices"]()
        return [7, math.nan, "no such name", f"{known[0]}s", [], ["no such name"], {}, object()]
    if isinstance(field.default, bool):
        return [0, 1, "yes", None, [], math.nan]
    if isinstance(field.default, int):
        too_many = [] if (limit := most(field.name)) is None else [limit + 1]
        return [*NO_NUMBERS, None, -1, 1.5, *too_many, object()]
    if isinstance(field.default, float):
        return [*NO_NUMBERS, None, object(), *([-1.0] if field.default >= 0.0 else [])]
    return [*(value for value in NO_NUMBERS if value != [1, 2]), object()]


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_wrong_value_is_refused_in_one_sentence(case: Case) -> None:
    for field, wrong in [(one, value) for one in fields_of(case) for value in wrong_values(one)]:
        with pytest.raises(UserError) as raised:
            case.entry.configure({field.name: wrong})
            pytest.fail(f"{field.name} may be {wrong!r}")
        sentence = str(raised.value)
        assert field.name in sentence, f"{wrong!r}: {sentence}"
        # The value, or the one among several that is wrong.
        given = wrong[0] if isinstance(wrong, list) and wrong and isinstance(wrong[0], str) else wrong
        assert repr(given) in sentence, f"{field.name}={wrong!r}: {sentence}"
        assert not sentence.endswith("."), sentence


def told(field: dataclasses.Field[Any], value: Any) -> str | None:
    """Why a value is not allowed, without the value; None if it is."""
    try:
        field.metadata["check"](field.name, value)
    except UserError as error:
        return str(error).partition(", but got")[0]
    return None


@pytest.mark.parametrize("case", cases(), ids=str)
def test_the_limits_of_a_number_are_those_that_it_is_refused_with(case: Case) -> None:
    limited = 0
    for field in fields_of(case):
        for far in (-1e300, 1e300):
            limits = [float(text) for text in re.findall(r"(?:least|most|between|and) (\S+)", told(field, far) or "")]
            if not limits:
                continue
            limit = min(limits) if far < 0 else max(limits)
            whole = "whole number" in (told(field, far) or "")
            assert field.metadata["check"](field.name, limit) == limit
            assert told(field, limit + math.copysign(1, far) if whole else math.nextafter(limit, far)) == told(
                field, far
            )
            limited += 1
        # A number that has no lower limit at all is one that may be negative.
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            assert told(field, -1e300) is not None or field.default < 0, field.name
    assert limited >= len(dataclasses.fields(case.entry.settings)) // 2


@pytest.mark.parametrize("case", cases(), ids=str)
def test_the_default_is_allowed_and_explained(case: Case) -> None:
    settings = case.entry.configure({})
    for field in fields_of(case):
        kept = getattr(settings, field.name)
        assert kept == case.entry.overrides.get(field.name, field.default)
        assert field.metadata["check"](field.name, kept) == kept
        assert len(field.metadata["help"].split()) > 2, field.name


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_setting_that_there_is_not_is_refused_with_the_nearest_one(case: Case) -> None:
    with pytest.raises(UserError, match=r"^unknown setting 'no_such_thing'"):
        case.entry.configure({"no_such_thing": 1})
    for field in fields_of(case):
        misspelt = f"{field.name}s"
        with pytest.raises(UserError, match=rf"^unknown setting '{misspelt}'; did you mean '{field.name}'\?"):
            case.entry.configure({misspelt: field.default})


@pytest.mark.parametrize("case", [case for case in cases() if case.entry.overrides], ids=str)
def test_what_makes_the_algorithm_what_it_is_cannot_be_changed(case: Case) -> None:
    fields = {field.name: field for field in fields_of(case)}
    for name, value in case.entry.overrides.items():
        choices = fields[name].metadata["choices"]
        others = [choice for choice in choices() if choice != value] if choices else [fields[name].default]
        with pytest.raises(UserError, match=rf"always uses {name}={value!r}, but got {name}={others[0]!r}$"):
            case.entry.configure({name: others[0]})
        assert getattr(case.entry.configure({name: value}), name) == value


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_hyperparameter_of_members_is_no_setting(case: Case) -> None:
    with pytest.raises(UserError, match=r"^loss is a hyperparameter of each member: give it with members=grid\(loss="):
        case.entry.configure({"loss": "l2"})
