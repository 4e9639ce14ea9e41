"""AdaDQN with one member is DQN: it follows, update by update, a plain one in NumPy that shares no code with it."""

from __future__ import annotations

import gymnasium
import numpy as np

from adaqn.agents.dqn import DQNAgent, DQNSettings
from adaqn.agents.events import TargetUpdate
from adaqn.agents.protocol import Clock, Operation
from adaqn.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Transitions
from adaqn.replay.vectors import VectorReplay

GAMMA, RATE, INTERVAL, UPDATES, BATCH = 0.97, 1e-3, 25, 300, 32
Layers = list[np.ndarray]  # kernel, bias, kernel, bias, kernel, bias


class PlainDQN:
    """Two hidden layers of ReLUs, Adam, and a target network copied now and then, in double precision."""

    def __init__(self, layers: Layers) -> None:
        self.layers = [layer.astype(np.float64) for layer in layers]
        self.target = [layer.copy() for layer in self.layers]
        self.mean = [np.zeros_like(layer) for layer in self.layers]
        self.square = [np.zeros_like(layer) for layer in self.layers]
        self.updates = 0

    @staticmethod
    def forward(layers: Layers, x: np.ndarray) -> Layers:
        """The inputs of each layer, and the values."""
        first = np.maximum(x @ layers[0] + layers[1], 0.0)
        second = np.maximum(first @ layers[2] + layers[3], 0.0)
        return [x, first, second, second @ layers[4] + layers[5]]

    def update(
        self, x: np.ndarray, action: np.ndarray, reward: np.ndarray, following: np.ndarray, terminated: np.ndarray
    ) -> float:
        """One step of Adam on the mean of ½ (Q - y)², which is returned."""
        y = reward + GAMMA * (1.0 - terminated) * self.forward(self.target, following)[-1].max(axis=1)
        *inputs, q = self.forward(self.layers, x)
        rows = np.arange(len(x))
        error = q[rows, action] - y
        slope = np.zeros_like(q)
        slope[rows, action] = error / len(x)
        gradient: Layers = []
        for layer in (2, 1, 0):
            gradient = [inputs[layer].T @ slope, slope.sum(axis=0), *gradient]
            slope = (slope @ self.layers[2 * layer].T) * (inputs[layer] > 0.0)
        self.updates += 1
        for i, g in enumerate(gradient):
            self.mean[i] = 0.9 * self.mean[i] + 0.1 * g
            self.square[i] = 0.999 * self.square[i] + 0.001 * g**2
            mean = self.mean[i] / (1.0 - 0.9**self.updates)
            square = self.square[i] / (1.0 - 0.999**self.updates)
            self.layers[i] = self.layers[i] - RATE * mean / (np.sqrt(square) + 1e-8)
        return float(0.5 * np.square(error).mean())


def cart_pole_replay(steps: int) -> VectorReplay:
    """What a random player sees of CartPole."""
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
    agent = DQNAgent(DQNSettings(gamma=GAMMA), (member,), env.observation_space, env.action_space)
    env.close()
    rng = np.random.default_rng(0)
    run = agent.init(4)
    flat = np.array(run.learning.ensemble[0].parameters[0])
    shapes = [(4, 24), (24,), (24, 16), (16,), (16, 2), (2,)]
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    layers = [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]
    plain = PlainDQN(layers)
    replay, draws = cart_pole_replay(1000), np.random.default_rng(1)
    cumulated = 0.0
    for update in range(1, UPDATES + 1):
        batch = replay.sample(draws, BATCH)
        run = agent.update(run, Operation.UPDATE, batch, Clock(), rng)
        loss = plain.update(
            batch.observation, batch.action, batch.rewards[:, 0], batch.next_observation, batch.terminated
        )
        cumulated += loss
        np.testing.assert_allclose(run.learning.last_loss, [loss], rtol=1e-3)
        if update % INTERVAL == 0:
            run, (event,) = agent.perform(run, Operation.TARGET_UPDATE, Clock(update, update, UPDATES), rng)
            assert isinstance(event, TargetUpdate)
            np.testing.assert_allclose(event.cumulated_loss, [cumulated], rtol=1e-4)
            plain.target, cumulated = [layer.copy() for layer in plain.layers], 0.0
    ours = np.array(run.learning.ensemble[0].parameters[0])
    theirs = np.concatenate([layer.ravel() for layer in plain.layers])
    np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=2e-5)
    # What was learned is thousands of times more than the difference.
    assert np.median(np.abs(ours - flat)) > 0.05
