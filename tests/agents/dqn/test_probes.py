"""DQN learns the exact values of the probe environments; each failure points to one kind of bug."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.dqn import DQNAgent
from adaqn.agents.population import Population
from adaqn.agents.settings import DQNSettings
from adaqn.envs.environments import Environments
from adaqn.envs.probes import PROBES, Probe
from adaqn.members.hyperparameters import Hyperparameters, grid
from adaqn.replay.making import make_replay
from adaqn.training.trainer import Trainer

GAMMA = 0.8
ONE = (Hyperparameters(hidden=(8,), activation="tanh", optimizer="sgd", learning_rate=0.2),)
# A line goes through all values of a probe, and takes half the time to compile.
TWO = grid(Hyperparameters(hidden=(), optimizer="sgd"), learning_rate=[0.3, 0.5])
NAMES = [probe.__name__ for probe in PROBES]


def learned(name: str, members: tuple[Hyperparameters, ...], n_envs: int = 1, **settings: Any) -> np.ndarray:
    """The values of all members for all observations and actions, after a short training. [K, N, A]"""
    environments = Environments.make(f"Probe/{name}-v0", n_envs, {})
    values: dict[str, Any] = {
        "gamma": GAMMA,
        "learning_starts": 50,
        "target_update_interval": 10,
        "exploration_final_eps": 1.0,  # every action is tried as often
    }
    agent = DQNAgent(
        DQNSettings(**{**values, **settings}),
        Population(members),
        environments.observation_space,
        environments.action_space,
    )
    replay = make_replay(
        1000, n_envs, environments.observation_space, environments.action_space, agent.settings.n_steps
    )
    trainer = Trainer(agent, environments, replay, agent.settings.batch_size, seed=0)
    trainer.run(500)
    environments.close()
    ensemble = agent.ensemble_of(members)
    parameters = ensemble.parameters(trainer.state.learning.ensemble)
    return np.asarray(ensemble.values(parameters, jnp.asarray(probe(name).probe_table(GAMMA)[0])))


def probe(name: str) -> Probe:
    env = gymnasium.make(f"Probe/{name}-v0").unwrapped
    assert isinstance(env, Probe)
    return env


def test_the_six_probes_are_here() -> None:
    assert NAMES == [
        "ConstantReward",
        "DelayedReward",
        "ActionMatters",
        "ObservationMatters",
        "Truncation",
        "Termination",
    ]
    # With this discount the wrong answer, where truncation cuts the bootstrap, is far away: 1 / (1 - 0.8²) = 2.78.
    assert probe("Truncation").probe_table(GAMMA)[1] == pytest.approx(5.0)


@pytest.mark.parametrize("name", NAMES)
def test_one_member_learns_the_exact_values(name: str) -> None:
    (values,) = learned(name, ONE)
    np.testing.assert_allclose(values, probe(name).probe_table(GAMMA)[1], rtol=0.0, atol=0.005)


@pytest.mark.parametrize("name", ["DelayedReward", "Truncation"])
def test_two_members_in_three_environments_both_learn_the_exact_values(name: str) -> None:
    for values in learned(name, TWO, n_envs=3):
        np.testing.assert_allclose(values, probe(name).probe_table(GAMMA)[1], rtol=0.0, atol=0.005)


@pytest.mark.parametrize("name", ["DelayedReward", "Truncation"])
def test_returns_over_three_steps_have_the_same_values(name: str) -> None:
    (values,) = learned(name, TWO[1:], n_steps=3)
    np.testing.assert_allclose(values, probe(name).probe_table(GAMMA)[1], rtol=0.0, atol=0.005)


# The values of all probes are between 0 and 5, several bins away from the ends.
CATEGORICAL = (TWO[0].replace(head="categorical", bins=16, value_range=(-4, 9), optimizer="adam", learning_rate=0.1),)


@pytest.mark.parametrize("name", ["DelayedReward", "ActionMatters", "Truncation"])
def test_a_categorical_member_learns_the_values(name: str) -> None:
    (values,) = learned(name, CATEGORICAL, batch_size=64)
    np.testing.assert_allclose(values, probe(name).probe_table(GAMMA)[1], rtol=0.0, atol=0.05)
