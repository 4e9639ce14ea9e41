"""The convergence appendix and the theorems of the paper, checked on finite MDPs."""

from __future__ import annotations

from collections import Counter

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaqn.base.errors import UserError
from adaqn.tabular import (
    FiniteMDP,
    Member,
    adaptive_q_learning,
    adaptive_value_iteration,
    from_toy_text,
    optimal_q,
    performance_loss,
    policy_q,
    polynomial,
    random_mdp,
)

# Two states: action 0 stays, action 1 goes to the other; only staying in state 1 pays.
TWO_STATES = FiniteMDP(
    transition=np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]),
    reward=np.array([[0.0, 0.0], [1.0, 0.0]]),
    gamma=0.5,
)
STEP_SIZES = (polynomial(0.6), polynomial(0.8), polynomial(1.0, scale=5.0, delay=4.0))


def test_optimal_values_worked_by_hand() -> None:
    # V(1) = 1 / (1 - 0.5) = 2; V(0) = 0.5 * 2 = 1; staying in 0: 0.5 * 1; leaving 1: 0.5 * 1.
    np.testing.assert_allclose(optimal_q(TWO_STATES), [[0.5, 1.0], [2.0, 0.5]], atol=1e-11)


def test_values_of_a_policy_worked_by_hand() -> None:
    # Always stay: V(0) = 0, V(1) = 2. Moving from 0 is worth 0.5 * 2, moving from 1 nothing.
    np.testing.assert_allclose(policy_q(TWO_STATES, np.array([0, 0])), [[0.0, 1.0], [2.0, 0.0]], atol=1e-12)
    stays = np.array([[1.0, 0.0], [1.0, 0.0]])
    # Distances to Q*: 0.5, 0, 0, 0.5.
    assert performance_loss(TWO_STATES, stays, optimal_q(TWO_STATES)) == pytest.approx(0.25)


def test_the_first_update_worked_by_hand() -> None:
    learned = adaptive_q_learning(TWO_STATES, [lambda n: 1.0, lambda n: 0.5], 1, np.random.default_rng(0))
    np.testing.assert_allclose(learned.q, [[[0, 0], [1, 0]], [[0, 0], [0.5, 0]]])
    assert learned.target_member.tolist() == [0], "the first reaches the target exactly"
    highest = adaptive_q_learning(
        TWO_STATES, [lambda n: 1.0, lambda n: 0.5], 1, np.random.default_rng(0), rule="highest"
    )
    assert highest.target_member.tolist() == [1]


def test_all_members_learn_from_the_selected_one() -> None:
    # Member 0 stays at 8, so member 1 would learn from 8 if 0 stayed the target; 1 is closer after one update.
    start = np.stack([np.full((2, 2), 8.0), np.zeros((2, 2))])
    learned = adaptive_q_learning(
        TWO_STATES, [lambda n: 0.0, lambda n: 1.0], 2, np.random.default_rng(0), initial_q=start
    )
    # First target: r + 0.5 * 8; second, from member 1 itself: r + 0.5 * max(4, 4) or max(5, 4).
    np.testing.assert_allclose(learned.q[1], [[2.0, 2.5], [3.5, 2.0]])
    assert learned.target_member.tolist() == [1, 1]


@pytest.mark.parametrize("seed", range(4))
def test_tabular_adaqn_converges_on_random_mdps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(states=6, actions=3, gamma=0.8, rng=rng)
    best = optimal_q(mdp)
    start = rng.normal(scale=10.0, size=(3, 6, 3))
    distances = [
        np.abs(adaptive_q_learning(mdp, STEP_SIZES, n, np.random.default_rng(seed), initial_q=start).q - best).max()
        for n in (500, 20_000)
    ]
    assert distances[1] < 0.12 * np.abs(best).max()
    assert distances[1] < 0.5 * distances[0]


