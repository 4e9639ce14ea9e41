"""Access to the ensemble inside an agent, for what the protocol does not expose: weights and losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from adaqn.agents.base import AgentState, EnsembleAgent


def ensemble_part(agent: Any, state: Any) -> tuple[EnsembleAgent[Any, Any], AgentState[Any]]:
    """The agent and state that contain the ensemble; for a search, those of its best trial."""
    if isinstance(agent, EnsembleAgent):
        return agent, state
    agents = [part for part in vars(agent).values() if isinstance(part, EnsembleAgent)]
    states = list(_agent_states(state))
    if not (agents and states):
        pytest.skip(f"{type(agent).__name__} has no ensemble of members")
    return agents[0], states[-1]


def _agent_states(part: Any) -> Iterator[AgentState[Any]]:
    if isinstance(part, AgentState):
        yield part
    elif isinstance(part, tuple):
        for inner in part:
            yield from _agent_states(inner)
