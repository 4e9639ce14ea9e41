"""AdaDQN in a search space: the steps of a generation and their order, and what children inherit."""

from __future__ import annotations

import json
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from adaqn.agents.dqn import DQNAgent, State
from adaqn.agents.protocol import Clock, Operation
from adaqn.base.errors import AllMembersDiverged, UserError
from adaqn.members.evolution import Descendant
from adaqn.members.hyperparameters import Convolution, Hyperparameters
from adaqn.members.space import SearchSpace
from adaqn.networks.ensemble import fresh_members
from adaqn.networks.network import Network
from adaqn.replay.protocol import Batch
from tests.agents.generation_cases import (
    BOX,
    HALF,
    Chosen,
    Witness,
    agent_of,
    batch_for,
    bytes_of,
    online_of,
    pointers_of,
    replaced,
    targets_of,
    trained,
    with_losses,
    with_parameters,
    with_record,
)
from tests.agents.outcomes import acted, failed, learned

# Parameters are [w_0, w_1, b_0, b_1]: Q(x, a) = w_a x + b_a.
STEEP = [1.0, 2.0, 0.0, 0.0]
FLAT = [0.0, 0.0, 0.0, 1.0]
DOWN = [0.0, -1.0, 0.0, 0.0]
BROKEN = [math.nan] * 4
ADAM = Hyperparameters(hidden=(3,), activation="tanh", learning_rate=0.01)
MIXED = (
    ADAM,
    Hyperparameters(hidden=(4, 2), activation="relu", optimizer="rmsprop", loss="huber", learning_rate=0.02),
    Hyperparameters(hidden=(), optimizer="noisy_sgd", learning_rate=0.01),
    ADAM.replace(learning_rate=0.03, discount=0.25),
    Hyperparameters(hidden=(2,), optimizer="adafactor", loss="l1", learning_rate=0.01),
)
WIDE = SearchSpace.from_dict({"base": "vectors", "hidden": {"layers": [0, 2], "neurons": [2, 6]}})
STAYS = tuple(Descendant(member, slot, None) for slot, member in enumerate(MIXED))


def with_children(agent: DQNAgent, **of_slots: tuple[Hyperparameters, int]) -> DQNAgent:
    """An agent whose next generation replaces only the members of these slots (`slot_2=(what, parent)`)."""
    following = list(STAYS)
    for name, (member, parent) in of_slots.items():
        following[int(name.removeprefix("slot_"))] = Descendant(member, parent, "chosen")
    agent.evolution = Chosen(tuple(following))
    return agent


def mixed(**settings: Any) -> DQNAgent:
    return agent_of(MIXED, space=WIDE, **settings)


def grown(member: Hyperparameters, hidden: tuple[int, ...]) -> Hyperparameters:
    return member.replace(hidden=hidden)


# The order.


def test_fitness_is_the_loss_since_the_last_target_update() -> None:
    agent = agent_of([HALF.replace(learning_rate=0.0)] * 2)
    run = with_parameters(agent.init(0), [STEEP, FLAT])
    # y = 1 + ½ 4 = 3 with STEEP as target: STEEP predicts 1, ½ 2² = 2; FLAT predicts 0, ½ 3² = 4.5.
    one, two = np.ones((1, 1), np.float32), np.full((1, 1), 2.0, np.float32)
    first = Batch(one, np.zeros(1, np.int32), one, two, np.zeros(1, np.float32), np.ones(1, np.int32))
    # And y = 0: STEEP predicts 1, ½; FLAT is right. In all STEEP has 2.5 and FLAT 4.5, since then ½ and 0.
    second = first._replace(rewards=np.zeros((1, 1), np.float32), terminated=np.ones(1, np.float32))
    rng = np.random.default_rng(0)
    agent.evolution = witness = Witness(agent.evolution)
    run = learned(agent.update(run, Operation.UPDATE, first, Clock(), rng))
    replaced(agent, run)
    assert witness.fitness == [[2.0, 4.5]]
    run, (event,) = agent.perform(run, Operation.TARGET_UPDATE, Clock(step=10), rng)
    assert event.target == 0  # type: ignore[union-attr]
    run = learned(agent.update(run, Operation.UPDATE, second, Clock(), rng))
    run, update, generation = replaced(agent, run)
    assert witness.fitness[1:] == [[0.5, 0.0]]
    assert update.cumulated_loss == (0.5, 0.0)
    assert [(member.parent, member.mutation) for member in generation.members] == [(1, "learning_rate"), (1, None)]
    assert update.target == 1


