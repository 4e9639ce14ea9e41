"""The whole product learns: CartPole is solved with nothing chosen but the seed."""

from __future__ import annotations

import pytest

import adaqn

pytestmark = pytest.mark.slow


# A random player balances the pole for 22 steps; 475 of 500 is what Gymnasium calls solved.
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cart_pole_is_solved_with_the_default_members(seed: int) -> None:
    model = adaqn.AdaDQN("CartPole-v1", seed=seed).learn(50_000)
    env = model.make_env()
    result = adaqn.evaluate_policy(model, env, 20, deterministic=True, seed=1000)
    env.close()
    assert len(result.returns) == 20
    assert result.mean >= 475.0
