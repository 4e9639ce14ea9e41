"""Linear members with one observation and two actions, in a space in which only the learning rate varies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Event, Operation
from adaqn.agents.searl import SEARLAgent, SEARLState
from adaqn.agents.settings import SEARLSettings
from adaqn.envs.environments import FinishedEpisode
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace
from adaqn.replay.protocol import Batch
from adaqn.training.observers import Episode, Observer
from adaqn.training.trainer import Trainer
from tests.agents.outcomes import acted, learned

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
# Parameters are [w_0, w_1, b_0, b_1]: Q(x, a) = w_a x + b_a.
STEEP = [1.0, 2.0, 0.0, 0.0]  # Q(x) = (x, 2x)
FLAT = [0.0, 0.0, 0.0, 1.0]  # Q(x) = (0, 1)
DOWN = [0.0, -1.0, 0.0, 0.0]  # Q(x) = (0, -x)


def agent_of(members: Sequence[Hyperparameters], **settings: Any) -> SEARLAgent:
    population = Population(members=tuple(members), space=RATES_ONLY)
    values = {"gamma": 0.5, **settings}
    return SEARLAgent(SEARLSettings(**values), population, spaces.Box(-9.0, 9.0, (1,)), spaces.Discrete(2))


def started(agent: SEARLAgent, parameters: Sequence[Sequence[float]]) -> SEARLState:
    """A state with these parameters of the members, online and as targets."""
    run = agent.init(0)
    online = tuple(
        group._replace(parameters=jnp.asarray([row]))
        for group, row in zip(run.population.learning.ensemble, parameters, strict=True)
    )
    target = tuple(jnp.asarray([row]) for row in parameters)
    return with_learning(run, ensemble=online, target=target)


def with_learning(run: SEARLState, **changed: Any) -> SEARLState:
    """The state with other fields of the learning state."""
    learning = run.population.learning._replace(**changed)
    return run._replace(population=run.population._replace(learning=learning))


def with_record(run: SEARLState, **changed: Any) -> SEARLState:
    """The state with other entries in the record of its members."""
    return with_learning(run, record=run.population.learning.record._replace(**changed))


def online_of(run: SEARLState) -> list[list[float]]:
    return [np.asarray(group.parameters)[0].tolist() for group in run.population.learning.ensemble]


def targets_of(run: SEARLState) -> list[list[float]]:
    return [np.asarray(rows)[0].tolist() for rows in run.population.learning.target]


def batch_of(*transitions: tuple[float, int, float, float, bool]) -> Batch[np.ndarray]:
    """Transitions as (x, action, reward, x', terminated)."""
    x, action, reward, following, terminated = zip(*transitions, strict=True)
    return Batch(
        np.array(x, np.float32)[:, None],
        np.array(action, np.int32),
        np.array(reward, np.float32)[:, None],
        np.array(following, np.float32)[:, None],
        np.array(terminated, np.float32),
        np.ones(len(x), np.int32),
    )


def updated(agent: SEARLAgent, run: SEARLState, batch: Batch[np.ndarray]) -> SEARLState:
    return learned(agent.update(run, Operation.UPDATE, batch, Clock(), np.random.default_rng(0)))


def evaluated(agent: SEARLAgent, run: SEARLState, returns: Sequence[Sequence[float]]) -> SEARLState:
    """The state after an evaluation with these returns of each member, in episodes of two steps."""
    x = np.ones((1, 1), np.float32)
    for k, of_member in enumerate(returns):
        if k:
            run, _ = agent.perform(run, Operation.NEXT_MEMBER, Clock(), np.random.default_rng(0))
        assert run.evaluation.member == k
        for total in of_member:
            for _ in range(2):
                run, _ = acted(agent.act(run, x, Clock(), np.random.default_rng(0)))
            run = agent.episodes_ended(run, [FinishedEpisode(0, total, 2)], Clock(step=sum(run.evaluation.steps)))
    return run


class Diary(Observer):
    """Records all events."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.episodes: list[Episode] = []

    def on_event(self, trainer: Trainer, event: Event) -> None:
        self.events.append(event)

    def on_episode(self, trainer: Trainer, episode: Episode) -> None:
        self.episodes.append(episode)

    def of(self, kind: Any) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]
