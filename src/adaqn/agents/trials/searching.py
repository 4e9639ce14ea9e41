"""Builds the algorithm of a search from a search method and its base algorithm."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from adaqn.agents.core.population import Population
from adaqn.agents.registry import Algorithm, algorithm
from adaqn.agents.trials.settings import TrialSettings, settings_over

if TYPE_CHECKING:
    import gymnasium

    from adaqn.agents.protocol import Agent


@cache  # one settings class per pair
def search_with(method: type[TrialSettings], base_name: str = "dqn") -> Algorithm:
    """The search with this method over trials of a base algorithm."""
    base = algorithm(base_name)

    def make(
        settings: Any, population: Population, observations: gymnasium.Space, actions: gymnasium.Space
    ) -> Agent[Any]:
        from adaqn.agents.trials.agent import TrialAgent  # imports JAX, which listing the algorithms must not

        return TrialAgent(settings, population, observations, actions, base)

    return Algorithm(
        settings_over(method, base),
        make,
        lambda _: (),
        space="required",
        base=base_name,
        traits=base.traits._replace(tables=("trials",), measures_policy=True),
        over=lambda name: search_with(method, name),
    )