def test_tabular_adaqn_converges_on_frozen_lake() -> None:
    lake = gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=True)
    mdp = from_toy_text(lake.unwrapped.P, gamma=0.9)  # pyright: ignore[reportAttributeAccessIssue]
    best = optimal_q(mdp)
    learned = adaptive_q_learning(mdp, STEP_SIZES, 20_000, np.random.default_rng(0))
    assert np.abs(learned.q - best).max() < 0.02
    assert best[:16].max() == pytest.approx(0.639, abs=1e-3), "the state beside the goal"
    assert performance_loss(mdp, learned.q[0], best) < 1e-3


def test_it_stops_short_when_the_step_sizes_are_summable() -> None:
    """α = 1/n²: the sum is finite, so initial errors are never corrected."""
    mdp = random_mdp(states=6, actions=3, gamma=0.8, rng=np.random.default_rng(0))
    start = np.full((2, 6, 3), 100.0)
    kwargs = {"updates": 5_000, "rng": np.random.default_rng(0), "initial_q": start}
    summable = adaptive_q_learning(mdp, [polynomial(2.0, scale=0.5), polynomial(3.0, scale=0.5)], **kwargs)
    divergent = adaptive_q_learning(mdp, [polynomial(0.6), polynomial(0.8)], **kwargs)
    best = optimal_q(mdp)
    assert np.abs(summable.q - best).max() > 40.0
    assert np.abs(divergent.q - best).max() < 2.0


def test_it_keeps_moving_when_the_squares_are_not_summable() -> None:
    """α = 1/2: noise is never averaged out, however long the learning."""
    mdp = random_mdp(states=6, actions=3, gamma=0.8, rng=np.random.default_rng(0))
    best = optimal_q(mdp)
    distances = [
        np.abs(adaptive_q_learning(mdp, [lambda n: 0.5] * 2, n, np.random.default_rng(1)).q - best).max()
        for n in (2_000, 8_000)
    ]
    assert min(distances) > 0.2
    decaying = adaptive_q_learning(mdp, STEP_SIZES, 8_000, np.random.default_rng(1))
    assert np.abs(decaying.q - best).max() < 0.5 * min(distances)


def empirical_losses(mdp: FiniteMDP, samples: list[tuple[int, int, int]], target: np.ndarray, q: np.ndarray):
    """The sum over a data set of (r + γ max Q_target(s') - Q^k(s, a))². [K]"""
    losses = np.zeros(len(q))
    for state, action, successor in samples:
        losses += (mdp.reward[state, action] + mdp.gamma * target[successor].max() - q[:, state, action]) ** 2
    return losses


def true_errors(mdp: FiniteMDP, samples: list[tuple[int, int, int]], target: np.ndarray, q: np.ndarray):
    """||Γ Q_target - Q^k||²_{2,ν} with ν the distribution of the pairs in the data set. [K]"""
    pairs = Counter((state, action) for state, action, _ in samples)
    gaps = mdp.bellman(target) - q
    return np.sum([count * gaps[:, s, a] ** 2 for (s, a), count in pairs.items()], axis=0) / len(samples)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(1, 3), st.integers(2, 5))
def test_theorem_the_lowest_empirical_loss_has_the_lowest_true_error(
    seed: int, states: int, actions: int, members: int
) -> None:
    """Data for which the empirical operator is unbiased for each pair: next states in their exact proportions."""
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(8, np.ones(states) / states, size=(states, actions))  # [S, A, S] of eight samples a pair
    mdp = FiniteMDP(counts / 8, rng.normal(size=(states, actions)), gamma=0.9)
    repeats = rng.integers(0, 3, size=(states, actions))  # ν is not uniform, and some pairs are missing
    repeats[0, 0] = 1
    samples = [(s, a, z) for s, a, z in np.ndindex(*counts.shape) for _ in range(int(counts[s, a, z] * repeats[s, a]))]
    target, q = rng.normal(size=(states, actions)), rng.normal(size=(members, states, actions))
    losses, errors = empirical_losses(mdp, samples, target, q), true_errors(mdp, samples, target, q)
    assert losses.argmin() == errors.argmin()
    constant = losses - len(samples) * errors
    np.testing.assert_allclose(constant, constant[0], atol=1e-8)


