"""AdaSAC in a search space: a child has its parent's loss, weights and Polyak target, and a new optimizer."""

from __future__ import annotations

import json
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Generation, Operation
from adaqn.agents.registry import algorithm
from adaqn.agents.sac import SACAgent, State
from adaqn.agents.settings import SACSettings
from adaqn.base.errors import AllMembersDiverged, UserError
from adaqn.members.evolution import Descendant
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace
from adaqn.networks.ensemble import fresh_members
from adaqn.networks.inheritance import inherit
from adaqn.replay.protocol import Batch
from tests.agents.generation_cases import (
    HALF,
    RATES_ONLY,
    Chosen,
    Witness,
    bytes_of,
    online_of,
    pointers_of,
    targets_of,
    with_record,
)
from tests.agents.outcomes import failed, learned

ADAM = Hyperparameters(hidden=(3,), activation="tanh", learning_rate=0.01)
MEMBERS = (ADAM, Hyperparameters(hidden=(4,), optimizer="rmsprop", learning_rate=0.02), ADAM.replace(discount=0.25))
SPACE = SearchSpace.from_dict({"base": "vectors", "hidden": {"layers": [1, 2], "neurons": [2, 6]}})


def agent_of(members: tuple[Hyperparameters, ...] = MEMBERS, space: SearchSpace = SPACE, **settings: Any) -> SACAgent:
    values: dict[str, Any] = {
        "gamma": 0.5, "tau": 0.25, "actor_hidden": "3", "selection_interval": 10, "generation_interval": 15, **settings,
    }  # fmt: skip
    box = spaces.Box(-9.0, 9.0, (2,)), spaces.Box(-1.0, 1.0, (1,))
    return SACAgent(SACSettings(**values), Population(members, space), *box)


def some_batch(rng: np.random.Generator) -> Batch[np.ndarray]:
    x, following = rng.standard_normal((2, 8, 2)).astype(np.float32)
    action, rewards = rng.uniform(-1, 1, (2, 8, 1)).astype(np.float32)
    return Batch(x, action, rewards, following, np.zeros(8, np.float32), np.ones(8, np.int32))


def trained(agent: SACAgent, run: State, updates: int, seed: int = 0) -> State:
    rng = np.random.default_rng(seed)
    for step in range(updates):
        run = learned(agent.update(run, Operation.ACTOR_UPDATE, some_batch(rng), Clock(step, step, 100), rng))
    return run


def replaced(agent: SACAgent, run: State, seed: int = 0) -> tuple[State, Generation]:
    run, (event,) = agent.perform(run, Operation.GENERATION, Clock(step=15), np.random.default_rng(seed))
    assert isinstance(event, Generation)
    return run, event


@pytest.mark.thorough
def test_a_child_has_its_parents_loss_weights_and_polyak_target() -> None:
    agent = agent_of()
    child = ADAM.replace(hidden=(5,), discount=0.75)
    agent.evolution = Chosen(
        (Descendant(MEMBERS[0], 0, None), Descendant(child, 2, "architecture"), Descendant(MEMBERS[2], 2, None))
    )
    run = trained(agent, agent.init(0), updates=5)
    run = with_record(run, selections=jnp.asarray([3, 4, 5], jnp.int32))
    online, targets = online_of(run), targets_of(run)
    groups = [bytes_of(group) for group in run.learning.ensemble]
    actor = bytes_of((run.learning.actor, run.learning.log_alpha))
    losses, last = np.array(run.learning.record.loss), np.array(run.learning.record.last_loss)
    assert len(set(losses.tolist())) == 3 and (losses > 0.0).all()
    assert np.abs(targets[2] - online[2]).max() > 1e-4  # the average lags behind
    old = agent.ensemble_of(run.members).network(2)
    run, event = replaced(agent, run)
    assert run.members == (MEMBERS[0], child, MEMBERS[2])
    assert [(m.parent, m.mutation) for m in event.members] == [(0, None), (2, "architecture"), (2, None)]
    assert (event.step, event.number, run.generation) == (15, 1, 1)
    # L is never reset, and a child begins with its parent's: 0 would win at once.
    np.testing.assert_array_equal(run.learning.record.loss, losses[[0, 2, 2]])
    np.testing.assert_array_equal(run.learning.record.last_loss, last[[0, 2, 2]])
    assert run.learning.record.selections.tolist() == [3, 0, 5]
    np.testing.assert_array_equal(run.learning.discount, np.array([0.5, 0.75, 0.25]))
    for slot in (0, 2):
        assert bytes_of(run.learning.ensemble[slot]) == groups[slot]
        assert targets_of(run)[slot].tobytes() == targets[slot].tobytes()
    assert bytes_of((run.learning.actor, run.learning.log_alpha)) == actor
    # Weights and target overlap with those of the parent in the same places, and what is new is the same in both.
    new = agent.ensemble_of(run.members).network(1)
    marked = inherit(old, np.full(old.size, np.nan, np.float32), new, np.zeros(new.size, np.float32))
    inherited = np.isnan(marked)
    assert 0 < inherited.sum() < new.size
    for of_child, of_parent in ((online_of(run)[1], online[2]), (targets_of(run)[1], targets[2])):
        expected = inherit(old, of_parent, new, of_child)
        np.testing.assert_array_equal(of_child, expected)
    np.testing.assert_array_equal(online_of(run)[1][~inherited], targets_of(run)[1][~inherited])
    assert (online_of(run)[1][inherited] != targets_of(run)[1][inherited]).any()
    group = run.learning.ensemble[1]
    assert bytes_of(group) == bytes_of(
        fresh_members(new, [child], np.asarray(group.parameters), np.zeros((1, 2), np.uint32))
    )
    pointers = pointers_of((run.learning.ensemble, run.learning.target))
    assert len(set(pointers)) == len(pointers)
    trained(agent, run, updates=2)


