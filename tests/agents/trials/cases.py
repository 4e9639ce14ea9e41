"""A search in a tiny space, in an environment with known returns, and its recorded events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Event, Generation, TargetUpdate, TrialEnd, TrialStart
from adaqn.agents.registry import algorithm
from adaqn.agents.trials.agent import TrialAgent, TrialState
from adaqn.envs.environments import Environments
from adaqn.members.space import SearchSpace
from adaqn.replay.making import make_replay
from adaqn.training.observers import Observer
from adaqn.training.trainer import Trainer

# Linear networks that differ in their learning rate only: all trials share their compiled programs.
TINY = SearchSpace.from_dict(
    {
        "activation": "relu",
        "optimizer": "sgd",
        "loss": "l2",
        "learning_rate": [1e-4, 1e-2],
        "hidden": {"layers": 0, "neurons": 1},
    }
)
WILD = SearchSpace.from_dict(TINY.to_dict() | {"learning_rate": [1e28, 1e30]})  # everything diverges

TRIAL = {"trial_steps": 40, "learning_starts": 10, "epoch_steps": 12, "target_update_interval": 15, "batch_size": 4}
BRACKETS = {
    "min_trial_steps": 10,
    "max_trial_steps": 40,
    "eta": 2,
    "learning_starts": 5,
    "epoch_steps": 10,
    "batch_size": 4,
}


class Scripted(gymnasium.Env[np.ndarray, np.integer]):
    """Episodes of a fixed length; the n-th finished one has a return that is a function of n."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int, total: Callable[[int], float] = float) -> None:
        self.length, self.total = length, total
        self.finished = 0
        self.resets = 0
        self.taken = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.resets += 1
        self.taken = 0
        return self.np_random.random(2).astype(np.float32), {}

    def step(self, action: np.integer) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.taken += 1
        ended = self.taken == self.length
        reward = self.total(self.finished) if ended else 0.0
        self.finished += ended
        return self.np_random.random(2).astype(np.float32), reward, ended, False, {}


class Diary(Observer):
    """Records the events, and a view of the trainer after every step."""

    def __init__(self, look: Callable[[Trainer], Any] = lambda trainer: None) -> None:
        self.events: list[Event] = []
        self.looks: dict[int, Any] = {}
        self._look = look

    def on_event(self, trainer: Trainer, event: Event) -> None:
        self.events.append(event)

    def on_step(self, trainer: Trainer) -> None:
        self.looks[trainer.clock.step] = self._look(trainer)

    @property
    def ends(self) -> list[TrialEnd]:
        return [event for event in self.events if isinstance(event, TrialEnd)]

    @property
    def starts(self) -> list[TrialStart]:
        return [event for event in self.events if isinstance(event, TrialStart)]

    @property
    def generations(self) -> list[Generation]:
        return [event for event in self.events if isinstance(event, Generation)]

    @property
    def target_updates(self) -> list[TargetUpdate]:
        return [event for event in self.events if isinstance(event, TargetUpdate)]


def agent_for(
    algo: str, settings: dict[str, Any], space: SearchSpace = TINY, env: Any = Scripted, base: str | None = None
) -> TrialAgent:
    chosen = algorithm(algo, base)
    population = Population(space=space)
    agent = chosen.make(chosen.configure(settings), population, env.observation_space, env.action_space)
    assert isinstance(agent, TrialAgent)
    return agent


def trainer_for(
    algo: str,
    settings: dict[str, Any],
    envs: str | Sequence[gymnasium.Env[Any, Any]],
    n_envs: int = 1,
    seed: int = 0,
    space: SearchSpace = TINY,
    base: str | None = None,
) -> Trainer:
    environments = Environments.make(envs, n_envs, {}) if isinstance(envs, str) else Environments(envs, owned=False)
    agent = agent_for(algo, settings, space, environments, base)
    replay = make_replay(300, environments.count, environments.observation_space, environments.action_space, 1)
    trainer = Trainer(agent, environments, replay, agent.settings.batch_size, seed)
    trainer.begin(horizon=1_000)
    return trainer


def state_of(trainer: Trainer) -> TrialState:
    assert isinstance(trainer.state, TrialState)
    return trainer.state


def agent_of(trainer: Trainer) -> TrialAgent:
    assert isinstance(trainer.agent, TrialAgent)
    return trainer.agent


CLOCK = Clock(0, 0, 1_000)