def test_three_members_by_hand() -> None:
    agent = agent_of([HALF.replace(learning_rate=rate) for rate in (0.25, 0.5, 1.0)])
    run = with_losses(with_parameters(agent.init(0), [STEEP, FLAT, DOWN]), 4.0, 1.0, 2.0)
    run, update, generation = replaced(agent, run)
    # All three are drawn in every round, so the best wins all of them: it stays, and the others are its children.
    assert (update.step, update.target, update.cumulated_loss) == (20, 1, (4.0, 1.0, 2.0))
    assert [member.parent for member in generation.members] == [1, 1, 1]
    assert [member.mutation for member in generation.members] == ["learning_rate", None, "learning_rate"]
    rates = [member.hyperparameters.learning_rate for member in generation.members]
    assert rates[1] == 0.5 and {rates[0], rates[2]} <= {0.4, 0.6}
    assert [member.hyperparameters for member in generation.members] == list(run.members)
    assert [row.tolist() for row in online_of(run)] == [FLAT] * 3
    assert [float(group.learning_rate[0]) for group in run.learning.ensemble] == [np.float32(r) for r in rates]
    assert (generation.step, generation.number, run.generation) == (20, 1, 1)
    # The losses are reset; what members were last compared by, a child has from its parent.
    assert run.learning.record.loss.tolist() == [0.0] * 3
    assert run.learning.record.compared_loss.tolist() == [1.0] * 3
    assert run.learning.record.selections.tolist() == [0, 1, 0]


@pytest.mark.parametrize("selection", ["highest", "random"])
def test_the_target_is_chosen_among_the_survivors(selection: str) -> None:
    agent = agent_of([HALF] * 5, selection=selection)
    start = with_losses(agent.init(0), 3.0, 1.0, 5.0, 2.0, 4.0)
    gone = 0
    for seed in range(30):
        run, update, generation = replaced(agent, start, seed)
        stays = [k for k, member in enumerate(generation.members) if member.mutation is None]
        assert 1 in stays and update.target in stays
        assert agent.target_member(run) == update.target
        if selection == "highest":
            assert update.target == max(stays, key=[3.0, 1.0, 5.0, 2.0, 4.0].__getitem__)
        gone += 2 not in stays
    assert gone == 30  # the worst of five never wins against two others


def test_a_generation_takes_the_place_of_a_target_update() -> None:
    agent = agent_of([HALF] * 2, learning_starts=15, train_freq=5)
    run = agent.init(0)
    due = {}
    for step in range(1, 61):
        due[step] = agent.plan(run, Clock(step=step, settled=step - 1), np.zeros(1, bool))
    other = {step: [op for op in operations if not op.needs_batch] for step, operations in due.items()}
    assert {step: operations for step, operations in other.items() if operations} == {
        20: [Operation.GENERATION],
        30: [Operation.TARGET_UPDATE],
        40: [Operation.GENERATION],
        50: [Operation.TARGET_UPDATE],
        60: [Operation.GENERATION],
    }
    assert due[20] == (Operation.UPDATE, Operation.GENERATION)  # the update of this step counts
    # With several environments a period fires as often as it was crossed.
    crossed = agent.plan(run, Clock(step=63, settled=36), np.zeros(27, bool))
    assert [op for op in crossed if not op.needs_batch] == [
        Operation.GENERATION, Operation.TARGET_UPDATE, Operation.GENERATION,
    ]  # fmt: skip


