"""AdaSAC (Algorithm 2), RandSAC and SAC: their names and default critics."""

from __future__ import annotations

from adaqn.agents.registry import Algorithm, Traits, agent_class
from adaqn.agents.sac.settings import PlainSACSettings, SACSettings
from adaqn.members.hyperparameters import Hyperparameters, grid

# Chosen by measurement: `python -m benchmarks.defaults`.
DEFAULT_MEMBERS = grid(hidden=[(128, 128)], learning_rate=[3e-4, 1e-3], normalization=["none", "layer"])
PAPER_CRITIC = Hyperparameters(hidden=(256, 256), learning_rate=1e-3)

TRAITS = Traits(sums_up_selections=True, rows_per_lane=64)
_AGENT = agent_class("adaqn.agents.sac.agent:SACAgent")

ALGORITHMS = {
    "adasac": Algorithm(SACSettings, _AGENT, lambda _: DEFAULT_MEMBERS, least=2, space="optional", traits=TRAITS),
    "randsac": Algorithm(
        SACSettings,
        _AGENT,
        lambda _: DEFAULT_MEMBERS,
        {"selection": "random"},
        least=2,
        space="optional",
        traits=TRAITS,
    ),
    "sac": Algorithm(
        SACSettings,
        _AGENT,
        lambda _: (PAPER_CRITIC,),
        copies=2,
        traits=TRAITS,
        base_settings=PlainSACSettings,
    ),
}
