"""One contract for all behaviour rules, and how often each member acts."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from adaqn.base.errors import UserError
from adaqn.members.selection import Selection, behaviour_rule, behaviour_rules

K = 4


def selection(*members: int) -> Selection:
    return Selection(jnp.asarray(members, jnp.int32), jnp.full(len(members), 1.0 / len(members)))


def shares(epsilon: float, alive: list[bool], target: int, draws: int = 40_000) -> np.ndarray:
    """How often each member acts under the rule `epsilon`. [K]"""
    uniforms = np.random.default_rng(0).random((draws, 1 + K), np.float32)

    def draw(numbers: Array) -> Array:
        losses = jnp.asarray([5.0, 1.0, 2.0, 3.0])
        return behaviour_rule("epsilon")(numbers, jnp.float32(epsilon), losses, jnp.asarray(alive), selection(target))

    members = np.asarray(jax.jit(jax.vmap(draw))(uniforms))
    return np.bincount(members[:, 0], minlength=K) / draws


def test_the_rules_are_found_by_name() -> None:
    assert "epsilon" in behaviour_rules()
    with pytest.raises(UserError, match=r"unknown behaviour 'epsilom'; did you mean 'epsilon'\?"):
        behaviour_rule("epsilom")


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("name", behaviour_rules())
def test_contract(name: str, size: int) -> None:
    rng = np.random.default_rng(size)
    cases = 2_000
    alive = rng.random((cases, K)) < 0.7
    alive = alive[alive.sum(axis=1) >= size]
    cases = len(alive)
    uniforms = rng.random((cases, 1 + K), np.float32)
    epsilons = rng.random(cases, np.float32)
    losses = rng.exponential(size=(cases, K)).astype(np.float32)
    losses[:100] = 0.0  # as just after a target update
    targets = rng.permuted(np.tile(np.arange(K, dtype=np.int32), (cases, 1)), axis=1)[:, :size]

    def draw(uniforms: Array, epsilon: Array, losses: Array, alive: Array, target: Array) -> Array:
        weights = jnp.full(size, 1.0 / size)
        return behaviour_rule(name)(uniforms, epsilon, losses, alive, Selection(target, weights))

    members = jax.jit(jax.vmap(draw))(uniforms, epsilons, losses, alive, targets)
    assert members.shape == (cases, size)
    assert members.dtype == jnp.int32
    assert np.take_along_axis(alive, np.asarray(members), axis=1).all()
    assert all(len(set(drawn)) == size for drawn in np.asarray(members).tolist())


@pytest.mark.parametrize(
    ("epsilon", "alive", "target", "expected"),
    [
        # With probability 0.4 any of four, a tenth each; else, 0.6, the target member.
        (0.4, [True] * 4, 2, [0.1, 0.1, 0.7, 0.1]),
        (1.0, [True] * 4, 2, [0.25, 0.25, 0.25, 0.25]),
        (0.0, [True] * 4, 2, [0.0, 0.0, 1.0, 0.0]),
        (0.3, [True, False, True, True], 0, [0.8, 0.0, 0.1, 0.1]),
        # A diverged target member never acts: the others are drawn uniformly.
        (0.4, [True, True, False, True], 2, [1 / 3, 1 / 3, 0.0, 1 / 3]),
        (0.0, [False, True, False, False], 2, [0.0, 1.0, 0.0, 0.0]),
    ],
)
def test_epsilon_follows_the_target_member_but_sometimes(
    epsilon: float, alive: list[bool], target: int, expected: list[float]
) -> None:
    p = np.array(expected)
    deviations = np.sqrt(p * (1.0 - p) / 40_000)
    assert (np.abs(shares(epsilon, alive, target) - p) <= 4.0 * deviations).all()


def inverse_loss_draws(losses: list[float], alive: list[bool], size: int, draws: int = 40_000) -> np.ndarray:
    """Members drawn by the rule `inverse_loss`. [draws, size]"""
    uniforms = np.random.default_rng(1).random((draws, 1 + K), np.float32)
    target = selection(*range(size))

    def draw(numbers: Array) -> Array:
        return behaviour_rule("inverse_loss")(
            numbers, jnp.float32(0.5), jnp.asarray(losses), jnp.asarray(alive), target
        )

    return np.asarray(jax.jit(jax.vmap(draw))(uniforms))


@pytest.mark.parametrize(
    ("losses", "alive", "expected"),
    [
        # 1/L is 1, 2, 4, 1 eighths.
        ([4.0, 2.0, 1.0, 4.0], [True] * 4, [1 / 8, 2 / 8, 4 / 8, 1 / 8]),
        ([4.0, 2.0, 1.0, 4.0], [True, True, False, True], [1 / 4, 2 / 4, 0.0, 1 / 4]),
        # Just after a reset, all members are equally likely.
        ([0.0, 0.0, 0.0, 0.0], [True] * 4, [1 / 4] * 4),
        # 1 / (L + 1e-6): a small loss that is no larger than the constant, and one that is three times as large.
        ([0.0, 1e-6, 3e-6, 1.0], [True] * 4, [4 / 7, 2 / 7, 1 / 7, 0.0]),
        # The cumulated loss of a diverging member can be infinite before it is marked as diverged.
        ([2.0, np.inf, np.nan, 2.0], [True] * 4, [1 / 2, 0.0, 0.0, 1 / 2]),
        ([1e-3, 1e-3, 1e-3, 5.0], [False, False, False, True], [0.0, 0.0, 0.0, 1.0]),
    ],
)
def test_inverse_loss_prefers_small_losses_in_proportion(
    losses: list[float], alive: list[bool], expected: list[float]
) -> None:
    members = inverse_loss_draws(losses, alive, size=1)
    p = np.array(expected)
    deviations = np.sqrt(p * (1.0 - p) / len(members))
    frequencies = np.bincount(members[:, 0], minlength=K) / len(members)
    assert (np.abs(frequencies - p) <= 4.0 * deviations + 2e-5).all()  # a weight of one millionth is shown as none


def test_inverse_loss_draws_pairs_one_after_the_other_without_replacement() -> None:
    # Weights 4, 2, 1 and nothing: the first is drawn with 4/7, 2/7, 1/7, the second among the others by weight.
    members = inverse_loss_draws([1.0, 2.0, 4.0, 0.5], [True, True, True, False], size=2)
    weights = {0: 4.0, 1: 2.0, 2: 1.0}
    assert (members[:, 0] != members[:, 1]).all()
    assert not (members == 3).any()
    for first, of_first in weights.items():
        for second in weights.keys() - {first}:
            p = of_first / 7.0 * weights[second] / (7.0 - of_first)
            share = ((members[:, 0] == first) & (members[:, 1] == second)).mean()
            assert abs(share - p) <= 4.0 * np.sqrt(p * (1.0 - p) / len(members))


def test_inverse_loss_is_sound_for_the_smallest_and_the_largest_numbers_that_are_drawn() -> None:
    edge = [0.0, float(np.nextafter(np.float32(1.0), np.float32(0.0)))]
    losses, alive = jnp.asarray([1e30, 1e30, 1e30, 1e30]), jnp.asarray([True, True, True, False])
    for numbers in itertools.product(edge, repeat=K):
        uniforms = jnp.asarray([0.5, *numbers])
        (member,) = behaviour_rule("inverse_loss")(uniforms, jnp.float32(0.0), losses, alive, selection(3))
        assert int(member) == int(np.argmax(numbers[:3]))


@pytest.mark.parametrize(
    ("alive", "one", "two"),
    [([True] * 4, [0], [0, 1]), ([False, True, True, True], [1], [1, 2]), ([True, False, False, True], [0], [0, 3])],
)
def test_first_is_the_first_living_members_whatever_is_drawn(alive: list[bool], one: list[int], two: list[int]) -> None:
    uniforms = jnp.asarray([0.0, 0.1, 0.9, 0.5, 0.7])
    losses = jnp.asarray([5.0, 1.0, 2.0, jnp.inf])
    for target, expected in ((selection(2), one), (selection(3, 1), two)):
        for epsilon in (0.0, 1.0):
            drawn = behaviour_rule("first")(uniforms, jnp.float32(epsilon), losses, jnp.asarray(alive), target)
            assert drawn.tolist() == expected
