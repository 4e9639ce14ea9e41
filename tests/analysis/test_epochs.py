"""Returns averaged per epoch, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from adaqn.analysis import returns_per_epoch, usual_epoch


def test_episodes_count_for_the_epoch_in_which_they_end() -> None:
    # The last step of an epoch belongs to it: steps count from 1.
    steps, returns = [3, 10, 11, 20, 25], [1.0, 3.0, 5.0, 7.0, 9.0]
    assert returns_per_epoch(steps, returns, epoch=10, epochs=3).tolist() == [2.0, 6.0, 9.0]


def test_an_epoch_without_an_episode_has_the_last_value() -> None:
    assert returns_per_epoch([5, 45], [1.0, 2.0], epoch=10, epochs=6).tolist() == [1.0, 1.0, 1.0, 1.0, 2.0, 2.0]


def test_before_the_first_episode_its_own_return_counts() -> None:
    assert returns_per_epoch([25, 28, 31], [4.0, 6.0, 1.0], epoch=10, epochs=4).tolist() == [5.0, 5.0, 5.0, 1.0]


def test_what_lies_behind_the_last_epoch_is_left_out() -> None:
    assert returns_per_epoch([5, 25], [1.0, 100.0], epoch=10, epochs=2).tolist() == [1.0, 1.0]
    assert returns_per_epoch([25, 29], [100.0, 7.0], epoch=10, epochs=2).tolist() == [100.0, 100.0]
    assert np.isnan(returns_per_epoch([], [], epoch=10, epochs=2)).all()


@pytest.mark.parametrize(
    ("steps", "environment", "epoch"),
    [
        (200_000, "LunarLander-v3", 10_000),
        (500_000, "LunarLander-v3", 10_000),
        (50_000, "LunarLander-v3", 2_000),
        (10_000_000, "Atari/Pong", 250_000),
        (100_000, "Atari/Pong", 5_000),
        (1_000_000, "Hopper-v5", 50_000),
        (39_999, "CartPole-v1", 1_000),
        (5, "CartPole-v1", 1),
    ],
)
def test_the_usual_epoch(steps: int, environment: str, epoch: int) -> None:
    assert usual_epoch(steps, environment) == epoch
