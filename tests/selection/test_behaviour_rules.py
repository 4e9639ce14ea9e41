"""One contract that all rules for the behaviour member pass, and how often each member acts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from adaqn.errors import UserError
from adaqn.selection import Selection, behaviour_rule, behaviour_rules

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
        # A target member that is dead is not followed: any of the others, always.
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