def test_reset_weights_starts_the_target_with_the_same_fresh_weights() -> None:
    agent = agent_of(reset_weights=True)
    child = ADAM.replace(learning_rate=0.5)
    agent.evolution = Chosen(
        (Descendant(MEMBERS[0], 0, None), Descendant(child, 0, "rate"), Descendant(MEMBERS[2], 2, None))
    )
    run = trained(agent, agent.init(0), updates=3)
    before = online_of(run)[0]
    run, _ = replaced(agent, run)
    assert online_of(run)[1].tobytes() == targets_of(run)[1].tobytes()
    kernels = np.r_[0:9, 12:15]
    assert not np.isin(online_of(run)[1][kernels], before).any()


def test_members_compete_by_their_average_losses_and_the_diverged_go_first() -> None:
    agent = agent_of((HALF, HALF, HALF), RATES_ONLY)
    run = agent.init(0)
    losses = jnp.asarray([0.0, 2.0, 1.0])
    broken = run.learning.ensemble[0]._replace(parameters=jnp.full((1, 4), jnp.nan))
    ensemble = (broken, *run.learning.ensemble[1:])
    run = with_record(run._replace(learning=run.learning._replace(ensemble=ensemble)), loss=losses)
    agent.evolution = witness = Witness(agent.evolution)
    run, event = replaced(agent, run)
    assert witness.fitness == [[math.inf, 2.0, 1.0]]
    assert [member.parent for member in event.members] == [2, 2, 2]
    assert run.learning.record.loss.tolist() == [1.0, 1.0, 1.0]
    assert run.learning.record.diverged.tolist() == [False] * 3
    assert all(np.isfinite(row).all() for row in (*online_of(run), *targets_of(run)))
    run = with_record(run, diverged=jnp.ones(3, bool))
    outcome = agent.perform(run, Operation.GENERATION, Clock(step=15), np.random.default_rng(0))
    with pytest.raises(AllMembersDiverged, match=r"all members diverged .*0: .*; 1: .*; 2: "):
        raise failed(outcome)
    assert witness.fitness[1:] == []


def test_generations_come_at_their_interval_after_what_else_is_due() -> None:
    agent = agent_of(learning_starts=12, train_freq=5)
    due = {step: agent.plan(agent.init(0), Clock(step, step - 1), np.zeros(1, bool)) for step in range(1, 46)}
    other = {step: [op for op in ops if not op.needs_batch] for step, ops in due.items()}
    assert {step: ops for step, ops in other.items() if ops} == {
        15: [Operation.GENERATION],
        20: [Operation.TARGET_UPDATE],
        30: [Operation.TARGET_UPDATE, Operation.GENERATION],
        40: [Operation.TARGET_UPDATE],
        45: [Operation.GENERATION],
    }
    assert due[15] == (Operation.ACTOR_UPDATE, Operation.GENERATION)


def test_after_a_generation_a_saved_run_goes_on_to_the_bit() -> None:
    agent = agent_of()
    run, _ = replaced(agent, trained(agent, agent.init(0), updates=3))
    assert run.members != MEMBERS
    arrays, meta = agent.to_arrays(run)
    other = agent_of()
    restored = other.from_arrays(arrays, json.loads(json.dumps(meta)))
    assert (restored.members, restored.generation) == (run.members, 1)
    went_on = [trained(who, state, updates=3, seed=4) for who, state in ((agent, run), (other, restored))]
    went_on = [replaced(agent, state, seed=9)[0] for state in went_on]
    assert bytes_of(went_on[0].learning) == bytes_of(went_on[1].learning)
    assert went_on[0].members == went_on[1].members


def test_a_pair_needs_two_members_also_where_they_are_drawn() -> None:
    settings = SACSettings(population=1)
    with pytest.raises(UserError, match="needs at least 2 members, but got 1"):
        algorithm("adasac").population(Population(space=SPACE), settings, 0, lambda: (3,))
    drawn = algorithm("adasac").population(Population(space=SPACE), SACSettings(population=2), 0, lambda: (3,))
    assert len(drawn.members) == 2 and all(SPACE.contains(member) for member in drawn.members)
