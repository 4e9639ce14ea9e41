"""Agents in a search space, and children that are chosen by a test instead of drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space, spaces

from adaqn.agents.base import AgentState
from adaqn.agents.dqn import DQNAgent
from adaqn.agents.generations import Evolution
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Event, Generation, Operation, TargetUpdate
from adaqn.agents.settings import DQNSettings
from adaqn.members.evolution import Descendant
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace
from adaqn.replay.protocol import Batch
from tests.agents.outcomes import learned

RATES_ONLY = SearchSpace.from_dict(
    {
        "activation": ["relu"],
        "optimizer": ["sgd"],
        "loss": ["l2"],
        "learning_rate": [1e-6, 10.0],
        "hidden": {"layers": [0, 0], "neurons": [4, 4]},
    }
)
HALF = Hyperparameters(hidden=(), activation="relu", optimizer="sgd", loss="l2", learning_rate=0.5)
State = AgentState[Any]
BOX, TWO_ACTIONS = spaces.Box(-9.0, 9.0, (1,)), spaces.Discrete(2)


@dataclass(frozen=True)
class Chosen:
    """An evolution with predetermined children."""

    next_members: tuple[Descendant, ...]

    def due(self, step: int, members: Sequence[Hyperparameters]) -> bool:
        del members
        return step > 0

    def children(
        self, rng: np.random.Generator, members: Sequence[Hyperparameters], fitness: np.ndarray, step: int
    ) -> tuple[Descendant, ...]:
        del rng, members, fitness, step
        return self.next_members


@dataclass
class Witness:
    """An evolution that records the fitness that members are compared by."""

    evolution: Evolution | None
    fitness: list[list[float]] = field(default_factory=list)

    def due(self, step: int, members: Sequence[Hyperparameters]) -> bool:
        assert self.evolution is not None
        return self.evolution.due(step, members)

    def children(
        self, rng: np.random.Generator, members: Sequence[Hyperparameters], fitness: np.ndarray, step: int
    ) -> tuple[Descendant, ...]:
        assert self.evolution is not None
        self.fitness.append(fitness.tolist())
        return self.evolution.children(rng, members, fitness, step)


def agent_of(
    members: Sequence[Hyperparameters],
    observations: Space[Any] = BOX,
    space: SearchSpace = RATES_ONLY,
    **settings: Any,
) -> DQNAgent:
    values = {"gamma": 0.5, "target_update_interval": 10, "generation_interval": 20, **settings}
    return DQNAgent(DQNSettings(**values), Population(tuple(members), space), observations, TWO_ACTIONS)


def with_parameters(run: State, rows: Sequence[Sequence[float]]) -> State:
    """The state with these parameters of the members, online and in the snapshot."""
    online = tuple(
        group._replace(parameters=jnp.asarray([row], jnp.float32))
        for group, row in zip(run.learning.ensemble, rows, strict=True)
    )
    target = tuple(jnp.asarray([row], jnp.float32) for row in rows)
    return run._replace(learning=run.learning._replace(ensemble=online, target=target))


def with_losses(run: State, *losses: float) -> State:
    return with_record(run, loss=jnp.asarray(losses, jnp.float32))


def with_record(run: State, **changed: Any) -> State:
    """The state with other entries in the record of its members."""
    record = run.learning.record._replace(**changed)
    return run._replace(learning=run.learning._replace(record=record))


def batch_for(observations: Space[Any], rng: np.random.Generator, size: int = 8) -> Batch[np.ndarray]:
    """Random transitions of two actions."""
    shape = observations.shape
    assert shape is not None
    if observations.dtype == np.uint8:
        x, following = rng.integers(0, 256, (2, size, *shape), dtype=np.uint8)
    else:
        x, following = rng.standard_normal((2, size, *shape)).astype(np.float32)
    action, rewards = rng.integers(2, size=size).astype(np.int32), rng.standard_normal((size, 1)).astype(np.float32)
    terminated = (rng.random(size) < 0.2).astype(np.float32)
    return Batch(x, action, rewards, following, terminated, np.ones(size, np.int32))


def trained(agent: DQNAgent, run: State, updates: int, observations: Space[Any] = BOX, seed: int = 0) -> State:
    """The state after some updates on random batches."""
    rng = np.random.default_rng(seed)
    for _ in range(updates):
        run = learned(agent.update(run, Operation.UPDATE, batch_for(observations, rng), Clock(), rng))
    return run


def replaced(agent: DQNAgent, run: State, seed: int = 0) -> tuple[State, TargetUpdate, Generation]:
    """The state after one generation, and its events."""
    events: tuple[Event, ...]
    run, events = agent.perform(run, Operation.GENERATION, Clock(step=20), np.random.default_rng(seed))
    update, generation = events
    assert isinstance(update, TargetUpdate) and isinstance(generation, Generation)
    return run, update, generation


def online_of(run: State) -> list[np.ndarray]:
    return [np.array(group.parameters)[0] for group in run.learning.ensemble]


def targets_of(run: State) -> list[np.ndarray]:
    return [np.array(rows)[0] for rows in run.learning.target]


def bytes_of(tree: Any) -> list[bytes]:
    """All arrays of a tree, including random keys."""
    leaves = jax.tree.leaves(tree)
    keys = [jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
    data = [jax.random.key_data(leaf) if key else leaf for leaf, key in zip(leaves, keys, strict=True)]
    return [np.asarray(array).tobytes() for array in data]


def pointers_of(tree: Any) -> list[int]:
    """The memory addresses of the arrays of a tree."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]
    return [leaf.unsafe_buffer_pointer() for leaf in leaves]
