"""Which spaces are accepted, and the error messages for those that are not."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from adaqn.base.errors import UserError
from adaqn.envs.spaces import (
    observation_dtype,
    observation_scale,
    require_box_actions,
    require_box_observations,
    require_discrete_actions,
    require_observations,
)

BOX = spaces.Box(-1.0, 1.0, (2,))


def test_fitting_spaces_are_returned() -> None:
    actions = spaces.Discrete(3)
    assert require_box_observations(BOX) is BOX
    assert require_box_actions(BOX) is BOX
    assert require_discrete_actions(actions) is actions


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (spaces.Dict({"a": BOX}), "Dict"),
        (spaces.Tuple([BOX]), "Tuple"),
        (spaces.Discrete(4), "Discrete"),
        (spaces.MultiBinary(4), "MultiBinary"),
    ],
)
def test_other_observations_are_named(space: spaces.Space, kind: str) -> None:
    with pytest.raises(UserError, match=f"must be a Box, but it is a {kind}; wrappers=.*--wrappers "):
        require_box_observations(space)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (84, 84, 4)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_vectors_and_images_can_be_observed(shape: tuple[int, ...], dtype: type) -> None:
    space = spaces.Box(0, 1, shape, dtype)
    assert require_observations(space) is space


def test_more_than_images_and_other_kinds_cannot_be_observed() -> None:
    with pytest.raises(UserError, match=r"\(height, width, channels\), but their shape is \(2, 8, 8, 3\)$"):
        require_observations(spaces.Box(0, 255, (2, 8, 8, 3), np.uint8))
    with pytest.raises(UserError, match="must be a Box, but it is a Discrete"):
        require_observations(spaces.Discrete(3))


def test_actions_of_the_other_kind_are_named() -> None:
    with pytest.raises(UserError, match=r"must be Discrete, but it is a Box; for Box actions use AdaSAC or AdaTD3 "):
        require_discrete_actions(BOX)
    with pytest.raises(UserError, match=r"must be a Box, but it is a Discrete; for Discrete actions use AdaDQN "):
        require_box_actions(spaces.Discrete(2))
    with pytest.raises(UserError, match=r"must be a Box, but it is a MultiDiscrete$"):
        require_box_actions(spaces.MultiDiscrete([2, 2]))


def test_box_actions_must_be_finite_vectors_of_floats() -> None:
    with pytest.raises(UserError, match=r"finite limits, but they are \[-inf\] and \[1\.\]"):
        require_box_actions(spaces.Box(-np.inf, 1.0, (1,)))
    with pytest.raises(UserError, match=r"one dimension, but its shape is \(2, 3\)"):
        require_box_actions(spaces.Box(-1.0, 1.0, (2, 3)))
    with pytest.raises(UserError, match="its dtype int32"):
        require_box_actions(spaces.Box(0, 5, (2,), np.int32))


def test_only_images_stay_bytes() -> None:
    assert observation_dtype(spaces.Box(0, 255, (8, 8, 1), np.uint8)) == np.uint8
    assert observation_dtype(spaces.Box(0, 255, (128,), np.uint8)) == np.float32
    assert observation_dtype(spaces.Box(0.0, 1.0, (8, 8, 1), np.float64)) == np.float32


@pytest.mark.parametrize(
    ("high", "given", "scale"), [(255, None, 1 / 255), (10, None, 0.1), (1, None, 1.0), (255, 0.1, 0.1)]
)
def test_byte_images_are_scaled_by_the_highest_value_of_their_space(
    high: int, given: float | None, scale: float
) -> None:
    assert observation_scale(spaces.Box(0, high, (7, 7, 3), np.uint8), given) == scale


def test_a_scale_of_images_has_no_effect_on_other_observations() -> None:
    for box in (spaces.Box(0, 255, (7,), np.uint8), spaces.Box(0.0, 9.0, (7, 7, 3))):
        assert observation_scale(box) == 1.0
        with pytest.raises(UserError, match=r"image_scale=0.1 has an effect only on byte images, but the observations"):
            observation_scale(box, 0.1)
