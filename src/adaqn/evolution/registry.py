"""The rules and mutations that exist, found by the name of their file or by an entry point."""

from __future__ import annotations

from adaqn.evolution import exploit, mutations
from adaqn.evolution.types import ExploitRule, Mutation
from adaqn.plugins import PluginFolder

_EXPLOIT = PluginFolder("exploit rule", exploit.__name__, entry_points="adaqn.exploit")
_MUTATIONS = PluginFolder("mutation", mutations.__name__, entry_points="adaqn.mutations")

# Those of the paper. A run names its mutations, so that a further one changes no run that exists.
DEFAULT_MUTATIONS = ("activation", "architecture", "learning_rate", "loss", "optimizer")


def exploit_rule(name: str) -> ExploitRule:
    """The rule with this name that decides who survives."""
    return _EXPLOIT.load(name).survivors


def exploit_rules() -> list[str]:
    """The names of all rules that decide who survives."""
    return _EXPLOIT.names()


def mutation(name: str) -> Mutation:
    """The mutation with this name."""
    return _MUTATIONS.load(name)


def mutation_names() -> list[str]:
    """The names of all mutations."""
    return _MUTATIONS.names()
