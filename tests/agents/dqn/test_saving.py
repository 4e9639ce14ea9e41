"""The state of DQN as named arrays and JSON: a restored state continues bit for bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from adaqn.agents.base import state_from_arrays, state_to_arrays
from adaqn.agents.dqn import DQNAgent, State
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.settings import DQNSettings
from adaqn.base.errors import CheckpointError
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Batch
from tests.agents.outcomes import acted

TANH = Hyperparameters(hidden=(4,), activation="tanh", optimizer_options=(("eps", 1e-4),), learning_rate=0.01)
MIXED = (
    TANH,
    Hyperparameters(hidden=(), optimizer="noisy_sgd", learning_rate=0.01),
    TANH.replace(learning_rate=0.02, discount=0.5),
    Hyperparameters(hidden=(), optimizer="adafactor", learning_rate=0.05, loss="huber"),
    Hyperparameters(hidden=(), optimizer="noisy_sgd", learning_rate=0.02),
)


def agent_of(members: tuple[Hyperparameters, ...]) -> DQNAgent:
    return DQNAgent(
        DQNSettings(selection="random"), Population(members), spaces.Box(-9.0, 9.0, (2,)), spaces.Discrete(2)
    )


def lived(agent: DQNAgent, run: State, rng: np.random.Generator, rounds: int) -> tuple[State, list[Any]]:
    """Some updates, actions and target updates, and everything that they returned."""
    seen: list[Any] = []
    for step in range(rounds):
        x, following = rng.standard_normal((2, 8, 2)).astype(np.float32)
        action, rewards = rng.integers(2, size=8).astype(np.int32), rng.standard_normal((8, 1)).astype(np.float32)
        batch = Batch(x, action, rewards, following, np.zeros(8, np.float32), np.ones(8, np.int32))
        run, actions = acted(agent.update(run, Operation.UPDATE, batch, Clock(step, step, 100), rng, x[:3]))
        seen.append(actions.tolist())
        if step % 4 == 3:
            run, (event,) = agent.perform(run, Operation.TARGET_UPDATE, Clock(step, step, 100), rng)
            seen.append(event)
    return run, seen


def test_a_mixed_ensemble_goes_on_to_the_bit() -> None:
    agent = agent_of(MIXED)
    run, _ = lived(agent, agent.init(1), np.random.default_rng(0), rounds=10)
    arrays, meta = agent.to_arrays(run)
    assert sum("rng_key" in name for name in arrays) == 1  # keys of the two stochastic optimizers
    kept = {name: array.copy() for name, array in arrays.items()}
    run, seen = lived(agent, run, np.random.default_rng(2), rounds=10)
    for name, array in arrays.items():
        assert np.array_equal(array, kept[name]), f"{name} changed as the run went on"
    # A JSON round trip, into an agent that was built from the spaces and settings only.
    fresh = agent_of((Hyperparameters(),))
    restored = fresh.from_arrays(arrays, json.loads(json.dumps(meta)))
    assert restored.members == MIXED
    restored, seen_again = lived(fresh, restored, np.random.default_rng(2), rounds=10)
    assert seen_again == seen
    expected, got = agent.to_arrays(run)[0], fresh.to_arrays(restored)[0]
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert array.tobytes() == got[name].tobytes(), name
        assert array.dtype == got[name].dtype
    moved = [name for name, array in expected.items() if not np.array_equal(array, kept[name])]
    assert {".ensemble[0].parameters", ".ensemble[1].optimizer[0].rng_key", ".target[2]"} <= set(moved)


def test_another_seed_is_another_state() -> None:
    agent = agent_of(MIXED)
    first, again, other = (agent.to_arrays(agent.init(seed))[0] for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first[".ensemble[0].parameters"], other[".ensemble[0].parameters"])
    assert not np.array_equal(first[".ensemble[1].optimizer[0].rng_key"], other[".ensemble[1].optimizer[0].rng_key"])


def test_a_state_that_does_not_match_is_an_error() -> None:
    state = {"a": np.zeros(3, np.float32), "b": np.zeros((), np.int32)}
    arrays = state_to_arrays(state)
    with pytest.raises(CheckpointError, match=r"the saved state has no array \['b'\]"):
        state_from_arrays(state, {"['a']": arrays["['a']"]})
    with pytest.raises(
        CheckpointError, match=r"\['a'\] has shape \(2,\) and type float32, .* needs \(3,\) and float32"
    ):
        state_from_arrays(state, arrays | {"['a']": np.zeros(2, np.float32)})
    with pytest.raises(CheckpointError, match=r"\['b'\] has shape \(\) and type float64, .* needs \(\) and int32"):
        state_from_arrays(state, arrays | {"['b']": np.zeros(())})
    agent = agent_of(MIXED)
    arrays, meta = agent.to_arrays(agent.init(0))
    wider = [TANH.replace(hidden=(5,)).to_dict(), *meta["members"][1:]]
    with pytest.raises(CheckpointError, match=r"\.ensemble\[0\]\.parameters has shape"):
        agent.from_arrays(arrays, {"members": wider})
