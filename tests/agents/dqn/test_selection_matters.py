"""Given one member that learns and one that cannot, each selection rule chooses the right target."""

from __future__ import annotations

import numpy as np
import pytest

from adaqn.agents.dqn import DQNAgent
from adaqn.agents.population import Population
from adaqn.agents.protocol import Event, TargetUpdate
from adaqn.agents.settings import DQNSettings
from adaqn.envs.environments import Environments
from adaqn.members.hyperparameters import Hyperparameters, grid
from adaqn.replay.making import make_replay
from adaqn.training.observers import Observer
from adaqn.training.trainer import Trainer

STILL, LEARNING = 0, 1
MEMBERS = grid(Hyperparameters(hidden=(), optimizer="sgd"), learning_rate=[0.0, 0.01])


class Targets(Observer):
    """Records the target members."""

    def __init__(self) -> None:
        self.all: list[int] = []

    def on_event(self, trainer: Trainer, event: Event) -> None:
        assert isinstance(event, TargetUpdate)
        self.all.append(event.target)


@pytest.mark.parametrize(
    ("selection", "updates", "low", "high"),
    [
        ("lowest", 400, 0.0, 0.1),
        ("highest", 400, 0.9, 1.0),
        ("random", 1_600, 0.45, 0.55),  # 5 % are four deviations of the share of 1600
    ],
)
def test_share_of_the_member_that_cannot_learn(selection: str, updates: int, low: float, high: float) -> None:
    environments = Environments.make("CartPole-v1", 1, {})
    settings = DQNSettings(selection=selection, learning_starts=100, target_update_interval=1)
    agent = DQNAgent(settings, Population(MEMBERS), environments.observation_space, environments.action_space)
    replay = make_replay(2_000, 1, environments.observation_space, environments.action_space, 1)
    trainer, targets = Trainer(agent, environments, replay, agent.settings.batch_size, seed=0), Targets()
    trainer.run(100 + updates, [targets])
    environments.close()
    assert len(targets.all) == updates
    share = np.mean(np.array(targets.all) == STILL)
    assert low <= share <= high
    reports = trainer.report().members
    assert reports[STILL].selected == pytest.approx(share)
    assert reports[LEARNING].selected == pytest.approx(1.0 - share)
