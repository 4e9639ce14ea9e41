"""One contract for all target rules, and what each of them chooses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from adaqn.base.errors import UserError
from adaqn.members.selection import Selection, target_rule, target_rules

K, CASES = 5, 2_000
MIXTURES = ("inverse_loss", "softmax")


def select(name: str, losses: list[float], alive: list[bool] | None = None, size: int = 1) -> list[int]:
    living = jnp.ones(len(losses), bool) if alive is None else jnp.asarray(alive)
    uniforms = jnp.linspace(0.1, 0.9, len(losses))
    return target_rule(name).select(uniforms, jnp.asarray(losses), living, size).members.tolist()


def test_the_rules_are_found_by_name() -> None:
    assert {"lowest", "highest", "random", *MIXTURES} <= set(target_rules())
    assert [name for name in target_rules() if target_rule(name).mixture] == list(MIXTURES)
    with pytest.raises(UserError, match=r"unknown selection 'lowst'; did you mean 'lowest'\? \(allowed: highest, "):
        target_rule("lowst")


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("name", target_rules())
def test_contract(name: str, size: int) -> None:
    rng = np.random.default_rng(size)
    uniforms = rng.random((CASES, K), np.float32)
    losses = rng.exponential(size=(CASES, K)).astype(np.float32)
    losses[rng.random((CASES, K)) < 0.1] = np.inf  # a sum can overflow while its member is well
    losses[rng.random((CASES, K)) < 0.1] = 0.0
    alive = rng.random((CASES, K)) < 0.7
    alive = alive[alive.sum(axis=1) >= size]
    count = len(alive)

    def rule(uniforms: Array, losses: Array, alive: Array) -> Selection:
        return target_rule(name).select(uniforms, losses, alive, size)

    members, weights = jax.jit(jax.vmap(rule))(uniforms[:count], losses[:count], alive)
    chosen = target_rule(name).target_size(size, K)
    assert chosen == (K if name in MIXTURES else size)
    assert members.shape == weights.shape == (count, chosen)
    assert (members.dtype, weights.dtype) == (jnp.int32, jnp.float32)
    members, weights = np.asarray(members), np.asarray(weights)
    # Whoever leads is alive, because behaviour and policy follow the leading ones; the dead of a mixture weigh nothing.
    lives = np.take_along_axis(alive, members, axis=1)
    assert lives[:, :size].all()
    assert (weights[~lives] == 0.0).all()
    assert all(len(set(of_case)) == chosen for of_case in members.tolist())
    assert (weights >= 0.0).all()
    assert (weights[:, 0] > 0.0).all() and (np.diff(weights, axis=1) <= 0.0).all()  # the heaviest first
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-6)


def test_lowest_by_hand() -> None:
    losses = [3.0, 0.5, 2.0, 0.25]
    assert select("lowest", losses) == [3]
    assert select("lowest", losses, size=3) == [3, 1, 2]
    assert select("lowest", losses, alive=[True, True, True, False]) == [1]
    assert select("lowest", [1.0, 0.0, 0.0]) == [1]
    assert select("lowest", [np.inf, np.inf], alive=[False, True]) == [1]
    assert select("lowest", [np.nan, np.inf], alive=[False, True]) == [1]


def test_highest_by_hand() -> None:
    losses = [3.0, 0.5, 2.0, 0.25]
    assert select("highest", losses) == [0]
    assert select("highest", losses, size=3) == [0, 2, 1]
    assert select("highest", losses, alive=[False, True, True, True]) == [2]
    assert select("highest", [1.0, 2.0, 2.0]) == [1]
    assert select("highest", [np.inf, 1.0], alive=[False, True]) == [1]
    assert select("highest", [1.0, np.inf], alive=[True, True]) == [1]


@pytest.mark.parametrize("size", [1, 2])
def test_random_is_uniform_over_the_living_whatever_their_losses(size: int) -> None:
    draws = 20_000
    uniforms = np.random.default_rng(0).random((draws, 4), np.float32)
    losses, alive = jnp.asarray([0.0, 1e9, 1.0, 2.0]), jnp.asarray([True, True, False, True])
    members = jax.vmap(lambda u: target_rule("random").select(u, losses, alive, size).members)(uniforms)
    shares = np.bincount(np.asarray(members).ravel(), minlength=4) / draws
    p = size / 3.0
    four_deviations = 4.0 * np.sqrt(p * (1.0 - p) / draws)
    assert shares[2] == 0.0
    np.testing.assert_allclose(shares[[0, 1, 3]], p, rtol=0.0, atol=four_deviations)
    if size == 2:  # every pair as often, in either order
        pairs = np.unique(np.asarray(members), axis=0, return_counts=True)[1] / draws
        assert len(pairs) == 6
        np.testing.assert_allclose(pairs, 1.0 / 6.0, rtol=0.0, atol=4.0 * np.sqrt(5.0 / 36.0 / draws))
