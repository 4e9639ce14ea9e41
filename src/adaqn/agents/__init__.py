"""Algorithms, one per file, found by the names that each file gives in its table `ALGORITHMS`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from adaqn.agents.catalogue import Algorithm
from adaqn.errors import unknown_name


@cache
def algorithms() -> dict[str, Algorithm]:
    """All algorithms by name."""
    found: dict[str, Algorithm] = {}
    for module in pkgutil.iter_modules(__path__):
        contents = importlib.import_module(f"{__name__}.{module.name}")
        found.update(getattr(contents, "ALGORITHMS", {}))
    return found


def algorithm(name: object) -> Algorithm:
    """The algorithm with this name, which may come from a file and be no name at all."""
    if not isinstance(name, str) or name not in algorithms():
        raise unknown_name("algorithm", name, algorithms())
    return algorithms()[name]
