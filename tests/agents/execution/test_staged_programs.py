"""One program per member computes the same as the fused program, and only new architectures are compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from gymnasium import spaces

from adaqn.agents.dqn import FUNCTIONS, DQNAgent, DQNRules, State
from adaqn.agents.execution.value import StagedPrograms, fused_programs
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.settings import DQNSettings
from adaqn.agents.value import MemberPrograms, member_programs
from adaqn.members.evolution import Descendant
from adaqn.members.hyperparameters import Convolution, Hyperparameters
from adaqn.members.space import SearchSpace
from adaqn.networks.xla.compilation import compile_seconds
from tests.agents.generation_cases import Chosen, batch_for, replaced
from tests.agents.outcomes import acted, learned

BOX = spaces.Box(-9.0, 9.0, (3,))
TANH = Hyperparameters(hidden=(4,), activation="tanh", learning_rate=0.01, discount=0.5)
VECTORS = (
    TANH,
    Hyperparameters(hidden=(5, 3), optimizer="rmsprop", loss="huber", learning_rate=0.01),
    TANH.replace(learning_rate=0.02, discount=0.9),  # in a group with the first, in the program for all
    Hyperparameters(hidden=(), optimizer="adafactor", loss="l1", learning_rate=0.05),
)
CATEGORICAL = TANH.replace(head="categorical", bins=9, value_range=(-4, 4))
HEADS = (CATEGORICAL, TANH, CATEGORICAL.replace(learning_rate=0.02))
CONVOLUTION = Hyperparameters(convolutions=(Convolution(3, 2, 1),), hidden=(4,), learning_rate=0.01)
IMAGES = (CONVOLUTION, CONVOLUTION.replace(hidden=(), loss="huber"))
IMAGE_HEADS = (CONVOLUTION, CONVOLUTION.replace(head="categorical", bins=9, value_range=(-4, 4)))
IMAGE_BOX = spaces.Box(0, 255, (5, 4, 2), np.uint8)
SPACE = SearchSpace.named("vectors")


def agents(
    members: tuple[Hyperparameters, ...], observations: spaces.Box, **settings: Any
) -> tuple[DQNAgent, DQNAgent]:
    """An agent with fixed members, and one with the same members in a search space."""
    values = DQNSettings(
        gamma=0.8, behaviour="inverse_loss", exploration_final_eps=0.3, exploration_steps=0, batch_size=8, **settings
    )
    fused = DQNAgent(values, Population(members), observations, spaces.Discrete(2))
    staged = DQNAgent(values, Population(members, SPACE), observations, spaces.Discrete(2))
    return fused, staged


def lived(
    agent: DQNAgent, run: State, observations: spaces.Box, n_envs: int, steps: int = 13
) -> tuple[State, list[Any]]:
    rng = np.random.default_rng(3)
    seen: list[Any] = []
    for step in range(steps):
        clock = Clock(step, step, 100)
        batch = batch_for(observations, rng)
        run, actions = acted(agent.update(run, Operation.UPDATE, batch, clock, rng, batch.observation[:n_envs]))
        seen.append(actions.tolist())
        run, actions = acted(agent.act(run, batch.next_observation[:n_envs], clock, rng))
        seen.append(actions.tolist())
        if step % 4 == 3:
            run, (event,) = agent.perform(run, Operation.TARGET_UPDATE, clock, rng)
            seen.append((event.target, event.acted, event.newly_diverged))  # type: ignore[union-attr]
        seen.append(agent.policy(run, batch.observation[:5], None, clock).tolist())
    return run, seen


@pytest.mark.parametrize(
    ("members", "observations", "n_envs", "settings"),
    [
        (VECTORS, BOX, 1, {"selection": "lowest"}),
        pytest.param(VECTORS, BOX, 3, {"selection": "random"}, marks=pytest.mark.thorough),
        (VECTORS[:1], BOX, 1, {"selection": "lowest"}),
        pytest.param(HEADS, BOX, 1, {"selection": "lowest", "double_q": True}, marks=pytest.mark.thorough),
        pytest.param(IMAGES, IMAGE_BOX, 2, {"selection": "highest"}, marks=pytest.mark.thorough),
        pytest.param(IMAGE_HEADS, IMAGE_BOX, 2, {"selection": "lowest"}, marks=pytest.mark.thorough),
        pytest.param(VECTORS, BOX, 1, {"selection": "lowest", "double_q": True}, marks=pytest.mark.thorough),
        (VECTORS, BOX, 3, {"selection": "softmax", "selection_temperature": 0.5}),
        pytest.param(VECTORS, BOX, 1, {"selection": "inverse_loss", "double_q": True}, marks=pytest.mark.thorough),
    ],
)
def test_one_by_one_is_what_all_at_once_is(
    members: tuple[Hyperparameters, ...], observations: spaces.Box, n_envs: int, settings: dict[str, Any]
) -> None:
    fused, staged = agents(members, observations, **settings)
    run, seen = lived(fused, fused.init(5), observations, n_envs)
    other, seen_one_by_one = lived(staged, staged.init(5), observations, n_envs)
    assert isinstance(staged.programs(other), StagedPrograms) and not isinstance(fused.programs(run), StagedPrograms)
    assert seen_one_by_one == seen
    of_all = fused.ensemble_of(members).split(run.learning.ensemble)
    one_by_one = staged.ensemble_of(members).split(other.learning.ensemble)
    for k, (one, another) in enumerate(zip(of_all, one_by_one, strict=True)):
        moved = np.asarray(one.parameters) - staged.ensemble_of(members).split(staged.init(5).learning.ensemble)[k][0]
        assert np.abs(moved).max() > 1e-3
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-6), one, another)
    ensembles = fused.ensemble_of(members), staged.ensemble_of(members)
    for k in range(len(members)):
        np.testing.assert_allclose(
            ensembles[0].member(run.learning.target, k),
            ensembles[1].member(other.learning.target, k),
            rtol=2e-4,
            atol=2e-6,
        )
    record, other_record = run.learning.record, other.learning.record
    for name in ("loss", "compared_loss", "last_loss"):
        np.testing.assert_allclose(getattr(record, name), getattr(other_record, name), rtol=1e-4)
    for name in ("diverged", "reported", "acted", "chosen", "selections", "choices"):
        np.testing.assert_array_equal(getattr(record, name), getattr(other_record, name))
    np.testing.assert_array_equal(run.learning.discount, other.learning.discount)
    np.testing.assert_array_equal(run.learning.selected.members, other.learning.selected.members)
    np.testing.assert_allclose(run.learning.selected.weights, other.learning.selected.weights, rtol=1e-4)


def test_no_member_learns_from_a_target_that_overflows() -> None:
    fused, staged = agents((TANH, TANH), BOX)
    rng = np.random.default_rng(0)
    batch = batch_for(BOX, rng)
    for agent in (fused, staged):
        run = agent.init(0)
        huge = tuple(rows * 0 + 1e30 for rows in run.learning.target)
        before = jax.device_get(run.learning.ensemble)
        run = learned(
            agent.update(
                run._replace(learning=run.learning._replace(target=huge)), Operation.UPDATE, batch, Clock(), rng
            )
        )
        assert run.learning.record.diverged.tolist() == [True, False]
        assert run.learning.record.loss.tolist() == [0.0, 0.0]
        jax.tree.map(np.testing.assert_array_equal, jax.device_get(run.learning.ensemble), before)


# What is compiled.


def staged_programs(agent: DQNAgent, run: State) -> StagedPrograms:
    programs = agent.programs(run)
    assert isinstance(programs, StagedPrograms)
    return programs


def sizes(programs: MemberPrograms) -> tuple[int, ...]:
    compiled: tuple[Any, ...] = tuple(programs)
    return tuple(program._cache_size() for program in compiled)


def one_round(agent: DQNAgent, run: State) -> State:
    """Call everything that a run calls: acting, an update, a target update, the greedy policy."""
    rng = np.random.default_rng(0)
    batch = batch_for(BOX, rng)
    for step in range(40):  # until each member has acted and been the target
        clock = Clock(step, step, 100)
        run, _ = acted(agent.update(run, Operation.UPDATE, batch, clock, rng, batch.observation[:1]))
        run, _ = agent.perform(run, Operation.TARGET_UPDATE, clock, rng)
        agent.policy(run, batch.observation[:1], None, clock)
    return run


def generation_of(agent: DQNAgent, run: State, children: Sequence[Descendant]) -> State:
    agent.evolution = Chosen(tuple(children))
    return replaced(agent, run)[0]


def test_a_changed_number_compiles_nothing() -> None:
    members = VECTORS[:3]
    _, agent = agents(members, BOX, selection="random")
    stays = [Descendant(member, k, None) for k, member in enumerate(members)]
    run = one_round(agent, agent.init(0))
    run = one_round(agent, generation_of(agent, run, stays))
    before = compile_seconds()
    numbers = (
        members[0].replace(learning_rate=0.5, discount=0.1),
        members[1].replace(learning_rate=0.25),
        members[0].replace(learning_rate=0.125),
    )
    children = [Descendant(member, parent, "number") for member, parent in zip(numbers, (2, 1, 0), strict=True)]
    run = one_round(agent, generation_of(agent, run, children))
    assert run.members == numbers
    rates = np.concatenate([group.learning_rate for group in run.learning.ensemble])  # with NumPy: nothing is compiled
    assert rates.tolist() == [0.5, 0.25, 0.125]
    assert compile_seconds() == before, "something was traced or compiled"
    # The programs of an architecture that another member has or had are reused.
    run = one_round(agent, generation_of(agent, run, [stays[0], stays[1], Descendant(members[1], 1, "architecture")]))
    assert compile_seconds() == before, "something was traced or compiled"
    jax.jit(lambda x: x + 1.0)(3.0)
    assert compile_seconds() > before, "this would not have shown"


def test_a_changed_architecture_compiles_the_programs_of_that_member_alone() -> None:
    # Architectures that no other test has.
    members = (TANH.replace(activation="elu"), TANH.replace(activation="celu"))
    _, agent = agents(members, BOX, selection="random")
    run = one_round(agent, agent.init(0))
    settled = [sizes(programs) for programs in staged_programs(agent, run).members]
    counting = [program._cache_size() for program in staged_programs(agent, run).counting]
    assert settled == [(1, 1)] * 2
    child = members[0].replace(activation="selu")
    run = generation_of(agent, run, [Descendant(members[0], 0, None), Descendant(child, 0, "architecture")])
    new = staged_programs(agent, run).members[1]
    assert sizes(new) == (0, 0)
    before = compile_seconds()
    run = one_round(agent, run)
    assert compile_seconds() > before
    assert sizes(new) == (1, 1)
    first, second = (
        member_programs(agent.ensemble_of(members).alone(k), agent.row_layout, FUNCTIONS.learn) for k in (0, 1)
    )
    assert staged_programs(agent, run).members[0] is first
    assert [sizes(first), sizes(second)] == settled
    assert [program._cache_size() for program in staged_programs(agent, run).counting] == counting


def test_members_of_one_architecture_share_their_programs() -> None:
    _, agent = agents(VECTORS, BOX)
    programs = staged_programs(agent, agent.init(0))
    assert programs.members[0] is programs.members[2]
    assert len({id(of_member) for of_member in programs.members}) == 3
    again = staged_programs(agent, agent.init(1))
    assert all(one is other for one, other in zip(programs.members, again.members, strict=True))
    assert programs.counting is again.counting
    fused, _ = agents(VECTORS, BOX)
    assert fused.programs(fused.init(0)) is fused_programs(
        FUNCTIONS, fused.ensemble_of(VECTORS), DQNRules("lowest", "inverse_loss"), fused.row_layout
    )
