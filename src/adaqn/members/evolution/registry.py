"""Registry of exploit rules and mutations, found by file name or by entry point."""

from __future__ import annotations

from adaqn.base.plugins import PluginFolder
from adaqn.members.evolution import exploit, mutations
from adaqn.members.evolution.types import ExploitRule, Mutation

_EXPLOIT = PluginFolder("exploit rule", exploit.__name__, entry_points="adaqn.exploit")
_MUTATIONS = PluginFolder("mutation", mutations.__name__, entry_points="adaqn.mutations")

# The paper's mutations. With these, the default, a member can also be mutated in further dimensions that its space
# varies. They are not part of the default itself, so that runs from before they existed keep their configuration.
DEFAULT_MUTATIONS = ("activation", "architecture", "learning_rate", "loss", "optimizer")
FURTHER_MUTATIONS = ("block", "normalization", "max_grad_norm", "weight_decay", "head")


def exploit_rule(name: str) -> ExploitRule:
    """Load the exploit rule with this name."""
    return _EXPLOIT.load(name).survivors


def exploit_rules() -> list[str]:
    """The names of all exploit rules."""
    return _EXPLOIT.names()


def mutation(name: str) -> Mutation:
    """Load the mutation with this name."""
    return _MUTATIONS.load(name)


def mutation_names() -> list[str]:
    """The names of all mutations."""
    return _MUTATIONS.names()
