"""TD3 with two equal members matches, update by update, an independent NumPy implementation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium import spaces

from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.registry import algorithm
from adaqn.agents.td3 import TD3Agent
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Batch
from tests.agents.outcomes import learned

GAMMA, TAU, CRITIC_RATE, ACTOR_RATE, DELAY = 0.95, 0.05, 1e-3, 3e-3, 3
OBSERVATIONS, ACTIONS, WIDTH, BATCH, UPDATES = 3, 2, 12, 16, 60
Layers = list[np.ndarray]  # kernel, bias, kernel, bias; in double precision


class Perceptron:
    """One hidden layer of ReLUs, with hand-written gradients."""

    def __init__(self, layers: Layers) -> None:
        self.layers = [layer.copy() for layer in layers]
        self.moments = [(np.zeros_like(layer), np.zeros_like(layer)) for layer in layers]
        self.steps = 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        kernel, bias, last_kernel, last_bias = self.layers
        return np.maximum(x @ kernel + bias, 0.0) @ last_kernel + last_bias

    def slopes(self, x: np.ndarray, of_outputs: np.ndarray) -> tuple[Layers, np.ndarray]:
        """Gradients of all layers and of the inputs, from those of the outputs [B, outputs]."""
        kernel, bias, last_kernel, _ = self.layers
        before = x @ kernel + bias
        of_hidden = (of_outputs @ last_kernel.T) * (before > 0.0)
        own = [x.T @ of_hidden, of_hidden.sum(axis=0), np.maximum(before, 0.0).T @ of_outputs, of_outputs.sum(axis=0)]
        return own, of_hidden @ kernel.T

    def descend(self, slopes: Layers, rate: float) -> None:
        """One step of Adam."""
        self.steps += 1
        for layer, slope, (mean, square) in zip(self.layers, slopes, self.moments, strict=True):
            mean += 0.1 * (slope - mean)
            square += 0.001 * (slope**2 - square)
            corrected = np.sqrt(square / (1.0 - 0.999**self.steps)) + 1e-8
            layer -= rate * mean / (1.0 - 0.9**self.steps) / corrected

    def follow(self, other: Perceptron) -> None:
        """Polyak update towards another network."""
        for layer, new in zip(self.layers, other.layers, strict=True):
            layer += TAU * (new - layer)

    def flat(self) -> np.ndarray:
        return np.concatenate([layer.ravel() for layer in self.layers])


class PlainTD3:
    """Two critics, an actor, and a Polyak average of each."""

    def __init__(self, critics: Sequence[Layers], actor: Layers) -> None:
        self.critics, self.targets = ([Perceptron(layers) for layers in critics] for _ in range(2))
        self.actor, self.target_actor = Perceptron(actor), Perceptron(actor)
        self.updates = 0

    def update(self, batch: Batch, noise: np.ndarray) -> list[float]:
        """The losses of the critics before their step."""
        smoothing = np.clip(0.2 * noise.astype(np.float64), -0.5, 0.5)
        action = np.clip(np.tanh(self.target_actor(batch.next_observation)) + smoothing, -1.0, 1.0)
        following = np.concatenate([batch.next_observation, action], axis=1)
        value = np.minimum(*(target(following)[:, 0] for target in self.targets))
        y = batch.rewards[:, 0] + GAMMA * (1.0 - batch.terminated) * value
        inputs, losses = np.concatenate([batch.observation, batch.action], axis=1).astype(np.float64), []
        for critic in self.critics:
            error = critic(inputs) - y[:, None]
            losses.append(0.5 * float((error**2).mean()))
            critic.descend(critic.slopes(inputs, error / BATCH)[0], CRITIC_RATE)
        self.updates += 1
        if self.updates % DELAY == 0:
            self._improve(batch.observation.astype(np.float64))
        return losses

    def _improve(self, x: np.ndarray) -> None:
        action = np.tanh(self.actor(x))
        _, of_inputs = self.critics[0].slopes(np.concatenate([x, action], axis=1), np.full((BATCH, 1), -1.0 / BATCH))
        of_outputs = of_inputs[:, OBSERVATIONS:] * (1.0 - action**2)
        self.actor.descend(self.actor.slopes(x, of_outputs)[0], ACTOR_RATE)
        self.target_actor.follow(self.actor)
        for target, critic in zip(self.targets, self.critics, strict=True):
            target.follow(critic)


def layers_of(flat: np.ndarray, inputs: int, outputs: int) -> Layers:
    shapes = [(inputs, WIDTH), (WIDTH,), (WIDTH, outputs), (outputs,)]
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    parts = np.split(flat.astype(np.float64), ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def test_two_equal_members_follow_a_plain_td3() -> None:
    found = algorithm("td3")
    settings = found.configure(
        {
            "gamma": GAMMA, "tau": TAU, "policy_delay": DELAY, "batch_size": BATCH, "actor_hidden": WIDTH,
            "actor_learning_rate": ACTOR_RATE,
        }
    )  # fmt: skip
    critic = Hyperparameters(hidden=(WIDTH,), learning_rate=CRITIC_RATE)
    box = spaces.Box(-9.0, 9.0, (OBSERVATIONS,)), spaces.Box(-1.0, 1.0, (ACTIONS,))
    agent = found.make(settings, Population((critic, critic)), *box)
    assert isinstance(agent, TD3Agent)
    run = agent.init(1)
    first, first_actor = np.array(run.learning.ensemble[0].parameters), np.array(run.learning.actor.parameters)
    assert (first[0] != first[1]).any()
    plain = PlainTD3(
        [layers_of(row, OBSERVATIONS + ACTIONS, 1) for row in first], layers_of(first_actor, OBSERVATIONS, ACTIONS)
    )
    data, rng = np.random.default_rng(0), np.random.default_rng(1)
    averages, behind = np.zeros(2), 0
    for update in range(1, UPDATES + 1):
        x, following = data.standard_normal((2, BATCH, OBSERVATIONS), np.float32)
        action = data.uniform(-1.0, 1.0, (BATCH, ACTIONS)).astype(np.float32)
        rewards = (x[:, :1] - action[:, :1] ** 2).astype(np.float32)
        ends = (data.random(BATCH) < 0.2).astype(np.float32)
        batch = Batch(x, action, rewards, following, ends, np.ones(BATCH, np.int32))
        # The noise that the agent is about to draw.
        same_rng = np.random.default_rng(0)
        same_rng.bit_generator.state = rng.bit_generator.state
        noise = same_rng.standard_normal((BATCH, ACTIONS), np.float32)
        (operation,) = agent.updates(update)
        assert (operation is Operation.ACTOR_UPDATE) == (update % DELAY == 0)
        run = learned(agent.update(run, operation, batch, Clock(horizon=100), rng))
        losses = np.array(plain.update(batch, noise))
        averages = (1.0 - TAU) * averages + TAU * losses
        behind += int(averages[0] > averages[1])
        np.testing.assert_allclose(run.learning.record.last_loss, losses, rtol=1e-3)
    ours = run.learning
    np.testing.assert_allclose(ours.record.loss, averages, rtol=1e-3)
    for k in range(2):
        np.testing.assert_allclose(ours.ensemble[0].parameters[k], plain.critics[k].flat(), rtol=0.0, atol=3e-5)
        np.testing.assert_allclose(ours.target[0][k], plain.targets[k].flat(), rtol=0.0, atol=3e-5)
    np.testing.assert_allclose(ours.actor.parameters, plain.actor.flat(), rtol=0.0, atol=1e-4)
    np.testing.assert_allclose(ours.target_actor, plain.target_actor.flat(), rtol=0.0, atol=1e-4)
    # What was learned is hundreds of times more than the difference; and the critic of the actor is the first one
    # although the other has the smaller loss.
    assert np.median(np.abs(np.array(ours.ensemble[0].parameters) - first)) > 0.01
    assert np.median(np.abs(np.array(ours.actor.parameters) - first_actor)) > 0.02
    assert np.median(np.abs(np.array(ours.target[0]) - first)) > 0.003
    assert behind > 30 and ours.record.acted.tolist() == [UPDATES // DELAY, 0]
