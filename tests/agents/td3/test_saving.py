"""The state of TD3 as named arrays and JSON: a restored state continues bit for bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.td3 import TD3Agent
from adaqn.base.errors import CheckpointError
from adaqn.members.hyperparameters import Hyperparameters
from tests.agents.outcomes import acted, learned
from tests.agents.td3.cases import State, agent_of, random_batch, summed_up

TANH = Hyperparameters(hidden=(4,), activation="tanh", learning_rate=0.01)
MIXED = (
    TANH,
    Hyperparameters(hidden=(), optimizer="noisy_sgd", learning_rate=0.01),
    TANH.replace(learning_rate=0.02, discount=0.5),
)


def mixed_agent(members: tuple[Hyperparameters, ...] = MIXED) -> TD3Agent:
    return agent_of(members, "randtd3", actor_hidden="4", actor_optimizer="adafactor", actor_learning_rate=0.01)


def lived(agent: TD3Agent, run: State, rng: np.random.Generator, rounds: int) -> tuple[State, list[Any]]:
    """Some updates, actions and reports, and everything that they returned."""
    seen: list[Any] = []
    for step in range(1, rounds + 1):
        batch = random_batch(rng)
        (operation,) = agent.updates(step)
        clock = Clock(2000 + step, 2000 + step, 4000)
        run, actions = acted(agent.update(run, operation, batch, clock, rng, batch.observation[:3]))
        seen.append(actions.tolist())
        if step % 4 == 3:
            run, event = summed_up(agent, run, step)
            seen.append(event)
    return run, seen


def test_a_mixed_ensemble_goes_on_to_the_bit() -> None:
    agent = mixed_agent()
    run, _ = lived(agent, agent.init(1), np.random.default_rng(0), rounds=7)
    arrays, meta = agent.to_arrays(run)
    kept = {name: array.copy() for name, array in arrays.items()}
    run, seen = lived(agent, run, np.random.default_rng(2), rounds=8)
    # A JSON round trip, into an agent that was built from the spaces and settings only.
    fresh = mixed_agent((Hyperparameters(), Hyperparameters()))
    restored = fresh.from_arrays(kept, json.loads(json.dumps(meta)))
    assert restored.members == MIXED
    restored, seen_again = lived(fresh, restored, np.random.default_rng(2), rounds=8)
    assert seen_again == seen
    expected, got = agent.to_arrays(run)[0], fresh.to_arrays(restored)[0]
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert array.tobytes() == got[name].tobytes(), name
    moved = {name for name, array in expected.items() if not np.array_equal(array, kept[name])}
    assert {
        ".ensemble[0].parameters", ".ensemble[1].optimizer[0].rng_key", ".target[0]", ".target[1]",
        ".actor.parameters", ".target_actor", ".record.loss", ".record.choices",
    } <= moved  # fmt: skip


def test_an_update_and_the_next_action_in_one_are_the_two_one_after_the_other() -> None:
    agent = mixed_agent()
    draw, rng, same_rng = np.random.default_rng(0), np.random.default_rng(1), np.random.default_rng(1)
    together, apart, clock = agent.init(5), agent.init(5), Clock(2000, 2000, 3000)
    for _ in range(4):
        batch = random_batch(draw)
        x = batch.observation[:3]
        together, one = acted(agent.update(together, Operation.ACTOR_UPDATE, batch, clock, rng, x))
        apart = learned(agent.update(apart, Operation.ACTOR_UPDATE, batch, clock, same_rng))
        apart, other = acted(agent.act(apart, x, clock, same_rng))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert rng.bit_generator.state == same_rng.bit_generator.state
    same = agent.to_arrays(apart)[0]
    for name, array in agent.to_arrays(together)[0].items():
        np.testing.assert_allclose(array, same[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_a_state_without_the_target_actor_is_an_error() -> None:
    agent = mixed_agent()
    arrays, meta = agent.to_arrays(agent.init(0))
    del arrays[".target_actor"]
    with pytest.raises(CheckpointError, match=r"the saved state has no array \.target_actor"):
        agent.from_arrays(arrays, meta)
