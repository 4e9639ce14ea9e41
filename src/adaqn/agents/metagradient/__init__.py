"""Meta-gradient DQN (Xu, van Hasselt and Silver, 2018): DQN whose discount is learned by a gradient of its own."""

from __future__ import annotations

from adaqn.agents.core.default_member import default_member
from adaqn.agents.metagradient.settings import MetaGradientSettings
from adaqn.agents.registry import Algorithm, Traits, agent_class

ALGORITHMS = {
    "metagradient": Algorithm(
        MetaGradientSettings,
        agent_class("adaqn.agents.metagradient.agent:MetaGradientAgent"),
        lambda shape: (default_member(shape),),
        copies=1,
        traits=Traits(learns_hyperparameters=True),
    ),
}
