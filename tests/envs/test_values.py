"""Values from environments are converted without loss or rejected: none is silently changed by a cast."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from adaqn.base.errors import EnvironmentFault, UserError
from adaqn.envs.environments import Environments
from adaqn.envs.making import close
from adaqn.envs.values import Unusable, observation_of, require_finite, reward_of, truth_of

BYTES, FLOATS = np.dtype(np.uint8), np.dtype(np.float32)


@pytest.mark.parametrize(
    "given", [1, 1.0, True, np.float32(1.0), np.int8(1), np.array(1.0), np.array([1.0]), np.bool_(1)]
)
def test_a_reward_may_be_any_kind_of_number(given: Any) -> None:
    assert reward_of(given) == 1.0 and type(reward_of(given)) is float


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("1.5", "the reward '1.5', where a number is expected"),
        (b"1", "the reward b'1', where a number"),
        (None, "the reward None, where a number"),
        (np.timedelta64(5, "s"), "timedelta64.*where a number"),
        (np.datetime64("2024-01-01"), "datetime64.*where a number"),
        (np.array([1.0, 2.0]), "where a number"),
        (10**400, "a reward too large for a float, where a number is expected"),
        (1e39, r"the reward 1e\+39, where a finite one"),
        (float("nan"), "the reward nan, where a finite one"),
    ],
)
def test_a_reward_that_is_none(given: Any, told: str) -> None:
    with pytest.raises(Unusable, match=told):
        reward_of(given)


def test_an_end_is_one_truth_value() -> None:
    assert [truth_of("terminated", given) for given in (True, np.bool_(True), np.array([True]), 1)] == [True] * 4
    assert [truth_of("terminated", given) for given in (False, np.array(False), 0)] == [False] * 3
    for given in (np.array([True, False]), "False", None, []):
        with pytest.raises(Unusable, match="for terminated, where True or False is expected"):
            truth_of("terminated", given)


@pytest.mark.parametrize("value", [0.5, 300, -1, np.nan, np.inf, 255.5, 1e30])
def test_an_image_of_bytes_is_never_rounded_or_wrapped(value: float) -> None:
    image = np.zeros((2, 2, 1))
    image[1, 0, 0] = value
    with pytest.raises(Unusable, match=r"at flat index 2, where whole numbers from 0 to 255 are expected"):
        observation_of(image, BYTES)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint16, np.float16])
def test_whole_numbers_of_another_dtype_become_bytes(dtype: Any) -> None:
    image = np.array([[[0], [7]], [[200], [255]]], dtype)
    taken = observation_of(image, BYTES)
    assert taken.dtype == np.uint8 and taken.ravel().tolist() == [0, 7, 200, 255]


def test_vectors_of_numbers_become_floats_and_others_are_refused() -> None:
    for given in ([1, 2], (True, False), np.arange(2), np.zeros(2, np.float64)):
        assert observation_of(given, FLOATS).dtype == np.float32
    for given in (["1", "2"], np.array(["2024-01-01"], "M8[D]"), np.zeros(2, complex), np.array([1, 2], object)):
        with pytest.raises(Unusable, match=r"an observation of dtype .*, where numbers are expected"):
            observation_of(given, FLOATS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        beyond = observation_of(np.array([0.0, 1e300]), FLOATS)
    with pytest.raises(Unusable, match="an observation with inf at flat index 1, where finite numbers are expected"):
        require_finite(beyond)


class Camera(gymnasium.Env[Any, Any]):
    """Shows images of bytes as floats, with 0.5 in the third step, and cannot be closed."""

    observation_space = spaces.Box(0, 255, (4, 4, 1), np.uint8)
    action_space = spaces.Discrete(2)
    count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return np.full((4, 4, 1), 17.0), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return np.full((4, 4, 1), 0.5 if self.count == 3 else 200.0), 1.0, False, False, {}

    def close(self) -> None:
        raise RuntimeError("it jams")


def test_a_float_image_is_stored_as_bytes_until_it_is_none() -> None:
    environments, rng = Environments([Camera()], owned=True), np.random.default_rng(0)
    environments.reset(rng)
    assert environments.observations.dtype == np.uint8 and environments.observations.max() == 17
    for _ in range(2):
        assert environments.step(np.zeros(1, np.int64), rng).next_observation.min() == 200
    with pytest.raises(
        EnvironmentFault, match=r"Camera returned an observation with 0\.5 at flat index 0 in step 3 of"
    ):
        environments.step(np.zeros(1, np.int64), rng)


def test_a_close_that_raises_is_a_warning() -> None:
    with pytest.warns(RuntimeWarning, match=r"environment Camera raised RuntimeError\('it jams'\) when it was closed"):
        close(Camera())
    with pytest.warns(RuntimeWarning, match="it jams"):
        Environments([Camera()], owned=True).close()


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_an_empty_space_is_refused(shape: tuple[int, ...]) -> None:
    env = Camera()
    env.observation_space = spaces.Box(-1.0, 1.0, shape)
    with pytest.raises(UserError, match="observations must have at least one element, but their shape is"):
        Environments([env], owned=False)
