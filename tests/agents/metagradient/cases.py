"""Small states, batches and agents of meta-gradient DQN."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from adaqn.agents.base import AgentState
from adaqn.agents.metagradient import MetaGradientAgent, MetaState
from adaqn.agents.population import Population
from adaqn.agents.settings import MetaGradientSettings
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Batch


def agent_of(
    member: Hyperparameters, size: int | tuple[int, ...] = 1, actions: int = 1, **settings: Any
) -> MetaGradientAgent:
    """An agent for observations of this size or shape."""
    shape = (size,) if isinstance(size, int) else size
    box = spaces.Box(-10.0, 10.0, shape, np.float32)
    population = Population((member,))
    return MetaGradientAgent(MetaGradientSettings(**settings), population, box, spaces.Discrete(actions))


def batch_of(*rows: tuple[Any, int, float, Any, bool]) -> Batch[np.ndarray]:
    """Transitions (observation, action, reward, next observation, terminated) of one step each."""
    seen, actions, rewards, following, terminated = zip(*rows, strict=True)
    return Batch(
        np.asarray(seen, np.float32).reshape(len(rows), -1),
        np.asarray(actions, np.int32),
        np.asarray(rewards, np.float32)[:, None],
        np.asarray(following, np.float32).reshape(len(rows), -1),
        np.asarray(terminated, np.float32),
        np.ones(len(rows), np.int32),
    )


def random_batch(rng: np.random.Generator, rows: int, size: int, actions: int) -> Batch[np.ndarray]:
    """Random transitions, some of which end an episode."""
    return batch_of(
        *(
            (
                rng.standard_normal(size),
                int(rng.integers(actions)),
                float(rng.standard_normal()),
                rng.standard_normal(size),
                bool(rng.random() < 0.2),
            )
            for _ in range(rows)
        )
    )


def in_double_precision(state: MetaState) -> MetaState:
    """The state with 64-bit numbers, inside `jax.enable_x64`."""

    def widened(leaf: Any) -> Any:
        return jnp.asarray(np.asarray(leaf, np.float64)) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(widened, state)


def discount_of(state: AgentState[MetaState]) -> float:
    return float(state.learning.discount.value)
