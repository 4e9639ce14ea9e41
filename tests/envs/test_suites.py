"""What every suite keeps to: names that lead to its file, and environments that say what they show."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from gymnasium import spaces

from adaqn.envs import suites
from adaqn.envs.environments import Environments


def test_suites_are_the_files() -> None:
    assert {"atari", "minatar"} <= set(suites.suites())
    assert {"Atari/BattleZone", "MinAtar/Asterix"} <= set(suites.names())


@pytest.mark.parametrize("suite", suites.suites())
def test_each_name_leads_to_its_file_and_is_the_id_of_what_is_made(suite: str) -> None:
    module = importlib.import_module(f"adaqn.envs.suites.{suite}")
    assert len(set(module.NAMES)) == len(module.NAMES) > 0
    for name in module.NAMES:
        assert name.partition("/")[0].lower() == suite
        spec = suites.find_spec(name)
        assert spec is not None
        assert spec.id == name
        assert spec.max_episode_steps is not None


@pytest.mark.parametrize("suite", suites.suites())
def test_observations_are_images_of_bytes_which_stacks_make_up_as_stated(suite: str) -> None:
    name = importlib.import_module(f"adaqn.envs.suites.{suite}").NAMES[0]
    environments, rng = Environments.make(name, 1, {}), np.random.default_rng(0)
    assert environments.name == name
    assert isinstance(environments.action_space, spaces.Discrete)
    assert (environments.observation_space.dtype, len(environments.observation_space.shape)) == (np.uint8, 3)
    environments.reset(rng)
    shape = environments.observation_space.shape
    channels = shape[-1] // environments.frame_stack
    assert not environments.observations[..., :-channels].any() or environments.frame_stack == 1
    for _ in range(10):
        row = environments.step(np.zeros(1, np.int64), rng)
        if environments.frame_stack > 1:
            np.testing.assert_array_equal(row.next_observation[..., :-channels], row.observation[..., channels:])
    environments.close()


@pytest.mark.parametrize("other", ["CartPole-v1", "Probe/Truncation-v0", "Nowhere/Walker-v5", "ale_py:ALE/Pong-v5"])
def test_other_ids_are_gymnasiums_business(other: str) -> None:
    assert suites.find_spec(other) is None
