"""Selection rules, which choose the target member and the behaviour member by their cumulated losses.

A rule is a module in `target/` or `behaviour/`; adding a file there makes it available by its name.
"""

from __future__ import annotations

import inspect
from functools import partial

from adaqn.base.plugins import PluginFolder
from adaqn.members.selection import behaviour, target
from adaqn.members.selection.types import BehaviourRule, Selection, TargetRule

_TARGET = PluginFolder("selection", target.__name__, entry_points="adaqn.selection")
_BEHAVIOUR = PluginFolder("behaviour", behaviour.__name__, entry_points="adaqn.behaviour")


def target_rule(name: str, temperature: float = 1.0) -> TargetRule:
    """Load the target rule with this name; the temperature applies to the rules that use one."""
    module = _TARGET.load(name)
    select = module.select
    if takes_temperature(name):
        select = partial(select, temperature=temperature)
    return TargetRule(select, getattr(module, "MIXTURE", False))


def takes_temperature(name: str) -> bool:
    """Whether a target rule uses a temperature."""
    return "temperature" in inspect.signature(_TARGET.load(name).select).parameters


def behaviour_rule(name: str) -> BehaviourRule:
    """Load the behaviour rule with this name."""
    return _BEHAVIOUR.load(name).draw


def target_rules() -> list[str]:
    """The names of all target rules."""
    return _TARGET.names()


def behaviour_rules() -> list[str]:
    """The names of all behaviour rules."""
    return _BEHAVIOUR.names()


__all__ = [
    "BehaviourRule",
    "Selection",
    "TargetRule",
    "behaviour_rule",
    "behaviour_rules",
    "takes_temperature",
    "target_rule",
    "target_rules",
]
