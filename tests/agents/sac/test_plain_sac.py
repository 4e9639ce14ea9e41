"""AdaSAC with two equal members is SAC: it matches, update by update, an independent implementation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.registry import algorithm
from adaqn.agents.settings import SACSettings
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Batch
from tests.agents.outcomes import learned
from tests.agents.sac.cases import make_agent

GAMMA, TAU, CRITIC_RATE, ACTOR_RATE = 0.95, 0.05, 1e-3, 3e-3
OBSERVATIONS, ACTIONS, WIDTH, BATCH, UPDATES = 3, 2, 12, 16, 60
Layers = list[Any]  # kernel, bias, kernel, bias


def perceptron(layers: Layers, x: jax.Array) -> jax.Array:
    kernel, bias, last_kernel, last_bias = layers
    return jnp.maximum(x @ kernel + bias[None], 0.0) @ last_kernel + last_bias[None]


def adam(parameters: Any, slopes: Any, moments: Any, count: jax.Array, rate: float) -> tuple[Any, Any]:
    """One step of Adam on every array of a tree."""
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], slopes)
    squares = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, moments[1], slopes)

    def step(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        return p - rate * (m / (1.0 - 0.9**count)) / (jnp.sqrt(v / (1.0 - 0.999**count)) + 1e-8)

    return jax.tree.map(step, parameters, means, squares), (means, squares)


def at_rest(parameters: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, parameters), jax.tree.map(jnp.zeros_like, parameters)


def policy(actor: Layers, x: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Actions and their log density; 1 - tanh² u is 4 / (e^u + e^-u)²."""
    outputs = perceptron(actor, x)
    mean, log_std = outputs[:, :ACTIONS], jnp.clip(outputs[:, ACTIONS:], -20.0, 2.0)
    before = mean + jnp.exp(log_std) * noise
    normal = -0.5 * ((before - mean) / jnp.exp(log_std)) ** 2 - log_std - 0.5 * jnp.log(2.0 * jnp.pi)
    slope = jnp.log(4.0) - 2.0 * jnp.logaddexp(before, -before)
    return jnp.tanh(before), (normal - slope).sum(axis=1)


def value(critic: Layers, x: jax.Array, action: jax.Array) -> jax.Array:
    return perceptron(critic, jnp.concatenate([x, action], axis=1))[:, 0]