def test_the_interval_must_fit_the_target_updates() -> None:
    with pytest.raises(UserError, match="must be a multiple of target_update_interval, 10, but it is 25"):
        agent_of([HALF] * 2, generation_interval=25)


def test_behaviour_in_a_space_is_by_inverse_loss_unless_another_is_asked_for() -> None:
    assert agent_of([HALF] * 2).rules.behaviour == "inverse_loss"
    assert agent_of([HALF] * 2, behaviour="epsilon").rules.behaviour == "epsilon"


# What survivors keep, and what children have.


def test_a_survivor_keeps_everything_to_the_bit() -> None:
    agent = with_children(mixed(), slot_1=(grown(MIXED[3], (5,)), 3))
    run = trained(agent, agent.init(0), updates=4)
    run = with_record(run, selections=jnp.arange(5, dtype=jnp.int32))
    before = [bytes_of(group) for group in run.learning.ensemble]
    losses = np.array(run.learning.record.last_loss)
    run, update, _ = replaced(agent, run)
    after = [bytes_of(group) for group in run.learning.ensemble]
    for slot in (0, 2, 3, 4):
        assert after[slot] == before[slot]
    assert after[1] != before[1]
    np.testing.assert_array_equal(run.learning.record.last_loss, losses[[0, 3, 2, 3, 4]])
    expected = np.array([0, 0, 2, 3, 4])
    expected[update.target] += 1
    assert run.learning.record.selections.tolist() == expected.tolist()
    assert run.members == (MIXED[0], grown(MIXED[3], (5,)), *MIXED[2:])
    np.testing.assert_array_equal(run.learning.discount, np.array([0.5, 0.25, 0.5, 0.25, 0.5]))


@pytest.mark.parametrize(("hidden", "kept"), [((5,), 3), ((2,), 2)])
def test_a_child_inherits_where_it_overlaps_and_begins_a_fresh_optimizer(hidden: tuple[int, ...], kept: int) -> None:
    child = grown(MIXED[0], hidden)
    agent = with_children(mixed(), slot_4=(child, 0))
    run = trained(agent, agent.init(0), updates=4)
    run = with_record(run, selections=jnp.full(5, 7, jnp.int32))
    parent = online_of(run)[0]
    assert np.any(np.asarray(run.learning.ensemble[0].optimizer[0].mu))
    run, _, _ = replaced(agent, run)
    # [1, n] kernel, [n] bias, [n, 2] kernel, [2] bias.
    old = np.split(parent, np.cumsum([3, 3, 6]))
    new = np.split(online_of(run)[4], np.cumsum([hidden[0], hidden[0], 2 * hidden[0]]))
    for part in (0, 1):
        assert new[part][:kept].tolist() == old[part][:kept].tolist()
    assert new[2].reshape(-1, 2)[:kept].tolist() == old[2].reshape(-1, 2)[:kept].tolist()
    assert new[3].tolist() == old[3].tolist()
    assert np.all(new[0][kept:] != 0.0) and np.all(new[2].reshape(-1, 2)[kept:] != 0.0)  # drawn
    assert not new[1][kept:].any()  # biases begin at zero
    network = agent.ensemble_of(run.members).network(4)
    group = run.learning.ensemble[4]
    fresh = fresh_members(network, [child], np.asarray(group.parameters), np.zeros((1, 2), np.uint32))
    assert bytes_of(group) == bytes_of(fresh)
    assert run.learning.record.selections[4] == 0


