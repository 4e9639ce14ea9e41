"""Memory needs of learning, against numbers worked out by hand."""

from __future__ import annotations

import pytest

from adaqn.agents.base import batch_need, networks_need
from adaqn.members.hyperparameters import Convolution, Hyperparameters
from adaqn.networks.ensemble import Ensemble

IMAGE = (8, 8, 2)
SEEING = Hyperparameters(convolutions=(Convolution(3, 3, 2),), hidden=(5,))


def ensemble(*members: Hyperparameters, shape: tuple[int, ...] = (4,), outputs: int = 2) -> Ensemble:
    return Ensemble.of(members, shape, outputs)


def hidden(*widths: int) -> Hyperparameters:
    return Hyperparameters(hidden=widths)


BINS = hidden(9).replace(head="categorical", bins=20, value_range=(-1, 1))


def test_parameters_are_held_four_times() -> None:
    need = networks_need(ensemble(hidden(8), hidden(3, 5)))
    parameters = (4 * 8 + 8 + 8 * 2 + 2) + (4 * 3 + 3 + 3 * 5 + 5 + 5 * 2 + 2)
    assert need.size == 4 * 4 * parameters
    assert need.what == "the parameters of 2 members (a layer has 4 x 8 weights)"


@pytest.mark.parametrize(
    ("members", "shape", "outputs", "layer", "remedy"),
    [
        ([hidden(9, 9)], (4,), 2, "9 x 9", "take smaller hidden layers"),
        ([hidden(9, 9), hidden(9, 9)], (4,), 2, "9 x 9", "take smaller hidden layers or fewer members"),
        ([hidden(9, 3), hidden(2)], (4,), 2, "4 x 9", "take smaller hidden layers or fewer members"),
        ([hidden(9)], (4,), 50, "9 x 50", "take an environment with fewer actions than 50"),
        ([hidden()], (4,), 50, "4 x 50", "take an environment with fewer actions than 50"),
        ([BINS], (4,), 2, "9 x 40", "take fewer bins than 20"),
        ([hidden(9)], (5, 20), 2, "100 x 9", "take smaller observations than (5, 20), smaller hidden layers"),
        ([SEEING], IMAGE, 2, "48 x 5", "take smaller convolutions"),  # 4 x 4 x 3 are flattened
        ([SEEING.replace(hidden=(60,))], IMAGE, 2, "48 x 60", "take smaller hidden layers"),
        ([SEEING.replace(hidden=())], IMAGE, 1, "18 x 3", "take smaller convolutions"),  # 3 x 3 x 2 for a channel
    ],
)
def test_the_largest_layer_says_what_to_do(
    members: list[Hyperparameters], shape: tuple[int, ...], outputs: int, layer: str, remedy: str
) -> None:
    need = networks_need(ensemble(*members, shape=shape, outputs=outputs))
    assert f"(a layer has {layer} weights)" in need.what
    assert need.remedy == remedy


def test_a_batch_is_observations_returns_and_the_units_of_the_widest_network() -> None:
    networks = ensemble(hidden(8), hidden(3, 6)).networks
    need = batch_need(networks, batch_size=10, n_steps=1)
    assert need.size == 10 * (2 * 4 * 4 + 13 + 4 * (3 + 6 + 2))
    assert (need.what, need.remedy) == ("a batch of 10 transitions", "lower batch_size")
    longer = batch_need(networks, batch_size=10, n_steps=100)
    assert longer.size - need.size == 10 * 99 * 13
    assert (longer.what, longer.remedy) == ("a batch of 10 transitions over 100 steps", "lower n_steps")


def test_a_batch_of_images_counts_bytes_and_what_convolutions_make_of_them() -> None:
    need = batch_need(ensemble(SEEING, shape=IMAGE).networks, batch_size=7, n_steps=1)
    assert need.size == 7 * (2 * 8 * 8 * 2 + 13 + 4 * (4 * 4 * 3 + 5 + 2))
