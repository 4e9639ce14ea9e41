"""SEARL: its registry entry. Members are sampled from a search space."""

from __future__ import annotations

from adaqn.agents.registry import Algorithm, Traits, agent_class
from adaqn.agents.searl.settings import SEARLSettings

ALGORITHMS = {
    "searl": Algorithm(
        SEARLSettings,
        agent_class("adaqn.agents.searl.agent:SEARLAgent"),
        lambda _: (),
        space="required",
        one_environment=True,
        traits=Traits(tables=("evaluations",), measures_policy=True, rows_per_lane=8, members_in_lanes=True),
    )
}
