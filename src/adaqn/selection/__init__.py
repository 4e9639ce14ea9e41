"""Rules that choose members from their cumulated losses: the target member, and the behaviour member.

A rule is a module named after it, in `target/` or `behaviour/`; dropping a file there makes it available by name.
"""

from __future__ import annotations

import inspect
from functools import partial

from adaqn.plugins import PluginFolder
from adaqn.selection import behaviour, target
from adaqn.selection.types import BehaviourRule, Selection, TargetRule

_TARGET = PluginFolder("selection", target.__name__, entry_points="adaqn.selection")
_BEHAVIOUR = PluginFolder("behaviour", behaviour.__name__, entry_points="adaqn.behaviour")


def target_rule(name: str, temperature: float = 1.0) -> TargetRule:
    """The rule for the target member with this name; a mixture may have a temperature."""
    module = _TARGET.load(name)
    select = module.select
    if takes_temperature(name):
        select = partial(select, temperature=temperature)
    return TargetRule(select, getattr(module, "MIXTURE", False))


def takes_temperature(name: str) -> bool:
    """Whether a rule for the target member depends on a temperature."""
    return "temperature" in inspect.signature(_TARGET.load(name).select).parameters


def behaviour_rule(name: str) -> BehaviourRule:
    """The rule for the behaviour member with this name."""
    return _BEHAVIOUR.load(name).draw


def target_rules() -> list[str]:
    """The names of all rules for the target member."""
    return _TARGET.names()


def behaviour_rules() -> list[str]:
    """The names of all rules for the behaviour member."""
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