def test_counterexample_with_one_sample_of_a_stochastic_transition() -> None:
    """One pair leads to 0 or 10 with equal probability: one sample is biased, and the worse member looks best."""
    mdp = FiniteMDP(
        transition=np.array([[[0.0, 0.5, 0.5]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]]),
        reward=np.zeros((3, 1)),
        gamma=1.0,
    )
    target = np.array([[0.0], [0.0], [10.0]])
    q = np.stack([target, target])
    q[:, 0, 0] = 5.0, 9.0  # the true expectation is 5
    one = [(0, 0, 2)]
    np.testing.assert_allclose(true_errors(mdp, one, target, q), [0.0, 16.0])
    np.testing.assert_allclose(empirical_losses(mdp, one, target, q), [25.0, 1.0])
    both = [(0, 0, 1), (0, 0, 2)]
    np.testing.assert_allclose(empirical_losses(mdp, both, target, q), [50.0, 82.0])


def test_a_terminating_transition_has_no_future() -> None:
    table = {0: {0: [(0.25, 1, 4.0, False), (0.75, 1, 8.0, True)]}, 1: {0: [(1.0, 1, 1.0, False)]}}
    mdp = from_toy_text(table, gamma=0.5)
    np.testing.assert_allclose(mdp.transition[0, 0], [0.0, 0.25, 0.75])
    # V(1) = 1 / (1 - 0.5) = 2; Q(0) = 0.25 * 4 + 0.75 * 8 + 0.5 * 0.25 * 2.
    np.testing.assert_allclose(optimal_q(mdp).ravel(), [7.25, 2.0, 0.0], atol=1e-11)


def test_value_iteration_with_tables_worked_by_hand() -> None:
    """Identity features and learning rate S·A = 4 take the Bellman target in one step; rate 2 goes half way."""
    members = [Member(np.eye(4), 2.0), Member(np.eye(4), 4.0)]
    found = adaptive_value_iteration(TWO_STATES, members, 2, 1, np.random.default_rng(0))
    np.testing.assert_allclose(found.target[1], [[0, 0], [1, 0]])
    np.testing.assert_allclose(found.target[2], [[0, 0.5], [1.5, 0]])
    assert found.target_member.tolist() == [1, 1]
    np.testing.assert_allclose(found.error, [0.0, 0.0])
    # Greedy in Q_1: 0 and 0 (ties to the first action), as in the policy above; in Q_2: move, then stay, which is best.
    np.testing.assert_allclose(found.performance_loss, [0.25, 0.0], atol=1e-11)
    fixed = adaptive_value_iteration(TWO_STATES, members, 1, 1, np.random.default_rng(0), rule=0)
    np.testing.assert_allclose(fixed.error, [0.0625])  # one of four pairs is off by a half


def test_selection_has_the_smallest_error_in_each_iteration() -> None:
    rng = np.random.default_rng(3)
    mdp = random_mdp(states=8, actions=2, gamma=0.9, rng=rng)
    members = [Member(rng.normal(size=(16, width)), 0.3) for width in (4, 8, 12)]
    runs = {rule: adaptive_value_iteration(mdp, members, 30, 20, rng, rule=rule) for rule in ("lowest", "highest")}
    assert runs["lowest"].error.sum() < runs["highest"].error.sum()


@pytest.mark.parametrize(
    ("rule", "message"), [("best", "unknown rule 'best'; choose one of lowest"), (2, "0 to 1, but got 2")]
)
def test_rules_that_do_not_exist(rule, message: str) -> None:
    with pytest.raises(UserError, match=message):
        adaptive_q_learning(TWO_STATES, STEP_SIZES[:2], 1, np.random.default_rng(0), rule=rule)


def test_initial_tables_of_another_shape() -> None:
    with pytest.raises(UserError, match=r"initial_q must have shape \(1, 2, 2\) \[K, S, A\], but got \(2, 2\)"):
        adaptive_q_learning(TWO_STATES, STEP_SIZES[:1], 1, np.random.default_rng(0), initial_q=np.zeros((2, 2)))
