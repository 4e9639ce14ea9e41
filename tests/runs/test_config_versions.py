"""Entries that a newer adaqn added are told from values that somebody changed."""

from __future__ import annotations

from typing import Any

import pytest

from adaqn.runs.checkpoint import added_entries, config_refusal


@pytest.mark.parametrize(
    ("now", "before", "added"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, ["b"]),
        ({"a": 1, "b": 2}, {"a": 3}, None),
        ({"a": 1}, {"a": 1, "b": 2}, None),  # an older adaqn, or a line that somebody removed
        ([{"x": 1, "y": 0}, {"x": 2, "y": 0}], [{"x": 1}, {"x": 2}], ["y"]),  # of both members, said once
        ([{"x": 1}], [{"x": 1}, {"x": 2}], None),
        ({"s": {"p": 1, "q": 2}, "t": 5}, {"s": {"p": 1}}, ["t", "q"]),
        (4, 4, []),
        (4, 5, None),
    ],
)
def test_added_entries(now: Any, before: Any, added: list[str] | None) -> None:
    assert added_entries(now, before, "entry") == added


def test_a_checkpoint_without_its_version_is_of_an_unknown_one() -> None:
    error = config_refusal(["settings"], {"settings": {"a": 1}}, {"settings": {}}, None)
    assert "made by adaqn of an unknown version, which did not have a" in str(error)


def test_one_entry_that_changed_makes_it_a_change() -> None:
    now, before = {"settings": {"a": 1}, "seed": 2}, {"settings": {}, "seed": 1}
    assert "(seed, settings)" in str(config_refusal(["seed", "settings"], now, before, "0.0.9"))
    # The end of a run is not an entry that only one side has.
    assert "was changed" in str(config_refusal(["steps"], {"steps": 10}, {"steps": 10}, "0.0.9"))
