"""AdaDQN with one member is DQN: it matches, update by update, an independent NumPy implementation."""

from __future__ import annotations

import gymnasium
import numpy as np

from adaqn.agents.dqn import DQNAgent
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Operation, TargetUpdate
from adaqn.agents.settings import DQNSettings
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Transitions
from adaqn.replay.vectors import VectorReplay
from tests.agents.dqn.plain_dqn import PlainDQN
from tests.agents.outcomes import learned

GAMMA, RATE, INTERVAL, UPDATES, BATCH = 0.97, 1e-3, 25, 300, 32


def cart_pole_replay(steps: int) -> VectorReplay:
    """Transitions of a random policy in CartPole."""
    env = gymnasium.make("CartPole-v1")
    replay = VectorReplay(steps, n_envs=1, observation_shape=(4,), action_shape=(), action_dtype=np.int32)
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=0)
    for _ in range(steps):
        action = int(rng.integers(2))
        following, reward, terminated, truncated, _ = env.step(action)
        columns = (observation, action, reward, following, terminated, truncated)
        replay.add(Transitions(*(np.asarray(column)[None] for column in columns)))
        observation = env.reset()[0] if terminated or truncated else following
    env.close()
    return replay


def test_one_member_follows_a_plain_dqn() -> None:
    env = gymnasium.make("CartPole-v1")
    member = Hyperparameters(hidden=(24, 16), learning_rate=RATE)
    agent = DQNAgent(DQNSettings(gamma=GAMMA), Population((member,)), env.observation_space, env.action_space)
    env.close()
    rng = np.random.default_rng(0)
    run = agent.init(4)
    flat = np.array(run.learning.ensemble[0].parameters[0])
    plain = PlainDQN(flat, (4, 24, 16, 2), GAMMA, RATE)
    replay, draws = cart_pole_replay(1000), np.random.default_rng(1)
    cumulated = 0.0
    for update in range(1, UPDATES + 1):
        batch = replay.sample(draws, BATCH)
        run = learned(agent.update(run, Operation.UPDATE, batch, Clock(), rng))
        loss = plain.update(
            batch.observation, batch.action, batch.rewards[:, 0], batch.next_observation, batch.terminated
        )
        cumulated += loss
        np.testing.assert_allclose(run.learning.record.last_loss, [loss], rtol=1e-3)
        if update % INTERVAL == 0:
            run, (event,) = agent.perform(run, Operation.TARGET_UPDATE, Clock(update, update, UPDATES), rng)
            assert isinstance(event, TargetUpdate)
            np.testing.assert_allclose(event.cumulated_loss, [cumulated], rtol=1e-4)
            plain.update_target()
            cumulated = 0.0
    ours = np.array(run.learning.ensemble[0].parameters[0])
    np.testing.assert_allclose(ours, plain.flat, rtol=0.0, atol=2e-5)
    # What was learned is thousands of times more than the difference.
    assert np.median(np.abs(ours - flat)) > 0.05
