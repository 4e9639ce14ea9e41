"""The rules and mutations that exist, found by the name of their file."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import cast

from adaqn.errors import unknown_name
from adaqn.evolution import exploit, mutations
from adaqn.evolution.types import ExploitRule, Mutation


def exploit_rule(name: str) -> ExploitRule:
    """The rule with this name that says who survives."""
    return _load(exploit, "exploit rule", name).survivors


def exploit_rules() -> list[str]:
    """The names of all rules that say who survives."""
    return _names(exploit)


def mutation(name: str) -> Mutation:
    """The mutation with this name."""
    return cast(Mutation, _load(mutations, "mutation", name))


def mutation_names() -> list[str]:
    """The names of all mutations."""
    return _names(mutations)


def _names(package: ModuleType) -> list[str]:
    return list(_names_in(tuple(package.__path__)))


@cache  # a generation asks many times
def _names_in(folders: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(folders)))


def _load(package: ModuleType, kind: str, name: str) -> ModuleType:
    if name not in _names(package):
        raise unknown_name(kind, name, _names(package))
    return importlib.import_module(f"{package.__name__}.{name}")