class PlainSAC:
    """Two critics, their Polyak averages, an actor and an entropy coefficient, as dictionaries."""

    def __init__(self, critics: list[Layers], actor: Layers) -> None:
        log_alpha = jnp.zeros(())
        self.state: dict[str, Any] = {
            "critics": critics,
            "targets": critics,
            "actor": actor,
            "log_alpha": log_alpha,
            "moments": {
                "critics": [at_rest(critic) for critic in critics],
                "actor": at_rest(actor),
                "log_alpha": at_rest(log_alpha),
            },
            "count": jnp.zeros(()),
        }

    @staticmethod
    @jax.jit
    def step(s: dict[str, Any], batch: Batch, next_noise: jax.Array, noise: jax.Array) -> tuple[dict[str, Any], Any]:
        alpha, count = jnp.exp(s["log_alpha"]), s["count"] + 1.0
        x = batch.observation
        action, log_density = policy(s["actor"], batch.next_observation, next_noise)
        next_value = jnp.minimum(*(value(t, batch.next_observation, action) for t in s["targets"]))
        y = batch.rewards[:, 0] + GAMMA * (1.0 - batch.terminated) * (next_value - alpha * log_density)

        def critic_loss(critic: Layers) -> jax.Array:
            return 0.5 * jnp.square(value(critic, x, batch.action) - y).mean()

        losses = [critic_loss(critic) for critic in s["critics"]]
        moved = [
            adam(critic, jax.grad(critic_loss)(critic), moments, count, CRITIC_RATE)
            for critic, moments in zip(s["critics"], s["moments"]["critics"], strict=True)
        ]
        critics = [critic for critic, _ in moved]
        targets = jax.tree.map(lambda t, c: (1.0 - TAU) * t + TAU * c, s["targets"], critics)

        def actor_loss(actor: Layers) -> tuple[jax.Array, jax.Array]:
            chosen, log_density = policy(actor, x, noise)
            worth = jnp.minimum(*(value(critic, x, chosen) for critic in critics))
            return (alpha * log_density - worth).mean(), log_density.mean()

        slopes, mean_log_density = jax.grad(actor_loss, has_aux=True)(s["actor"])
        actor, actor_moments = adam(s["actor"], slopes, s["moments"]["actor"], count, ACTOR_RATE)
        # Descend -log α (log π + target), where the target is minus the number of dimensions.
        slope = -(mean_log_density - ACTIONS)
        log_alpha, alpha_moments = adam(s["log_alpha"], slope, s["moments"]["log_alpha"], count, ACTOR_RATE)
        moments = {"critics": [m for _, m in moved], "actor": actor_moments, "log_alpha": alpha_moments}
        new = {"critics": critics, "targets": targets, "actor": actor, "log_alpha": log_alpha}
        return {**new, "moments": moments, "count": count}, jnp.stack(losses)

    def update(self, batch: Batch, next_noise: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """The losses of the two critics before their step."""
        self.state, losses = self.step(self.state, batch, next_noise, noise)
        return np.asarray(losses)


def layers_of(flat: Any, inputs: int, outputs: int) -> Layers:
    shapes = [(inputs, WIDTH), (WIDTH,), (WIDTH, outputs), (outputs,)]
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    parts = np.split(np.array(flat), ends[:-1])
    return [jnp.asarray(part.reshape(shape)) for part, shape in zip(parts, shapes, strict=True)]


def flat_of(layers: Layers) -> np.ndarray:
    return np.concatenate([np.asarray(layer).ravel() for layer in layers])


def test_two_equal_members_follow_a_plain_sac() -> None:
    critic = Hyperparameters(hidden=(WIDTH,), learning_rate=CRITIC_RATE)
    settings = SACSettings(
        gamma=GAMMA, tau=TAU, actor_hidden=str(WIDTH), actor_learning_rate=ACTOR_RATE, batch_size=BATCH
    )
    assert settings == algorithm("sac").configure(
        {"gamma": GAMMA, "tau": TAU, "actor_hidden": WIDTH, "actor_learning_rate": ACTOR_RATE, "batch_size": BATCH}
    )
    observations, actions = spaces.Box(-9.0, 9.0, (OBSERVATIONS,)), spaces.Box(-1.0, 1.0, (ACTIONS,))
    agent = make_agent(settings, (critic, critic), observations, actions)
    run = agent.init(4)
    first = np.array(run.learning.ensemble[0].parameters)
    first_actor = np.array(run.learning.actor.parameters)
    assert (first[0] != first[1]).any()
    inputs = OBSERVATIONS + ACTIONS
    plain = PlainSAC([layers_of(row, inputs, 1) for row in first], layers_of(first_actor, OBSERVATIONS, 2 * ACTIONS))
    data, rng = np.random.default_rng(0), np.random.default_rng(1)
    averages = np.zeros(2)
    for _ in range(UPDATES):
        x, following = data.standard_normal((2, BATCH, OBSERVATIONS), np.float32)
        action = data.uniform(-1.0, 1.0, (BATCH, ACTIONS)).astype(np.float32)
        rewards = (x[:, :1] - action[:, :1] ** 2).astype(np.float32)
        ends = (data.random(BATCH) < 0.2).astype(np.float32)
        batch = Batch(x, action, rewards, following, ends, np.ones(BATCH, np.int32))
        # The noise that the agent is about to draw: that of the next actions, then that of the actor's own.
        same_rng = np.random.default_rng(0)
        same_rng.bit_generator.state = rng.bit_generator.state
        next_noise, noise = same_rng.standard_normal((2, BATCH, ACTIONS), np.float32)
        run = learned(agent.update(run, Operation.ACTOR_UPDATE, batch, Clock(horizon=100), rng))
        losses = plain.update(batch, next_noise, noise)
        averages = (1.0 - TAU) * averages + TAU * losses
        np.testing.assert_allclose(run.learning.record.last_loss, losses, rtol=1e-3)
    ours, theirs = run.learning, plain.state
    np.testing.assert_allclose(ours.record.loss, averages, rtol=1e-3)
    for k in range(2):
        np.testing.assert_allclose(ours.ensemble[0].parameters[k], flat_of(theirs["critics"][k]), rtol=0.0, atol=3e-5)
        np.testing.assert_allclose(ours.target[0][k], flat_of(theirs["targets"][k]), rtol=0.0, atol=3e-5)
    np.testing.assert_allclose(ours.actor.parameters, flat_of(theirs["actor"]), rtol=0.0, atol=1e-4)
    np.testing.assert_allclose(ours.log_alpha.parameters, theirs["log_alpha"], rtol=0.0, atol=1e-5)
    # What was learned is hundreds of times more than the difference.
    assert np.median(np.abs(np.array(ours.ensemble[0].parameters) - first)) > 0.01
    assert np.median(np.abs(np.array(ours.actor.parameters) - first_actor)) > 0.03
    assert abs(float(ours.log_alpha.parameters)) > 0.05
    assert sorted(run.learning.selected.members.tolist()) == [0, 1]