def test_a_child_keeps_its_parents_weights_behind_the_flattening() -> None:
    images = spaces.Box(0, 255, (6, 5, 2), np.uint8)
    parent = Hyperparameters(convolutions=(Convolution(3, 3, 2),), hidden=(4,), learning_rate=0.01)
    child = parent.replace(convolutions=(Convolution(5, 2, 1),), hidden=(3,))
    agent = agent_of([parent, parent], images, SearchSpace.named("images"))
    agent.evolution = Chosen((Descendant(child, 1, "chosen"), Descendant(parent, 1, None)))
    run = trained(agent, agent.init(0), updates=2, observations=images)
    before = online_of(run)[1]
    run, _, _ = replaced(agent, run)
    old, new = (
        structured(agent.ensemble_of((parent,)).network(0), before),
        structured(agent.ensemble_of(run.members).network(0), online_of(run)[0]),
    )
    # Behind a stride of 2 there are 3 x 3 places with 3 channels, behind one of 1 there are 6 x 5 with 5.
    assert old[2].shape == (3, 3, 3, 4) and new[2].shape == (6, 5, 5, 3)
    np.testing.assert_array_equal(new[2][:3, :3, :3, :3], old[2][..., :3])
    np.testing.assert_array_equal(new[0][:2, :2, :2, :3], old[0][:2, :2])
    np.testing.assert_array_equal(new[4][:3], old[4][:3])
    assert not np.isin(new[2][3:], old[2]).any()
    trained(agent, run, updates=1, observations=images)


def structured(network: Network, flat: np.ndarray) -> list[np.ndarray]:
    sizes = [math.prod(shape) for shape in network.structured_shapes]
    parts = np.split(flat, np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, network.structured_shapes, strict=True)]


def test_reset_weights_keeps_nothing_of_the_parent() -> None:
    agent = with_children(mixed(reset_weights=True), slot_1=(MIXED[0].replace(learning_rate=0.5), 0))
    run = trained(agent, agent.init(0), updates=2)
    before = online_of(run)
    run, _, _ = replaced(agent, run)
    after = online_of(run)
    kernels = np.r_[0:3, 6:12]  # biases of zero are fresh too
    assert not np.isin(after[1][kernels], before[0]).any()
    assert not after[1][3:6].any() and not after[1][12:].any()
    for slot in (0, 2, 3, 4):
        assert after[slot].tobytes() == before[slot].tobytes()


def test_the_snapshot_is_updated_and_shares_no_memory() -> None:
    agent = with_children(mixed(), slot_1=(MIXED[0].replace(learning_rate=0.5), 0), slot_2=(grown(MIXED[0], (4,)), 0))
    run = trained(agent, agent.init(0), updates=3)
    run, _, _ = replaced(agent, run)
    assert [row.tobytes() for row in targets_of(run)] == [row.tobytes() for row in online_of(run)]
    assert online_of(run)[1].tobytes() == online_of(run)[0].tobytes()  # equal, but not the same
    pointers = pointers_of(run.learning)
    assert len(set(pointers)) == len(pointers)
    snapshot = targets_of(run)
    run = trained(agent, run, updates=3, seed=5)
    assert [row.tobytes() for row in targets_of(run)] == [row.tobytes() for row in snapshot]
    moved = online_of(run)
    assert moved[0].tolist() != moved[1].tolist()  # with another learning rate


# Divergence.


@pytest.mark.parametrize("found", ["in the parameters", "before"])
def test_the_diverged_go_first_however_small_their_loss(found: str) -> None:
    agent = agent_of([HALF] * 3)
    run = with_parameters(agent.init(0), [BROKEN if found == "in the parameters" else STEEP, FLAT, DOWN])
    run = with_losses(run, 0.0, 2.0, 1.0)
    if found == "before":
        run = with_record(run, diverged=jnp.asarray([True, False, False]))
    run, update, generation = replaced(agent, run)
    assert (update.target, update.newly_diverged) == (2, (0,))
    assert update.cumulated_loss == (math.inf, 2.0, 1.0)
    assert [member.parent for member in generation.members] == [2, 2, 2]
    assert run.learning.record.diverged.tolist() == run.learning.record.reported.tolist() == [False] * 3
    assert [row.tolist() for row in online_of(run)] == [DOWN] * 3


