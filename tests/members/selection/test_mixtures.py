"""Mixtures of all members as target: weights against numbers worked out by hand, and limiting cases."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.settings import DQNSettings, SACSettings, SelectionSettings
from adaqn.base.errors import UserError
from adaqn.members.selection import takes_temperature, target_rule, target_rules

MIXTURES = ("inverse_loss", "softmax")


def chosen(
    name: str, losses: list[float], alive: list[bool] | None = None, temperature: float = 1.0
) -> tuple[list[int], list[float]]:
    """The selected members in order, and the weight of each member by index."""
    living = jnp.ones(len(losses), bool) if alive is None else jnp.asarray(alive)
    selected = target_rule(name, temperature).select(jnp.zeros(len(losses)), jnp.asarray(losses), living, 1)
    weights = dict(zip(selected.members.tolist(), selected.weights.tolist(), strict=True))
    return selected.members.tolist(), [weights[k] for k in range(len(losses))]


def weights_of(name: str, losses: list[float], alive: list[bool] | None = None, temperature: float = 1.0) -> np.ndarray:
    return np.array(chosen(name, losses, alive, temperature)[1])


def test_softmax_by_hand() -> None:
    # The mean loss is 2, so the exponents are -½, -1 and -3/2: relative to the best e^0, e^-½ and e^-1.
    sum_of_all = 1.0 + math.exp(-0.5) + math.exp(-1.0)
    members, weights = chosen("softmax", [2.0, 3.0, 1.0])
    assert members == [2, 0, 1]
    np.testing.assert_allclose(weights, np.exp([-0.5, -1.0, 0.0]) / sum_of_all, rtol=1e-6)
    np.testing.assert_allclose(weights, [0.307196, 0.186324, 0.506480], atol=1e-6)
    # With a temperature of ½ the differences count twice.
    weights = weights_of("softmax", [2.0, 3.0, 1.0], temperature=0.5)
    np.testing.assert_allclose(weights, np.exp([-1.0, -2.0, 0.0]) / (1.0 + math.exp(-1.0) + math.exp(-2.0)), rtol=1e-6)


def test_inverse_loss_by_hand() -> None:
    # 1, ½ and ¼, of which there are 7/4 in all; the millionth that is added to losses does not show here.
    members, weights = chosen("inverse_loss", [2.0, 4.0, 1.0])
    assert members == [2, 0, 1]
    np.testing.assert_allclose(weights, [2 / 7, 1 / 7, 4 / 7], rtol=1e-5)
    # A loss of 0 counts as a millionth: 1 / 1e-6 beside 1 / (3e-6 + 1e-6).
    np.testing.assert_allclose(weights_of("inverse_loss", [0.0, 3e-6]), [0.8, 0.2], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e6, 1e30])
def test_softmax_does_not_depend_on_the_scale_of_the_rewards(scale: float) -> None:
    losses = np.array([2.0, 3.0, 1.0]) * scale
    np.testing.assert_allclose(
        weights_of("softmax", losses.tolist()), weights_of("softmax", [2.0, 3.0, 1.0]), rtol=1e-5
    )


def test_softmax_goes_from_the_best_alone_to_equal_weights() -> None:
    cold = weights_of("softmax", [2.0, 3.0, 1.0], temperature=1e-6)
    assert cold.tolist() == [0.0, 0.0, 1.0]
    hot = weights_of("softmax", [2.0, 3.0, 1.0], temperature=1e6)
    np.testing.assert_allclose(hot, 1.0 / 3.0, rtol=1e-5)
    assert hot[2] > hot[0] > hot[1] or np.ptp(hot) < 1e-6
    of_best = [weights_of("softmax", [2.0, 3.0, 1.0], temperature=t)[2] for t in (0.1, 0.3, 1.0, 3.0, 10.0)]
    assert of_best == sorted(of_best, reverse=True) and len(set(of_best)) == 5
    # Among equals none is better, however cold it is.
    np.testing.assert_allclose(weights_of("softmax", [5.0, 5.0], temperature=1e-6), 0.5)


@pytest.mark.parametrize("name", MIXTURES)
def test_a_diverged_member_has_weight_0_and_no_effect(name: str) -> None:
    # The mean is over non-diverged members: if the first has diverged, the result is as if it did not exist.
    for loss in (0.0, 100.0, math.inf, math.nan):
        members, weights = chosen(name, [loss, 4.0, 1.0], alive=[False, True, True])
        assert members == [2, 1, 0] and weights[0] == 0.0
        np.testing.assert_allclose(weights[1:], weights_of(name, [4.0, 1.0]), rtol=1e-6)


@pytest.mark.parametrize("name", MIXTURES)
def test_an_infinite_loss_of_a_living_member_weighs_nothing(name: str) -> None:
    members, weights = chosen(name, [math.inf, 4.0, 1.0])
    assert members == [2, 1, 0] and weights[0] == 0.0
    np.testing.assert_allclose(weights[1:], weights_of(name, [4.0, 1.0]), rtol=1e-6)
    # If no loss is finite, all non-diverged members have equal weights.
    np.testing.assert_allclose(weights_of(name, [math.inf] * 3, alive=[True, False, True]), [0.5, 0.0, 0.5])


@pytest.mark.parametrize("name", MIXTURES)
def test_without_losses_all_weigh_the_same(name: str) -> None:
    np.testing.assert_allclose(weights_of(name, [0.0] * 4), 0.25)
    np.testing.assert_allclose(weights_of(name, [7.0] * 4), 0.25, rtol=1e-6)
    assert weights_of(name, [3.0]).tolist() == [1.0]


def test_losses_may_be_very_different() -> None:
    # 1 / 1e37 beside 1 / 1e-6.
    assert weights_of("inverse_loss", [1e37, 0.0])[1] == 1.0
    # Of two, the worse is at most 2 from the mean: e^-2 to 1.
    np.testing.assert_allclose(
        weights_of("softmax", [1e37, 0.0]), np.exp([-2.0, 0.0]) / (1.0 + math.exp(-2.0)), rtol=1e-5
    )


@pytest.mark.parametrize("name", MIXTURES)
def test_nothing_overflows(name: str) -> None:
    # Their sum overflows.
    np.testing.assert_allclose(weights_of(name, [3e38, 3e38, 3e38]), 1.0 / 3.0, rtol=1e-6)


def test_softmax_alone_has_a_temperature() -> None:
    assert [name for name in target_rules() if takes_temperature(name)] == ["softmax"]


@pytest.mark.parametrize("settings", [DQNSettings, SACSettings])
def test_a_temperature_for_a_rule_without_one_is_refused(settings: type[SelectionSettings]) -> None:
    for name in ("lowest", "random", "highest", "inverse_loss"):
        with pytest.raises(UserError) as error:
            settings(selection=name, selection_temperature=0.5)
        assert str(error.value) == (
            f"selection_temperature is for selection=softmax, but selection is '{name}' "
            "and got selection_temperature=0.5"
        )
        assert settings(selection=name, selection_temperature=1.0).selection == name
    assert settings(selection="softmax", selection_temperature="0.5").selection_temperature == 0.5  # type: ignore[arg-type]
    with pytest.raises(
        UserError, match=r"^selection_temperature must be a finite number of at least 1e-06, but got 0$"
    ):
        settings(selection="softmax", selection_temperature=0)
