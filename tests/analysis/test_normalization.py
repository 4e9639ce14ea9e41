"""Scores on one scale, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from adaqn.analysis.scores import ATARI, atari_game, human_reference, study_reference
from adaqn.envs.suites.atari import NAMES


@pytest.mark.parametrize(
    "name", ["Atari/BattleZone", "Atari-BattleZone", "ALE/BattleZone-v5", "BattleZoneNoFrameskip-v4"]
)
def test_atari_scores_are_human_normalized_however_the_game_is_named(name: str) -> None:
    reference = human_reference(name)
    assert reference is not None
    # BattleZone: random 2360, human 37187.5.
    np.testing.assert_allclose(reference.normalize(np.array([2360.0, 37187.5, 19773.75])), [0.0, 1.0, 0.5])


def test_other_environments_have_no_human_scores() -> None:
    assert [human_reference(name) for name in ("CartPole-v1", "MinAtar/Breakout", "LunarLander-v3")] == [None] * 3


def test_the_table_has_the_57_games() -> None:
    assert len(ATARI) == 57
    ours = {atari_game(name) for name in NAMES} - {None}
    assert len(ours) >= 50  # and they are spelt as ours are
    assert all(low < high for low, high in ATARI.values())


def test_the_reference_within_a_study() -> None:
    # First epochs: 0, 2, 4, 6, mean 3. IQMs of the arms: (1, 8), (5, 7): the highest is 8.
    arms = [np.array([[0.0, 7.0], [2.0, 9.0]]), np.array([[4.0, 6.0], [6.0, 8.0]])]
    reference = study_reference(arms)
    assert reference == (3.0, 8.0)
    assert reference.normalize(np.array([5.5])).tolist() == [0.5]


def test_a_study_in_which_nothing_changes_is_not_divided_by_zero() -> None:
    assert study_reference([np.full((2, 3), 4.0)]).normalize(np.array([4.0])).tolist() == [0.0]