def test_with_truncation_all_diverged_members_are_replaced() -> None:
    agent = agent_of([HALF] * 5, exploit="truncation")
    run = with_parameters(agent.init(0), [BROKEN, STEEP, BROKEN, DOWN, FLAT])
    run, update, generation = replaced(agent, with_losses(run, 0.0, 3.0, 0.0, 1.0, 2.0))
    assert update.newly_diverged == (0, 2)
    assert [(m.parent, m.mutation is None) for m in generation.members] == [
        (3, False), (1, True), (3, False), (3, True), (4, True),
    ]  # fmt: skip


def test_when_all_have_diverged_the_error_names_them() -> None:
    agent = agent_of([HALF, HALF.replace(learning_rate=0.25)])
    run = with_parameters(agent.init(0), [BROKEN, BROKEN])
    before = bytes_of(run.learning)
    outcome = agent.perform(run, Operation.GENERATION, Clock(step=20), np.random.default_rng(0))
    with pytest.raises(AllMembersDiverged, match=r"0: .*'learning_rate': 0.5.*; 1: .*'learning_rate': 0.25"):
        raise failed(outcome)
    assert outcome[0].members == run.members and bytes_of(outcome[0].learning) == before


def test_in_several_environments_a_member_found_diverged_as_it_acts_leaves_no_action_undone() -> None:
    agent = agent_of([HALF] * 4, exploration_initial_eps=0.0, exploration_final_eps=0.0)
    start = with_parameters(agent.init(0), [STEEP, BROKEN, DOWN, FLAT])
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        run, actions = acted(agent.act(start, np.ones((3, 1), np.float32), Clock(step=1, horizon=100), rng))
        assert set(actions.tolist()) <= {0, 1}
        found += bool(run.learning.record.diverged[1])
        assert run.learning.record.acted[1] == 0
        assert int(run.learning.record.acted.sum()) == 3  # one action per environment, even if members were drawn again
    assert 10 < found < 40


# Going on.


def lived(agent: DQNAgent, run: State, seed: int, steps: int) -> tuple[State, list[Any]]:
    """A run with a generation every fourth step, and everything that it returned."""
    rng = np.random.default_rng(seed)
    seen: list[Any] = []
    for step in range(1, steps + 1):
        clock = Clock(step, step - 1, 100)
        batch = batch_for(BOX, rng)
        run, actions = acted(agent.update(run, Operation.UPDATE, batch, clock, rng, batch.observation[:2]))
        seen.append(actions.tolist())
        if step % 2 == 0:
            operation = Operation.TARGET_UPDATE if step % 4 else Operation.GENERATION
            run, events = agent.perform(run, operation, clock, rng)
            seen += events
    return run, seen


def test_after_generations_a_saved_run_goes_on_to_the_bit() -> None:
    agent = mixed()
    run, seen = lived(agent, agent.init(1), seed=0, steps=9)
    assert run.generation == 2 and run.members != MIXED
    arrays, meta = agent.to_arrays(run)
    kept = {name: array.copy() for name, array in arrays.items()}
    run, seen = lived(agent, run, seed=2, steps=8)
    assert all(np.array_equal(arrays[name], kept[name]) for name in kept)
    other = agent_of([HALF] * 5, space=WIDE)  # knows only the spaces and settings
    restored, seen_again = lived(other, other.from_arrays(arrays, json.loads(json.dumps(meta))), seed=2, steps=8)
    assert seen_again == seen
    assert (restored.members, restored.generation) == (run.members, 4)
    expected, got = agent.to_arrays(run)[0], other.to_arrays(restored)[0]
    assert {name: array.tobytes() for name, array in got.items()} == {
        name: array.tobytes() for name, array in expected.items()
    }


def test_the_same_numbers_give_the_same_generation_and_others_another() -> None:
    agent = mixed()
    run = trained(agent, agent.init(0), updates=2)
    first, again, other = (replaced(agent, run, seed) for seed in (0, 0, 1))
    assert bytes_of(first[0].learning) == bytes_of(again[0].learning)
    assert first[2] == again[2] != other[2]
    assert jax.tree.leaves(first[0].learning)[0] is not jax.tree.leaves(again[0].learning)[0]
