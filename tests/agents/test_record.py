"""The record of the members against numbers worked out by hand: losses, choices, divergence and inheritance."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.record import MemberRecord, is_in, valid_pair
from adaqn.members.selection import Selection, target_rule

EVERYONE = jnp.ones(3, bool)
UNIFORMS = jnp.asarray([0.1, 0.5, 0.9])


def record_with(**entries: Any) -> MemberRecord:
    """A record of three members with these entries."""
    empty = MemberRecord.empty(3)
    return empty._replace(**{name: jnp.asarray(v, getattr(empty, name).dtype) for name, v in entries.items()})


def values(record: MemberRecord) -> dict[str, Any]:
    return {name: np.asarray(array).tolist() for name, array in record._asdict().items()}


def changes(before: MemberRecord, after: MemberRecord) -> dict[str, Any]:
    """The entries that have changed."""
    return {name: value for name, value in values(after).items() if value != values(before)[name]}


def selection_of(*members: int) -> Selection:
    return Selection(jnp.asarray(members, jnp.int32), jnp.full(len(members), 1.0 / len(members)))


def test_an_empty_record_knows_of_nothing() -> None:
    record = MemberRecord.empty(2)
    none, never = [0.0, 0.0], [0, 0]
    assert values(record) == {
        "loss": none, "compared_loss": none, "last_loss": none, "diverged": [False] * 2, "reported": [False] * 2,
        "acted": never, "chosen": never, "selections": never, "choices": 0,
    }  # fmt: skip
    assert record.alive.tolist() == [True, True]
    # A compiled transition takes over the memory of each array.
    assert len({array.unsafe_buffer_pointer() for array in record}) == len(record)


def test_losses_are_added() -> None:
    record = record_with(loss=[1.0, 2.0, 4.0], last_loss=[9.0, 9.0, 9.0], selections=[3, 2, 1])
    after = record.add(jnp.asarray([0.5, 0.25, 8.0]))
    assert changes(record, after) == {"loss": [1.5, 2.25, 12.0], "last_loss": [0.5, 0.25, 8.0]}


def test_losses_are_followed_with_a_rate() -> None:
    record = record_with(loss=[1.0, 2.0, 4.0])
    # ¾ of what it was and ¼ of what it is now.
    after = record.follow(jnp.asarray([5.0, 2.0, 0.0]), 0.25)
    assert changes(record, after) == {"loss": [2.0, 2.0, 3.0], "last_loss": [5.0, 2.0, 0.0]}


@pytest.mark.parametrize("unsound", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_sets_its_member_aside_for_good(unsound: float) -> None:
    losses = jnp.asarray([1.0, unsound, 1.0])
    for after in (MemberRecord.empty(3).add(losses), MemberRecord.empty(3).follow(losses, 0.5)):
        assert after.diverged.tolist() == [False, True, False]
        assert after.alive.tolist() == [True, False, True]
        assert after.reported.tolist() == [False] * 3
        assert after.add(jnp.ones(3)).diverged.tolist() == [False, True, False]
    marked = record_with(diverged=[True, False, False]).mark_diverged(jnp.asarray([False, False, True]))
    assert marked.diverged.tolist() == [True, False, True]


def test_one_target_is_chosen_and_counted() -> None:
    record = record_with(loss=[3.0, 1.0, 2.0], chosen=[1, 0, 0], selections=[5, 6, 7], choices=18)
    after, selected = record.select(target_rule("lowest"), UNIFORMS, EVERYONE, 1)
    assert (selected.members.tolist(), selected.weights.tolist()) == ([1], [1.0])
    # The losses stay: whether they are reset is up to the algorithm.
    assert changes(record, after) == {
        "compared_loss": [3.0, 1.0, 2.0], "chosen": [1, 1, 0], "selections": [5, 7, 7], "choices": 19,
    }  # fmt: skip


def test_a_pair_is_chosen_and_both_are_counted() -> None:
    record = record_with(loss=[3.0, 1.0, 2.0])
    after, selected = record.select(target_rule("lowest"), UNIFORMS, EVERYONE, 2)
    assert selected.members.tolist() == [1, 2]
    assert (after.selections.tolist(), after.chosen.tolist(), int(after.choices)) == ([0, 1, 1], [0, 1, 1], 1)


def test_only_living_candidates_are_chosen() -> None:
    record = record_with(loss=[0.0, 1.0, 2.0], diverged=[True, False, False])
    after, selected = record.select(target_rule("lowest"), UNIFORMS, EVERYONE, 1)
    assert selected.members.tolist() == [1]
    assert after.compared_loss.tolist() == [math.inf, 1.0, 2.0]
    candidates = jnp.asarray([True, False, True])
    after, selected = record.select(target_rule("lowest"), UNIFORMS, candidates, 1)
    assert selected.members.tolist() == [2]
    # A member that is not a candidate still gets a compared loss.
    assert after.compared_loss.tolist() == [math.inf, 1.0, 2.0]


def test_of_a_mixture_the_heaviest_are_counted() -> None:
    record = record_with(loss=[3.0, 1.0, 2.0])
    for size, counted in ((1, [0, 1, 0]), (2, [0, 1, 1])):
        after, selected = record.select(target_rule("inverse_loss"), UNIFORMS, EVERYONE, size)
        assert selected.members.tolist() == [1, 2, 0]
        assert after.selections.tolist() == after.chosen.tolist() == counted
        assert int(after.choices) == 1


def test_where_one_lives_it_is_its_own_pair() -> None:
    record = record_with(loss=[3.0, 1.0, 2.0], diverged=[False, True, True])
    after, selected = record.select(target_rule("lowest"), UNIFORMS, EVERYONE, 2)
    assert selected.members.tolist() == [0, 0]
    assert after.selections.tolist() == [1, 0, 0]


@pytest.mark.parametrize(("diverged", "members"), [
    ([False, False, False], [2, 0, 1]), ([True, False, False], [2, 2, 1]), ([False, False, True], [0, 0, 1]),
    ([True, False, True], [2, 0, 1]), ([False, True, False], [2, 0, 1]),
])  # fmt: skip
def test_the_partner_of_one_that_diverged_takes_its_place(diverged: list[bool], members: list[int]) -> None:
    record, selected = record_with(diverged=diverged), selection_of(2, 0, 1)
    after = record.without_dead_partner(selected, 2)
    assert after.members.tolist() == members
    assert after.weights.tolist() == selected.weights.tolist()
    # A single target member has no partner.
    assert record.without_dead_partner(selected, 1).members.tolist() == [2, 0, 1]


def test_a_report_begins_a_new_stretch() -> None:
    record = record_with(
        loss=[1.0, 2.0, 3.0], compared_loss=[4.0, 5.0, 6.0], last_loss=[7.0, 8.0, 9.0], diverged=[False, True, True],
        reported=[False, True, False], acted=[1, 2, 3], chosen=[4, 5, 6], selections=[7, 8, 9], choices=24,
    )  # fmt: skip
    assert changes(record, record.reset_counters()) == {
        "reported": [False, True, True], "acted": [0, 0, 0], "chosen": [0, 0, 0],
    }  # fmt: skip


def test_a_child_has_its_parents_losses_and_no_counts() -> None:
    record = record_with(
        loss=[1.0, 2.0, 3.0], compared_loss=[4.0, 5.0, math.inf], last_loss=[7.0, 8.0, 9.0],
        diverged=[False, False, True], reported=[False, False, True],
        acted=[1, 2, 3], chosen=[4, 5, 6], selections=[7, 8, 9], choices=24,
    )  # fmt: skip
    # The first stays, the second becomes its child, and so does the third, which had diverged.
    after = record.inherit(np.array([0, 0, 0]), np.array([False, True, True]))
    assert values(after) == {
        "loss": [1.0, 1.0, 1.0], "compared_loss": [4.0, 4.0, 4.0], "last_loss": [7.0, 7.0, 7.0],
        "diverged": [False] * 3, "reported": [False] * 3,
        "acted": [1, 0, 0], "chosen": [4, 0, 0], "selections": [7, 0, 0], "choices": 24,
    }  # fmt: skip
    assert {name: array.dtype for name, array in after._asdict().items()} == {
        name: array.dtype for name, array in record._asdict().items()
    }


def test_survivors_keep_everything_whoever_has_children() -> None:
    record = record_with(loss=[1.0, 2.0, 3.0], diverged=[True, False, False], selections=[7, 8, 9], acted=[1, 2, 3])
    after = record.inherit(np.array([2, 1, 2]), np.array([True, False, False]))
    assert changes(record, after) == {
        "loss": [3.0, 2.0, 3.0], "diverged": [False] * 3, "selections": [0, 8, 9], "acted": [0, 2, 3],
    }  # fmt: skip


def test_which_members_are_in_an_array_of_indices() -> None:
    assert is_in(jnp.asarray([2, 0, 2]), 4).tolist() == [True, False, True, False]
    assert is_in(jnp.asarray([-1, 1]), 3).tolist() == [False, True, False]


@pytest.mark.parametrize(("diverged", "pair"), [
    ([False, False], [1, 0]), ([True, False], [1, 1]), ([False, True], [0, 0]), ([True, True], [1, 0]),
])  # fmt: skip
def test_a_pair_of_which_one_lives_is_that_one_twice(diverged: list[bool], pair: list[int]) -> None:
    assert valid_pair(jnp.asarray([1, 0]), jnp.asarray(diverged)).tolist() == pair
