"""SAC learns the exact values of the probe environments with continuous actions, without an entropy bonus."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.sac import SACAgent, State
from adaqn.agents.settings import SACSettings
from adaqn.agents.targets import critic_inputs
from adaqn.envs.environments import Environments
from adaqn.envs.probes import Probe
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.making import make_replay
from adaqn.training.trainer import Trainer
from tests.agents.sac.cases import make_agent

GAMMA = 0.8
MEMBER = Hyperparameters(hidden=(32,), learning_rate=0.01)
TWO = (MEMBER, MEMBER)
# The others are in the contract of all algorithms.
NAMES = ["ActionMatters", "ObservationMatters", "Truncation"]


def learned(name: str, n_envs: int = 1, **settings: Any) -> tuple[SACAgent, State]:
    """The agent after a short training."""
    environments = Environments.make(f"Probe/{name}-v0", n_envs, {"continuous": True})
    values: dict[str, Any] = {
        "gamma": GAMMA,
        "tau": 0.1,
        "ent_coef": 0.0,
        "learning_starts": 1000,
        "batch_size": 64,
        "actor_hidden": "8",
        "actor_learning_rate": 0.01,
    }
    agent = make_agent(
        SACSettings(**{**values, **settings}), TWO, environments.observation_space, environments.action_space
    )
    replay = make_replay(
        2000, n_envs, environments.observation_space, environments.action_space, agent.settings.n_steps
    )
    trainer = Trainer(agent, environments, replay, agent.settings.batch_size, seed=0)
    trainer.run(2000)
    environments.close()
    return agent, trainer.state


def values_of(agent: SACAgent, run: State, name: str) -> np.ndarray:
    """The values of both critics for all observations and actions. [2, N, A]"""
    table = probe(name)
    observations, q = table.probe_table(GAMMA)
    seen = np.repeat(observations, q.shape[1], axis=0)
    done = np.tile(table.probe_actions, (q.shape[0], 1))
    ensemble = agent.ensemble_of(run.members)
    inputs = critic_inputs(jnp.asarray(seen), jnp.asarray(done))
    return np.asarray(ensemble.values(ensemble.parameters(run.learning.ensemble), inputs)).reshape(2, *q.shape)


def probe(name: str) -> Probe:
    env = gymnasium.make(f"Probe/{name}-v0", continuous=True).unwrapped
    assert isinstance(env, Probe)
    return env


@pytest.mark.parametrize("name", NAMES)
def test_both_critics_learn_the_exact_values(name: str) -> None:
    agent, run = learned(name)
    expected = probe(name).probe_table(GAMMA)[1]
    for values in values_of(agent, run, name):
        np.testing.assert_allclose(values, expected, rtol=0.0, atol=0.05)
    if name == "ActionMatters":
        # The best action is ½, and the policy finds it.
        action = agent.policy(run, np.zeros((1, 1), np.float32), None, None)  # type: ignore[arg-type]
        np.testing.assert_allclose(action, [[0.5]], atol=0.05)


@pytest.mark.thorough
def test_returns_over_three_steps_in_three_environments_have_the_same_values() -> None:
    agent, run = learned("DelayedReward", n_envs=3, n_steps=3)
    expected = probe("DelayedReward").probe_table(GAMMA)[1]
    for values in values_of(agent, run, "DelayedReward"):
        np.testing.assert_allclose(values, expected, rtol=0.0, atol=0.05)
