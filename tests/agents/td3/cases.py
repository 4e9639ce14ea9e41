"""Linear critics and a linear actor with one observation and one action, for hand-worked numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from adaqn.agents.base import AgentState
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Operation, TargetUpdate
from adaqn.agents.registry import algorithm
from adaqn.agents.td3 import Draws, TD3Agent, TD3State
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.selection import Selection
from adaqn.replay.protocol import Batch
from tests.agents.sac.cases import by_member, grouped

State = AgentState[TD3State]
# An actor is [k, b]: π(x) = tanh(k x + b).
CENTRED = [0.0, 0.0]


def agent_of(members: Sequence[Hyperparameters], algo: str = "adatd3", **settings: Any) -> TD3Agent:
    """An agent with a discount of ½, Polyak averages with τ = ½, and an actor with SGD and learning rate ½."""
    values: dict[str, Any] = {
        "gamma": 0.5,
        "tau": 0.5,
        "actor_hidden": "linear",
        "actor_optimizer": "sgd",
        "actor_learning_rate": 0.5,
    }
    found = algorithm(algo)
    box = spaces.Box(-9.0, 9.0, (1,)), spaces.Box(-1.0, 1.0, (1,))
    agent = found.make(found.configure({**values, **settings}), Population(tuple(members)), *box)
    assert isinstance(agent, TD3Agent)
    return agent


def started(
    agent: TD3Agent,
    critics: Sequence[Sequence[float]],
    targets: Sequence[Sequence[float]] | None = None,
    actor: Sequence[float] = CENTRED,
    target_actor: Sequence[float] | None = None,
    pair: Sequence[int] = (0, 1),
    weights: Sequence[float] = (0.5, 0.5),
) -> State:
    """A state with these critics, actor, their targets (default: equal to them) and target pair."""
    run = agent.init(0)
    ensemble, learning = agent.ensemble_of(run.members), run.learning
    online = grouped(ensemble, critics)
    learning = learning._replace(
        ensemble=tuple(g._replace(parameters=p) for g, p in zip(learning.ensemble, online, strict=True)),
        target=grouped(ensemble, critics if targets is None else targets),
        actor=learning.actor._replace(parameters=jnp.asarray(actor, jnp.float32)),
        target_actor=jnp.asarray(actor if target_actor is None else target_actor, jnp.float32),
        selected=Selection(jnp.asarray(pair, jnp.int32), jnp.asarray(weights, jnp.float32)),
    )
    return run._replace(learning=learning)


def critics_of(agent: TD3Agent, run: State) -> list[list[float]]:
    ensemble = agent.ensemble_of(run.members)
    return [row.tolist() for row in by_member(ensemble, ensemble.parameters(run.learning.ensemble))]


def targets_of(agent: TD3Agent, run: State) -> list[list[float]]:
    return [row.tolist() for row in by_member(agent.ensemble_of(run.members), run.learning.target)]


def updated(
    agent: TD3Agent,
    run: State,
    batch: Batch,
    operation: Operation = Operation.UPDATE,
    smoothing: Sequence[float] = (0.0, 0.0),
    behaviour: Sequence[float] | None = None,
    epsilon: float = 0.0,
) -> State:
    """One update with these draws."""
    members = len(run.members)
    draws = Draws(
        np.array(smoothing, np.float32)[:, None],
        np.linspace(0.1, 0.9, members, dtype=np.float32),
        np.array([0.5] * (1 + members) if behaviour is None else behaviour, np.float32),
    )
    learning = jax.tree.map(jnp.copy, run.learning)  # the program takes over its memory
    return run._replace(learning=agent.programs(run).update[operation](learning, batch, draws, np.float32(epsilon)))


def random_batch(rng: np.random.Generator, observations: int = 1, actions: int = 1, size: int = 8) -> Batch[np.ndarray]:
    """Transitions of which some are terminal."""
    x, following = rng.standard_normal((2, size, observations), np.float32)
    action = rng.uniform(-1.0, 1.0, (size, actions)).astype(np.float32)
    ends = (rng.random(size) < 0.2).astype(np.float32)
    return Batch(x, action, rng.standard_normal((size, 1), np.float32), following, ends, np.ones(size, np.int32))


def summed_up(agent: TD3Agent, run: State, step: int = 7) -> tuple[State, TargetUpdate]:
    """The report that summarizes the updates since the last one."""
    run, (event,) = agent.perform(run, Operation.TARGET_UPDATE, Clock(step=step), np.random.default_rng(0))
    assert isinstance(event, TargetUpdate)
    return run, event
