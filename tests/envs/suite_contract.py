"""The contract of every environment suite, built in or from another package."""

from __future__ import annotations

from types import ModuleType

import numpy as np
from gymnasium import spaces

from adaqn.envs import suites
from adaqn.envs.environments import Environments

STEPS = 30


def check_names(suite: str, module: ModuleType) -> None:
    """Each name leads to its suite, and is the id of what is made."""
    assert len(set(module.NAMES)) == len(module.NAMES) > 0
    assert set(module.NAMES) <= set(suites.names())
    for name in module.NAMES:
        assert name.partition("/")[0].lower() == suite.lower()
        spec = suites.find_spec(name)
        assert spec is not None
        assert spec.id == name
        assert spec.max_episode_steps is not None


def check_environment(name: str) -> None:
    """Episodes are reproducible from their seeds, and observations are as declared."""
    first, second = recorded(name), recorded(name)
    np.testing.assert_array_equal(first, second, strict=True)
    assert len(np.unique(first, axis=0)) > 1, "something is seen to happen"


def recorded(name: str) -> np.ndarray:
    """Play with random actions; returns all observations. [STEPS + 1, ...]"""
    environments, rng = Environments.make(name, 1, {}), np.random.default_rng(0)
    assert environments.name == name
    space, stack = environments.observation_space, environments.frame_stack
    environments.reset(rng)
    rows = [environments.observations[0]]
    new = 0 if stack == 1 else space.shape[-1] // stack  # channels of one image
    if stack > 1:
        assert space.shape[-1] % stack == 0
        assert not rows[0][..., :-new].any()
    for _ in range(STEPS):
        step = environments.step(random_actions(environments.action_space, rng), rng)
        assert np.isfinite(step.reward).all()
        if stack > 1:
            np.testing.assert_array_equal(step.next_observation[..., :-new], step.observation[..., new:])
        rows.append(step.next_observation[0])
    assert all(space.contains(np.asarray(row, space.dtype)) for row in rows)
    environments.close()
    return np.stack(rows)


def random_actions(space: spaces.Discrete | spaces.Box, rng: np.random.Generator) -> np.ndarray:
    """Actions as agents choose them: 0..n-1, or within [-1, 1]. [1] or [1, A]"""
    if isinstance(space, spaces.Discrete):
        return rng.integers(int(space.n), size=1)
    return rng.uniform(-1.0, 1.0, (1, *space.shape)).astype(np.float32)
