"""Plain values of a configuration with others over them: what a command line, or an arm of a study, changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from adaqn.agents.registry import algorithm
from adaqn.errors import UserError
from adaqn.files import Json
from adaqn.runs.config import as_mapping

_MEMBERS = ("members", "grid", "member")  # ways to say which members there are


def with_algorithm(values: Mapping[str, Any], algo: str, base: str | None) -> Json:
    """The values for another algorithm: what only the former one can use is left out."""
    values = dict(values)
    before, after = algorithm(values["algo"], values.get("base")), algorithm(algo, base)
    if (algo, base) == (values["algo"], values.get("base")):
        return values
    settings = as_mapping("settings", values.get("settings"))
    lost = {f.name for f in dataclasses.fields(before.settings)} - {f.name for f in dataclasses.fields(after.settings)}
    # What makes the former algorithm, or the one asked for, is not a value that the file chose.
    for name in {*before.overrides, *after.overrides, *lost}:
        settings.pop(name, None)
    # Nor can the other algorithm use a space, or members to start from, if it has none.
    if after.space == "none":
        values.pop("space", None)
    if after.base is not None:
        for name in _MEMBERS:
            values.pop(name, None)
    return values | {"algo": algo, "base": base, "settings": settings}


def with_overrides(values: Mapping[str, Any], changes: Mapping[str, Any]) -> Json:
    """The values with changes over them: settings one by one, all else as a whole.

    Members are given in one of several ways, and each takes the place of the others; `member` picks one of those that
    are there.
    """
    algo = changes.get("algo", values["algo"])
    base = changes.get("base", values.get("base") if algo == values["algo"] else None)
    result = with_algorithm(values, algo, base)
    if any(name in changes for name in ("members", "grid", "schedule")):
        for name in _MEMBERS:
            result.pop(name, None)
    settings = {**as_mapping("settings", result.get("settings")), **as_mapping("settings", changes.get("settings"))}
    return result | dict(changes) | {"settings": settings}


def settings_of(values: Mapping[str, Any]) -> set[str]:
    """The names of the settings that the algorithm of these values has."""
    return {f.name for f in dataclasses.fields(algorithm(values["algo"], values.get("base")).settings)}


def require_mapping(what: str, given: object) -> Json:
    """The given value, which must be a mapping with text for keys."""
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise UserError(f"{what} must be a mapping of names to values, but got {given!r}")
    return dict(given)
