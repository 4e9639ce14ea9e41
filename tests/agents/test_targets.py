"""Learning targets of the critics against numbers worked out by hand."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.targets import bellman_target, critic_inputs, critic_target, pair_values, polyak, weighted_mean
from adaqn.agents.value import next_value
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.selection import Selection
from adaqn.networks.ensemble import Ensemble, EnsembleParameters
from adaqn.replay.protocol import Batch

LINEAR = Hyperparameters(hidden=(), optimizer="sgd", learning_rate=0.0)
# A critic is [w, b]: V(x) = w x + b. At x = 1 and 3 the four say 1 and 3; 0 and -2; 5 and 5; -1 and 4.
CRITICS = [[1.0, 0.0], [-1.0, 1.0], [0.0, 5.0], [2.5, -3.5]]
INPUTS = jnp.asarray([[1.0], [3.0]])


def test_bellman_target_by_hand() -> None:
    value = jnp.asarray([4.0, 3.0, 8.0, -5.0])
    rewards = jnp.asarray([[1.0, 2.0, 4.0], [1.0, 2.0, 0.0], [1.0, 2.0, 4.0], [1.0, 0.0, 0.0]])
    terminated, steps = jnp.asarray([0.0, 0.0, 1.0, 0.0]), jnp.asarray([3, 2, 3, 1], jnp.int32)
    # With γ = ½:  1 + 2/2 + 4/4 + 4/8,   1 + 2/2 + 3/4,   1 + 2/2 + 4/4 and cut,   1 - 5/2
    expected = [3.5, 2.75, 3.0, -1.5]
    nothing = jnp.zeros((4, 1))
    batch = Batch(nothing, nothing, rewards, nothing, terminated, steps)
    assert bellman_target(value, batch, jnp.float32(0.5)).tolist() == expected
    # With γ = 0 only the first reward is left, and 0^0 is 1.
    assert bellman_target(value, batch, jnp.float32(0.0)).tolist() == [1.0] * 4
    # With γ = 1 all is summed.
    assert bellman_target(value, batch, jnp.float32(1.0)).tolist() == [11.0, 6.0, 7.0, -4.0]


def test_the_value_of_the_next_state_is_the_largest_or_that_of_the_online_networks_action() -> None:
    q_target = jnp.asarray([[1.0, 4.0, 2.0], [7.0, 5.0, 6.0]])
    assert next_value(q_target, None).tolist() == [4.0, 7.0]
    # Double Q: the online values are largest for actions 2 and 1, of which the target says 2 and 5.
    q_online = jnp.asarray([[0.0, 8.0, 9.0], [-3.0, -1.0, -2.0]])
    assert next_value(q_target, q_online).tolist() == [2.0, 5.0]
    # The same for several members at once. [K, B, A] -> [K, B]
    assert next_value(jnp.stack([q_target, q_online]), jnp.stack([q_online, q_target])).tolist() == [
        [2.0, 5.0],
        [8.0, -3.0],
    ]


def test_targets_follow_with_a_rate() -> None:
    target, online = (jnp.asarray([1.0, 8.0]), jnp.asarray(0.0)), (jnp.asarray([5.0, 0.0]), jnp.asarray(4.0))
    first, second = polyak(target, online, 0.25)
    assert (first.tolist(), second.tolist()) == ([2.0, 6.0], 1.0)


def test_a_critic_sees_the_observation_and_then_the_action() -> None:
    seen = critic_inputs(jnp.arange(8.0).reshape(2, 2, 2), jnp.asarray([[-1.0], [-2.0]]))
    assert seen.tolist() == [[0.0, 1.0, 2.0, 3.0, -1.0], [4.0, 5.0, 6.0, 7.0, -2.0]]


def critics(rows: list[list[float]] = CRITICS) -> tuple[Ensemble, EnsembleParameters]:
    ensemble = Ensemble.of((LINEAR,) * len(rows), (1,), 1)
    return ensemble, (jnp.asarray(rows, jnp.float32),)


def selection(members: list[int], weights: list[float]) -> Selection:
    return Selection(jnp.asarray(members, jnp.int32), jnp.asarray(weights))


@pytest.mark.parametrize("pair", [(0, 2), (2, 0), (3, 1)])
def test_the_values_of_a_pair(pair: tuple[int, int]) -> None:
    said = [[1.0, 3.0], [0.0, -2.0], [5.0, 5.0], [-1.0, 4.0]]
    values = pair_values(*critics(), jnp.asarray(pair), INPUTS)
    assert values.tolist() == [said[pair[0]], said[pair[1]]]
    if max(pair) == 2:  # of two members both are computed, whoever is first
        of_two = pair_values(*critics([CRITICS[0], CRITICS[2]]), jnp.asarray([k // 2 for k in pair]), INPUTS)
        assert of_two.tolist() == values.tolist()


def test_the_target_of_a_pair_is_the_smaller_value() -> None:
    ensemble, parameters = critics()
    value, unusable = critic_target(ensemble, parameters, selection([0, 3], [0.5, 0.5]), INPUTS, mixture=False)
    assert value.tolist() == [-1.0, 3.0]
    assert unusable.tolist() == [False] * 4


def test_the_target_of_a_mixture_is_the_weighted_mean_of_all() -> None:
    ensemble, parameters = critics()
    chosen = selection([2, 0, 3, 1], [0.5, 0.25, 0.125, 0.125])
    value, unusable = critic_target(ensemble, parameters, chosen, INPUTS, mixture=True)
    # ½ 5 + ¼ 1 + ⅛ (-1) + ⅛ 0 and ½ 5 + ¼ 3 + ⅛ 4 + ⅛ (-2)
    assert value.tolist() == [2.625, 3.5]
    assert unusable.tolist() == [False] * 4


@pytest.mark.parametrize("broken", [math.nan, math.inf, 1e30])
def test_unusable_values_are_reported_and_ignored_with_weight_0(broken: float) -> None:
    ensemble, parameters = critics([*CRITICS[:3], [broken, broken]])
    pair = selection([0, 3], [0.5, 0.5])
    assert critic_target(ensemble, parameters, pair, INPUTS, mixture=False)[1].tolist() == [False] * 3 + [True]
    pair = selection([0, 1], [0.5, 0.5])
    assert critic_target(ensemble, parameters, pair, INPUTS, mixture=False)[1].tolist() == [False] * 4
    dead = selection([0, 1, 2, 3], [0.5, 0.25, 0.25, 0.0])
    value, unusable = critic_target(ensemble, parameters, dead, INPUTS, mixture=True)
    assert value.tolist() == [1.75, 2.25]
    assert unusable.tolist() == [False] * 3 + [True]
    alive = selection([0, 1, 2, 3], [0.25] * 4)
    value, unusable = critic_target(ensemble, parameters, alive, INPUTS, mixture=True)
    assert unusable.tolist() == [False] * 3 + [True]
    assert not (np.abs(np.asarray(value)) < 1e20).any()


def test_a_weighted_mean_goes_by_the_members_that_the_weights_are_for() -> None:
    values = jnp.asarray([[1.0, 2.0], [10.0, 20.0], [100.0, math.nan]])
    assert weighted_mean(values, selection([1, 0], [0.75, 0.25])).tolist() == [7.75, 15.5]
    assert weighted_mean(values, selection([1, 0, 2], [0.75, 0.25, 0.0])).tolist() == [7.75, 15.5]
    # A member that replaces another one in the pair has its weight.
    assert weighted_mean(values, selection([0, 0, 1], [0.5, 0.25, 0.25])).tolist() == [3.25, 6.5]
