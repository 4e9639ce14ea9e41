"""A space with a single point, or with networks that are impossible for the observations, is rejected before a run."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from gymnasium import spaces

from adaqn import DEHB, SEARL, AdaDQN, RandomSearch
from adaqn.agents.population import Population
from adaqn.agents.registry import algorithm, algorithm_names
from adaqn.base.errors import UserError
from adaqn.cli import main
from adaqn.members.hyperparameters import Convolution, Hyperparameters
from adaqn.members.space import SearchSpace

POINT = {
    "activation": "relu", "optimizer": "adam", "loss": "l2", "learning_rate": 1e-3,
    "hidden": {"layers": 1, "neurons": 4},
}  # fmt: skip
WITH_SPACES = [name for name in algorithm_names() if algorithm(name).space != "none"]
CLASSES = [AdaDQN, SEARL, RandomSearch, DEHB]


def images_space(layers: int, kernel: int, stride: int, padding: str = "valid") -> SearchSpace:
    """A space with up to this many convolutions, kernel size and stride."""
    convolutions = {"layers": [1, layers], "channels": [1, 2], "kernel": [1, kernel], "stride": [1, stride]}
    return SearchSpace.from_dict(POINT | {"convolutions": convolutions, "fixed": {"padding": padding}})


def image_env(side: int) -> gymnasium.Env[Any, Any]:
    image = spaces.Box(0, 255, (side, side, 2), np.uint8)
    blank = np.zeros((side, side, 2), np.uint8)
    return gymnasium.wrappers.TransformObservation(gymnasium.make("CartPole-v1"), lambda _: blank, image)


def require_room(space: SearchSpace, shape: tuple[int, ...], algo: str = "adadqn", **given: Any) -> None:
    chosen = algorithm(algo)
    chosen.population(Population(space=space, **given), chosen.configure({}), 0, lambda: shape)


@pytest.mark.parametrize("algo", WITH_SPACES)
def test_a_space_of_one_point_is_refused(algo: str) -> None:
    with pytest.raises(UserError, match="has only one value for every hyperparameter, so there is nothing to search"):
        require_room(SearchSpace.from_dict(POINT), (4,), algo)
    require_room(SearchSpace.from_dict(POINT | {"loss": ["l2", "huber"]}), (4,), algo)
    assert {"adadqn", "searl", "random-search", "dehb", "adasac"} <= set(WITH_SPACES)


@pytest.mark.parametrize("algo", ["adadqn", "searl"])
def test_a_space_of_one_point_is_refused_before_there_is_a_run(
    algo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space, run_dir = tmp_path / "space.yaml", tmp_path / "run"
    space.write_text(yaml.safe_dump(POINT))
    flags = ["--algo", algo, "--env", "CartPole-v1", "--steps", "50000", "--space", str(space)]
    assert main(["train", *flags, "--run-dir", str(run_dir)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "has only one value for every hyperparameter" in line
    assert not run_dir.exists()


def fits(sides: tuple[int, ...], layers: tuple[tuple[int, int], ...]) -> bool:
    """Whether a sequence of convolutions with these kernels and strides fits an image without padding."""
    for kernel, stride in layers:
        if kernel > min(sides):
            return False
        sides = tuple((side - kernel) // stride + 1 for side in sides)
    return True


def test_without_padding_a_space_is_refused_just_where_one_of_its_networks_is_not_possible() -> None:
    refused = 0
    cases = list(itertools.product([(4, 4), (7, 5), (8, 8), (6, 11)], (1, 2, 3), (1, 2, 3), (1, 2)))
    for sides, layers, kernel, stride in cases:
        of_layer = list(itertools.product(range(1, kernel + 1), range(1, stride + 1)))
        possible = all(
            fits(sides, network)
            for depth in range(1, layers + 1)
            for network in itertools.product(of_layer, repeat=depth)
        )
        try:
            require_room(images_space(layers, kernel, stride), (*sides, 3))
        except UserError:
            assert not possible, (sides, layers, kernel, stride)
            refused += 1
        else:
            assert possible, (sides, layers, kernel, stride)
    assert 10 < refused < len(cases) - 10


@pytest.mark.parametrize("kind", CLASSES)
def test_images_that_are_too_small_are_an_error_in_every_search(kind: Any) -> None:
    # 8 x 8 become 3 x 3 and then 1 x 1, which is too small for a third kernel.
    with pytest.raises(UserError) as error:
        kind(image_env(8), space=images_space(layers=3, kernel=3, stride=2))
    assert str(error.value) == (
        "the space has convolutions that are impossible for these observations, such as 3 with the largest kernel and "
        "stride: a convolution with padding 'valid' needs an image of at least its kernel, 3 x 3, but its input is "
        "1 x 1; narrow the space, or use padding 'same'"
    )
    for space in (
        images_space(layers=2, kernel=3, stride=2),
        images_space(layers=3, kernel=3, stride=2, padding="same"),
    ):
        members = kind(image_env(8), space=space, buffer_size=100).members
        assert {member.hyperparameters.padding for member in members} == {space.fixed.padding}


def test_a_member_without_padding_hands_it_down() -> None:
    same = images_space(layers=3, kernel=3, stride=2, padding="same")
    member = Hyperparameters(hidden=(4,), loss="l2", learning_rate=1e-3, convolutions=(Convolution(2, 3, 2),))
    require_room(same, (8, 8, 2), members=(member,))
    with pytest.raises(UserError, match="narrow the space, or use padding 'same'"):
        require_room(same, (8, 8, 2), members=(member, member.replace(padding="valid")))


def test_images_that_are_too_small_are_an_error_before_a_run_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space, run_dir = tmp_path / "space.yaml", tmp_path / "run"
    space.write_text("{base: images, fixed: {padding: valid}}")
    flags = ["--env", "MinAtar/Breakout", "--steps", "50000", "--space", str(space), "--run-dir", str(run_dir)]
    assert main(["train", "--algo", "adadqn", *flags]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "needs an image of at least its kernel, 8 x 8, but its input is 1 x 1" in line
    assert not run_dir.exists()
