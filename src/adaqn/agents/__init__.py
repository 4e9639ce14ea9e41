"""Algorithms, one per file, found by the names that each file gives in its table `ALGORITHMS`."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
from functools import cache
from importlib.abc import InspectLoader

from adaqn.agents.catalogue import Algorithm
from adaqn.errors import unknown_name


@cache
def algorithms() -> dict[str, Algorithm]:
    """All algorithms by name."""
    found: dict[str, Algorithm] = {}
    for module in pkgutil.iter_modules(__path__):
        name = f"{__name__}.{module.name}"
        if _may_have_table(name):
            found.update(getattr(importlib.import_module(name), "ALGORITHMS", {}))
    return found


def _may_have_table(module: str) -> bool:
    """Whether a module names algorithms; the others, which import JAX, are not imported to find out."""
    spec = importlib.util.find_spec(module)
    source = spec.loader.get_source(module) if spec and isinstance(spec.loader, InspectLoader) else None
    return source is None or re.search(r"^ALGORITHMS\b", source, re.MULTILINE) is not None


def algorithm(name: object) -> Algorithm:
    """The algorithm with this name, which may come from a file and be no name at all."""
    if not isinstance(name, str) or name not in algorithms():
        raise unknown_name("algorithm", name, algorithms())
    return algorithms()[name]
