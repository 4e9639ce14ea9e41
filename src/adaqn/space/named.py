"""Spaces by name, from files, and by what is observed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adaqn.space.search_space import PRESETS, SearchSpace


def space_from(given: SearchSpace | Mapping[str, Any] | str | Path) -> SearchSpace:
    """Convert a space, its name, a YAML file, or plain values to a space."""
    if isinstance(given, SearchSpace):
        return given
    if not isinstance(given, str | Path):
        return SearchSpace.from_dict(given)
    return SearchSpace.from_dict(PRESETS.read_given(given))


def default_space(observation_shape: tuple[int, ...]) -> SearchSpace:
    """The built-in space for observations of this shape: images have three dimensions."""
    return SearchSpace.named("images" if len(observation_shape) == 3 else "vectors")


def named_spaces() -> list[str]:
    """The names of the built-in spaces."""
    return PRESETS.names()
