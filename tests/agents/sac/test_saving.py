"""The state of SAC as named arrays and JSON: a restored state continues bit for bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.sac import SACAgent, State
from adaqn.agents.settings import SACSettings
from adaqn.base.errors import CheckpointError
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Batch
from tests.agents.outcomes import acted, learned
from tests.agents.sac.cases import make_agent, summed_up

TANH = Hyperparameters(hidden=(4,), activation="tanh", optimizer_options=(("eps", 1e-4),), learning_rate=0.01)
MIXED = (
    TANH,
    Hyperparameters(hidden=(), optimizer="noisy_sgd", learning_rate=0.01),
    TANH.replace(learning_rate=0.02, discount=0.5),
)


def agent_of(members: tuple[Hyperparameters, ...]) -> SACAgent:
    settings = SACSettings(selection="random", actor_hidden="4", actor_optimizer="adafactor", actor_learning_rate=0.01)
    return make_agent(settings, members, spaces.Box(-9.0, 9.0, (2,)), spaces.Box(-1.0, 1.0, (2,)))


def lived(agent: SACAgent, run: State, rng: np.random.Generator, rounds: int) -> tuple[State, list[Any]]:
    """Some updates, actions and reports, and everything that they returned."""
    seen: list[Any] = []
    for step in range(rounds):
        x, following = rng.standard_normal((2, 8, 2), np.float32)
        action, rewards = rng.uniform(-1.0, 1.0, (8, 2)).astype(np.float32), rng.standard_normal((8, 1), np.float32)
        batch = Batch(x, action, rewards, following, np.zeros(8, np.float32), np.ones(8, np.int32))
        run, actions = acted(agent.update(run, Operation.ACTOR_UPDATE, batch, Clock(step, step, 100), rng, x[:3]))
        seen.append(actions.tolist())
        if step % 4 == 3:
            run, event = summed_up(agent, run, step)
            seen.append(event)
    return run, seen


@pytest.mark.thorough
def test_a_mixed_ensemble_goes_on_to_the_bit() -> None:
    agent = agent_of(MIXED)
    run, _ = lived(agent, agent.init(1), np.random.default_rng(0), rounds=9)
    arrays, meta = agent.to_arrays(run)
    kept = {name: array.copy() for name, array in arrays.items()}
    run, seen = lived(agent, run, np.random.default_rng(2), rounds=9)
    for name, array in arrays.items():
        assert np.array_equal(array, kept[name]), f"{name} changed as the run went on"
    # A JSON round trip, into an agent that was built from the spaces and settings only.
    fresh = agent_of((Hyperparameters(), Hyperparameters()))
    restored = fresh.from_arrays(arrays, json.loads(json.dumps(meta)))
    assert restored.members == MIXED
    restored, seen_again = lived(fresh, restored, np.random.default_rng(2), rounds=9)
    assert seen_again == seen
    expected, got = agent.to_arrays(run)[0], fresh.to_arrays(restored)[0]
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert array.tobytes() == got[name].tobytes(), name
        assert array.dtype == got[name].dtype
    moved = {name for name, array in expected.items() if not np.array_equal(array, kept[name])}
    assert {
        ".ensemble[0].parameters",
        ".ensemble[1].optimizer[0].rng_key",
        ".target[1]",
        ".actor.parameters",
        ".log_alpha.parameters",
        ".selected.members",
        ".record.loss",
        ".record.selections",
        ".record.choices",
    } <= moved


def test_an_update_and_the_next_action_in_one_are_the_two_one_after_the_other() -> None:
    agent = agent_of(MIXED)
    draw, rng, same_rng = np.random.default_rng(0), np.random.default_rng(1), np.random.default_rng(1)
    together, apart = agent.init(5), agent.init(5)
    clock = Clock(2000, 2000, 3000)
    for _ in range(5):
        x, following = draw.standard_normal((2, 8, 2), np.float32)
        action, rewards = draw.uniform(-1.0, 1.0, (8, 2)).astype(np.float32), draw.standard_normal((8, 1), np.float32)
        batch = Batch(x, action, rewards, following, np.zeros(8, np.float32), np.ones(8, np.int32))
        together, one = acted(agent.update(together, Operation.ACTOR_UPDATE, batch, clock, rng, x[:3]))
        apart = learned(agent.update(apart, Operation.ACTOR_UPDATE, batch, clock, same_rng))
        apart, other = acted(agent.act(apart, x[:3], clock, same_rng))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert rng.bit_generator.state == same_rng.bit_generator.state
    arrays, same = agent.to_arrays(together)[0], agent.to_arrays(apart)[0]
    for name, array in arrays.items():
        np.testing.assert_allclose(array, same[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_a_state_that_does_not_match_is_an_error() -> None:
    agent = agent_of(MIXED)
    arrays, meta = agent.to_arrays(agent.init(0))
    without_actor = {name: array for name, array in arrays.items() if name != ".actor.parameters"}
    with pytest.raises(CheckpointError, match=r"the saved state has no array \.actor\.parameters"):
        agent.from_arrays(without_actor, meta)
    wider = [TANH.replace(hidden=(5,)).to_dict(), *meta["members"][1:]]
    with pytest.raises(CheckpointError, match=r"\.ensemble\[0\]\.parameters has shape"):
        agent.from_arrays(arrays, {**meta, "members": wider})
