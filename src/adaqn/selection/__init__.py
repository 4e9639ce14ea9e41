"""Rules that choose members from their cumulated losses: the target member, and the behaviour member.

A rule is a module named after it, in `target/` or `behaviour/`; dropping a file there makes it available by name.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from adaqn.errors import unknown_name
from adaqn.selection import behaviour, target
from adaqn.selection.types import BehaviourRule, Selection, TargetRule


def target_rule(name: str) -> TargetRule:
    """The rule for the target member with this name."""
    return _load(target, "selection", name).select


def behaviour_rule(name: str) -> BehaviourRule:
    """The rule for the behaviour member with this name."""
    return _load(behaviour, "behaviour", name).draw


def target_rules() -> list[str]:
    """The names of all rules for the target member."""
    return sorted(module.name for module in pkgutil.iter_modules(target.__path__))


def behaviour_rules() -> list[str]:
    """The names of all rules for the behaviour member."""
    return sorted(module.name for module in pkgutil.iter_modules(behaviour.__path__))


def _load(package: ModuleType, kind: str, name: str) -> ModuleType:
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    if name not in names:
        raise unknown_name(kind, name, names)
    return importlib.import_module(f"{package.__name__}.{name}")


__all__ = [
    "BehaviourRule",
    "Selection",
    "TargetRule",
    "behaviour_rule",
    "behaviour_rules",
    "target_rule",
    "target_rules",
]
