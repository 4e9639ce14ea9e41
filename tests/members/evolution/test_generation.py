"""A generation: survivors stay unchanged, the others become mutated copies of their parents."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaqn.base.errors import UserError
from adaqn.members.evolution import DEFAULT_MUTATIONS, exploit_rule, exploit_rules, mutation_names, next_generation
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace

SPACE = SearchSpace.named("images")


def ensemble(seed: int, size: int) -> tuple[Hyperparameters, ...]:
    rng = np.random.default_rng(seed)
    return tuple(SPACE.sample(rng) for _ in range(size))


@pytest.mark.parametrize("exploit", exploit_rules())
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 7), diverged=st.integers(0, 6))
def test_origins_of_every_slot(exploit: str, seed: int, size: int, diverged: int) -> None:
    members = list(ensemble(seed, size))
    given_members = list(members)
    fitness = np.random.default_rng(seed).random(size)
    fitness[: min(diverged, size - 1)] = math.inf
    children = next_generation(np.random.default_rng(seed), SPACE, members, fitness, exploit, DEFAULT_MUTATIONS)
    assert members == given_members
    assert children == next_generation(np.random.default_rng(seed), SPACE, members, fitness, exploit, DEFAULT_MUTATIONS)
    origins = exploit_rule(exploit)(np.random.default_rng(seed), fitness)
    assert [child.parent for child in children] == [origin.parent for origin in origins]
    for child, origin in zip(children, origins, strict=True):
        assert (child.mutation is not None) is origin.mutate
        assert SPACE.contains(child.hyperparameters)
        if child.mutation is None:
            assert child.parent is not None and child.hyperparameters is members[child.parent]
        else:
            assert child.mutation in mutation_names()


def test_a_child_is_its_parent_after_the_mutation_that_is_recorded() -> None:
    parent = Hyperparameters(hidden=(100, 100), learning_rate=1e-3)
    space = SearchSpace(activation=("relu",), optimizer=("adam",), loss=("l2", "l1"))
    becomes = {
        "loss": {parent.replace(loss="l1")},
        "learning_rate": {parent.replace(learning_rate=1e-3 * factor) for factor in (0.8, 1.2)},
        "architecture": {parent.replace(hidden=hidden) for hidden in [(100,), (100, 100, 100), (84, 84), (116, 116)]},
    }
    seen = set()
    for seed in range(60):
        kept, child = next_generation(
            np.random.default_rng(seed),
            space,
            [parent, Hyperparameters()],
            np.array([1.0, 2.0]),
            "truncation",
            DEFAULT_MUTATIONS,
        )
        assert kept == (parent, 0, None)
        assert child.parent == 0
        assert child.mutation is not None
        assert child.hyperparameters in becomes[child.mutation]
        seen.add(child.mutation)
    assert seen == set(becomes)


def test_children_of_one_parent_are_mutated_apart() -> None:
    members = ensemble(0, 8)
    fitness = np.array([1.0] + [math.inf] * 7)
    children = next_generation(np.random.default_rng(0), SPACE, members, fitness, "truncation", DEFAULT_MUTATIONS)
    assert {child.parent for child in children} == {0}
    assert len({child.hyperparameters for child in children}) > 4


@pytest.mark.parametrize("exploit", exploit_rules())
def test_the_best_member_lives_through_many_generations(exploit: str) -> None:
    rng = np.random.default_rng(0)
    members = ensemble(1, 5)
    champion = members[2]
    for _ in range(60):
        fitness = rng.random(5) + 1.0
        fitness[rng.integers(5)] = math.inf
        fitness[2] = 0.5
        children = next_generation(rng, SPACE, members, fitness, exploit, DEFAULT_MUTATIONS)
        members = tuple(child.hyperparameters for child in children)
        assert members[2] is champion
        assert all(SPACE.contains(member) for member in members)


def test_mistakes() -> None:
    members = ensemble(0, 3)
    with pytest.raises(UserError, match=r"unknown exploit rule 'elitism' \(allowed: tournament, truncation\)"):
        next_generation(np.random.default_rng(0), SPACE, members, np.zeros(3), "elitism", DEFAULT_MUTATIONS)
    with pytest.raises(ValueError, match="each of 3 members, but there are 2"):
        next_generation(np.random.default_rng(0), SPACE, members, np.zeros(2), "tournament", DEFAULT_MUTATIONS)
    stranger = Hyperparameters(hidden=(64,), activation="tanh")
    narrow = SearchSpace(activation=("relu",), loss=("l2",))
    with pytest.raises(UserError, match="activation in this search space 'tanh'"):
        for seed in range(20):
            next_generation(
                np.random.default_rng(seed), narrow, [stranger] * 2, np.zeros(2), "tournament", DEFAULT_MUTATIONS
            )
