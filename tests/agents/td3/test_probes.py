"""TD3 learns the exact values of the probe environments with continuous actions."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock
from adaqn.agents.registry import algorithm
from adaqn.agents.targets import critic_inputs
from adaqn.envs.environments import Environments
from adaqn.envs.probes import Probe
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.making import make_replay
from adaqn.training.trainer import Trainer

GAMMA = 0.8
MEMBER = Hyperparameters(hidden=(32,), learning_rate=0.01)
CATEGORICAL = MEMBER.replace(head="categorical", bins=32, value_range=(-4, 4))


# A target with smoothing is that of an average over actions; without it the values are exact.
@pytest.mark.parametrize(
    ("name", "critic", "tolerance"),
    [
        ("ActionMatters", MEMBER, 0.06),
        ("DelayedReward", MEMBER, 0.06),
        # The softmax over the bins learns the outermost actions, which are rare, more slowly.
        pytest.param("ActionMatters", CATEGORICAL, 0.15, marks=pytest.mark.thorough),
    ],
)
def test_both_critics_learn_the_exact_values(name: str, critic: Hyperparameters, tolerance: float) -> None:
    environments = Environments.make(f"Probe/{name}-v0", 1, {"continuous": True})
    found = algorithm("td3")
    values: dict[str, Any] = {
        "gamma": GAMMA, "tau": 0.1, "learning_starts": 1000, "batch_size": 64, "actor_hidden": "8",
        "actor_learning_rate": 0.01, "target_policy_noise": 0.0,
    }  # fmt: skip
    settings = found.configure(values)
    spaces = environments.observation_space, environments.action_space
    agent: Any = found.make(settings, Population((critic, critic)), *spaces)
    trainer = Trainer(agent, environments, make_replay(2000, 1, *spaces, 1), 64, seed=0)
    trainer.run(2000)
    environments.close()
    table = gymnasium.make(f"Probe/{name}-v0", continuous=True).unwrapped
    assert isinstance(table, Probe)
    observations, q = table.probe_table(GAMMA)
    seen, done = np.repeat(observations, q.shape[1], axis=0), np.tile(table.probe_actions, (q.shape[0], 1))
    learning = trainer.state.learning
    ensemble = agent.ensemble_of(trainer.state.members)
    inputs = critic_inputs(jnp.asarray(seen), jnp.asarray(done))
    found_values = np.asarray(ensemble.values(ensemble.parameters(learning.ensemble), inputs)).reshape(2, *q.shape)
    for values_of_one in found_values:
        np.testing.assert_allclose(values_of_one, q, rtol=0.0, atol=tolerance)
    if name == "ActionMatters":
        # The best action is ½, and the policy finds it.
        action = agent.policy(trainer.state, np.zeros((1, 1), np.float32), None, Clock())
        np.testing.assert_allclose(action, [[0.5]], atol=0.05)
