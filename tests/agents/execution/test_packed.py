"""Calls with one host array and without unchanged leaves do what the plain function does, bit for bit."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from adaqn.agents.execution.packed import PackedStep, repeated


class Walk(NamedTuple):
    position: Array  # [2]
    speed: Array  # [2] never changed
    steps: Array  # [] int32


class Push(NamedTuple):
    force: np.ndarray  # [2]
    times: np.ndarray  # [] int32
    image: np.ndarray  # [3] bytes


def walked(state: Walk, push: Push, factor: Array) -> tuple[Walk, Array]:
    position = state.position + state.speed * push.times + factor * push.force
    return state._replace(position=position, steps=state.steps + push.times), push.image.astype(jnp.float32).sum()


def start() -> Walk:
    return Walk(jnp.array([1.0, 2.0]), jnp.array([0.5, -1.0]), jnp.array(3, jnp.int32))


PUSH = Push(np.array([1.0, 10.0], np.float32), np.array(4, np.int32), np.array([1, 2, 255], np.uint8))


def test_arguments_of_all_kinds_arrive_as_they_were_given() -> None:
    packed = PackedStep(walked)
    before = start()
    after, result = packed(before, PUSH, np.float32(2.0))
    assert after.position.tolist() == [1.0 + 2.0 + 2.0, 2.0 - 4.0 + 20.0]
    assert (int(after.steps), float(result)) == (7, 258.0)
    again, _ = packed(after, PUSH, np.float32(-1.0))
    assert again.position.tolist() == [5.0 + 2.0 - 1.0, 18.0 - 4.0 - 10.0]
    assert packed._cache_size() == 1


def test_a_leaf_that_does_not_change_is_not_touched_and_the_others_are_given_up() -> None:
    before = start()
    after, _ = PackedStep(walked)(before, PUSH, np.float32(0.0))
    assert after.speed is before.speed
    assert before.position.is_deleted() and before.steps.is_deleted()


def test_other_shapes_have_another_program() -> None:
    packed = PackedStep(lambda state, rows: (state + rows.sum(), rows.shape[0]))
    assert float(packed(jnp.zeros(()), np.ones((2, 3), np.float32))[0]) == 6.0
    assert float(packed(jnp.zeros(()), np.ones((3, 3), np.float32))[0]) == 9.0
    assert packed._cache_size() == 2


def learned(state: Walk, push: Array) -> Walk:
    """Something whose rounding shows the order in which it is done."""
    slope = jax.grad(lambda p: jnp.sum(jnp.tanh(p * push) ** 2))(state.position)
    return state._replace(position=state.position - 0.1 * state.speed * slope, steps=state.steps + 1)


@pytest.mark.parametrize("parts", ([8], [1] * 8, [3, 5], [5, 2, 1]))
def test_rounds_in_a_loop_have_the_same_bits_however_they_are_divided(parts: list[int]) -> None:
    pushes = np.random.default_rng(0).standard_normal((8, 2)).astype(np.float32)
    loop = PackedStep(lambda state, pushes, count: (repeated(learned, state, pushes, count), None))
    state, done = start(), 0
    for count in parts:
        room = np.full((8, 2), np.nan, np.float32)  # what is beyond the count is never read
        room[:count] = pushes[done : done + count]
        state, _ = loop(state, room, np.int32(count))
        done += count
    assert loop._cache_size() == 1
    expected, _ = loop(start(), pushes, np.int32(8))
    assert np.asarray(state.position).tobytes() == np.asarray(expected.position).tobytes()
    assert int(state.steps) == 11
    one_by_one = start()
    for push in pushes:
        one_by_one = learned(one_by_one, jnp.asarray(push))
    np.testing.assert_allclose(state.position, one_by_one.position, rtol=1e-6)
