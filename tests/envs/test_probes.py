"""The tables of the probes, against hand-worked values and against their episodes."""

from __future__ import annotations

import itertools
from collections import defaultdict

import gymnasium
import numpy as np
import pytest

from adaqn.envs.probes import PROBES, Probe

GAMMA = 0.9
HAND_WORKED = {
    "ConstantReward": [[1.0]],
    "DelayedReward": [[0.9, 0.9], [1.0, 1.0]],
    "ActionMatters": [[-1.0, 1.0]],
    "ObservationMatters": [[-1.0, -1.0], [1.0, 1.0]],
    "Truncation": [[10.0, 10.0]],
    "Termination": [[1.0, 1.0]],
}
ALL = [(probe.__name__, continuous) for probe in PROBES for continuous in (False, True)]


def made(name: str, continuous: bool) -> Probe:
    env = gymnasium.make(f"Probe/{name}-v0", continuous=continuous).unwrapped
    assert isinstance(env, Probe)
    return env


@pytest.mark.parametrize(("name", "q"), HAND_WORKED.items())
def test_tables_are_the_hand_worked_ones(name: str, q: list[list[float]]) -> None:
    np.testing.assert_allclose(made(name, continuous=False).probe_table(GAMMA)[1], q, rtol=1e-12)


def test_continuous_actions_are_best_at_one_half() -> None:
    probe = made("ActionMatters", continuous=True)
    _, q = probe.probe_table(GAMMA)
    assert q[0].tolist() == [-2.25, -1.5625, -1.0, -0.5625, -0.25, -0.0625, 0.0, -0.0625, -0.25]
    assert probe.probe_actions[6].tolist() == [0.5]


@pytest.mark.parametrize(("name", "continuous"), ALL)
def test_tables_solve_the_bellman_equation_of_the_episodes(name: str, continuous: bool) -> None:
    probe = made(name, continuous)
    observations, q = probe.probe_table(GAMMA)
    outcomes = defaultdict(set)  # (observation, action) -> {(reward, next observation, terminated)}
    actions = range(len(probe.probe_actions))
    # Five steps of nine actions are too many to try all: there, each action keeps being repeated.
    plans = itertools.product(actions, repeat=probe.steps) if probe.steps < 3 else ((a,) * 5 for a in actions)
    for plan in plans:
        for seed in range(8):
            observation, _ = probe.reset(seed=seed)
            for step, action in enumerate(plan):
                following, reward, terminated, truncated, _ = probe.step(probe.probe_actions[action])
                assert (terminated or truncated) == (step == probe.steps - 1)
                outcomes[observation[0], action].add((reward, following[0], terminated))
                observation = following
    rows = {float(observation[0]): row for row, observation in enumerate(observations)}
    assert {(row, action) for row in rows for action in actions} == set(outcomes)
    values = np.zeros_like(q)
    for _ in range(300):
        best = values.max(axis=1)
        for (observation, action), seen in outcomes.items():
            targets = [r + GAMMA * (not terminated) * best[rows[following]] for r, following, terminated in seen]
            assert len(set(targets)) == 1  # randomness does not affect the value
            values[rows[observation], action] = targets[0]
    np.testing.assert_allclose(values, q, rtol=1e-10, atol=1e-12)


def test_only_truncation_is_truncated() -> None:
    for name, _ in ALL:
        probe = made(name, continuous=False)
        probe.reset(seed=0)
        ends = [probe.step(0)[2:4] for _ in range(probe.steps)]
        assert ends[-1] == ((False, True) if name == "Truncation" else (True, False))
    assert made("Truncation", continuous=False).steps == 5
