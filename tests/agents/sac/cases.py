"""Linear critics and a linear actor with one observation and one action, for hand-worked numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space, spaces

from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Operation, TargetUpdate
from adaqn.agents.sac import Draws, SACAgent, State
from adaqn.agents.settings import SACSettings
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.networks.ensemble import Ensemble
from adaqn.replay.protocol import Batch

STILL = Hyperparameters(hidden=(), optimizer="sgd", learning_rate=0.0)
# A critic is [w_x, w_a, b]: Q(x, a) = w_x x + w_a a + b.
STEEP = [1.0, 2.0, 0.0]
FLAT = [0.0, 0.0, 1.0]
LOW = [0.0, 0.0, -1.0]
HIGH = [0.0, 0.0, 8.0]
# An actor is [k_m, k_s, b_m, b_s]: mean k_m x + b_m, logarithm of the deviation k_s x + b_s.
CENTRED = [0.0, 0.0, 0.0, 0.0]


def make_agent(
    settings: SACSettings, members: Sequence[Hyperparameters], observations: Space[Any], actions: Space[Any]
) -> SACAgent:
    return SACAgent(settings, Population(tuple(members)), observations, actions)


def agent_of(members: Sequence[Hyperparameters], **settings: Any) -> SACAgent:
    values: dict[str, Any] = {
        "gamma": 0.5,
        "tau": 0.5,
        "ent_coef": 0.0,
        "actor_hidden": "linear",
        "actor_optimizer": "sgd",
        "actor_learning_rate": 0.5,
    }
    box = spaces.Box(-9.0, 9.0, (1,)), spaces.Box(-1.0, 1.0, (1,))
    return make_agent(SACSettings(**{**values, **settings}), members, *box)


def started(
    agent: SACAgent,
    critics: Sequence[Sequence[float]],
    targets: Sequence[Sequence[float]] | None = None,
    actor: Sequence[float] = CENTRED,
    pair: tuple[int, int] = (0, 1),
    alpha: float | None = None,
) -> State:
    """A state with these critics, their targets (default: equal to them), actor, pair and entropy coefficient."""
    run = agent.init(0)
    ensemble, learning = agent.ensemble_of(run.members), run.learning
    online = grouped(ensemble, critics)
    groups = tuple(g._replace(parameters=p) for g, p in zip(learning.ensemble, online, strict=True))
    learning = learning._replace(
        ensemble=groups,
        target=grouped(ensemble, critics if targets is None else targets),
        actor=learning.actor._replace(parameters=jnp.asarray(actor, jnp.float32)),
        selected=learning.selected._replace(members=jnp.asarray(pair, jnp.int32)),
    )
    if alpha is not None:
        log_alpha = learning.log_alpha._replace(parameters=jnp.log(jnp.float32(alpha)))
        learning = learning._replace(log_alpha=log_alpha)
    return run._replace(learning=learning)


def grouped(ensemble: Ensemble, rows: Sequence[Any]) -> tuple[jax.Array, ...]:
    """Parameters of the members in the ensemble's groups."""
    return tuple(jnp.stack([jnp.asarray(rows[k], jnp.float32) for k in group]) for group in ensemble.groups)


def by_member(ensemble: Ensemble, groups: Sequence[Any]) -> list[np.ndarray]:
    """The inverse of `grouped`."""
    rows = {
        k: np.array(row)
        for group, array in zip(ensemble.groups, groups, strict=True)
        for k, row in zip(group, array, strict=True)
    }
    return [rows[k] for k in range(ensemble.size)]


def critics_of(agent: SACAgent, run: State) -> list[list[float]]:
    ensemble = agent.ensemble_of(run.members)
    return [row.tolist() for row in by_member(ensemble, ensemble.parameters(run.learning.ensemble))]


def targets_of(agent: SACAgent, run: State) -> list[list[float]]:
    return [row.tolist() for row in by_member(agent.ensemble_of(run.members), run.learning.target)]


def batch_of(*transitions: tuple[float, float, list[float], float, bool]) -> Batch:
    """Transitions as (x, action, one or two rewards, x', terminated); a step for each reward."""
    x, action, rewards, following, terminated = zip(*transitions, strict=True)
    return Batch(
        np.array(x, np.float32)[:, None],
        np.array(action, np.float32)[:, None],
        np.array([r + [0.0] * (2 - len(r)) for r in rewards], np.float32),
        np.array(following, np.float32)[:, None],
        np.array(terminated, np.float32),
        np.array([len(r) for r in rewards], np.int32),
    )


def updated(
    agent: SACAgent,
    run: State,
    batch: Batch,
    operation: Operation = Operation.UPDATE,
    next_noise: Sequence[float] = (0.0, 0.0),
    noise: Sequence[float] = (0.0, 0.0),
    behaviour: Sequence[float] | None = None,
    epsilon: float = 0.0,
) -> State:
    """One update with these draws."""
    members = len(run.members)
    draws = Draws(
        np.array(next_noise, np.float32)[:, None],
        np.array(noise, np.float32)[:, None],
        np.linspace(0.1, 0.9, members, dtype=np.float32),
        np.array([0.5] * (1 + members) if behaviour is None else behaviour, np.float32),
    )
    learning = jax.tree.map(jnp.copy, run.learning)  # the program takes over its memory
    return run._replace(learning=agent.programs(run).update[operation](learning, batch, draws, np.float32(epsilon)))


def summed_up(agent: SACAgent, run: State, step: int = 7) -> tuple[State, TargetUpdate]:
    """The report that summarizes the updates since the last one."""
    run, (event,) = agent.perform(run, Operation.TARGET_UPDATE, Clock(step=step), np.random.default_rng(0))
    assert isinstance(event, TargetUpdate)
    return run, event
