"""The names of AdaSAC, RandSAC and SAC, and the critics that each trains where none are given."""

from __future__ import annotations

from adaqn.agents.catalogue import Algorithm, agent_class
from adaqn.agents.sac_settings import SACSettings
from adaqn.hyperparameters import Hyperparameters, grid

DEFAULT_MEMBERS = grid(hidden=[(64, 64), (256, 256)], learning_rate=[3e-4, 1e-3])
PAPER_CRITIC = Hyperparameters(hidden=(256, 256), learning_rate=1e-3)

_AGENT = agent_class("adaqn.agents.sac:SACAgent")

ALGORITHMS = {
    "adasac": Algorithm(SACSettings, _AGENT, lambda _: DEFAULT_MEMBERS, least=2, space="optional"),
    "randsac": Algorithm(
        SACSettings, _AGENT, lambda _: DEFAULT_MEMBERS, {"selection": "random"}, least=2, space="optional"
    ),
    "sac": Algorithm(SACSettings, _AGENT, lambda _: (PAPER_CRITIC,), copies=2),
}
