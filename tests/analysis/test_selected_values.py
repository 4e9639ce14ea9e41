"""Which values of the hyperparameters were selected in a space: hand-worked shares of synthetic runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from adaqn.analysis.selections import _classes, has_evolution, value_distributions
from adaqn.analysis.study import read_results
from tests.analysis.study_files import write_run


def test_the_values_of_the_target_members_are_counted_in_each_stretch_of_steps(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path, "adadqn", "E", seed, [1.0, 2.0], space="vectors", generations=2)
    (arm,) = read_results(tmp_path, epoch=100).arms
    assert has_evolution(arm)
    found = value_distributions(arm.on("E"), bins=2)
    # Targets at steps 50, 100, 150, 200: members 1, 2, 0, 1 of seed 0, and 2, 0, 1, 2 of seed 1.
    assert set(found) == {"learning rate", "MLP neurons"}
    edges, values, shares = found["MLP neurons"]
    assert edges.tolist() == [0.0, 100.0, 200.0] and values == ("16", "64", "128")
    np.testing.assert_allclose(shares, [[0.25, 0.25, 0.5], [0.25, 0.5, 0.25]])
    # The second generation, with other learning rates, is there at step 100, before the target is chosen.
    _, values, shares = found["learning rate"]
    assert values == ("8e-4", "1.6e-3", "2e-3", "2.4e-3", "3e-3")  # 1e-3 was never selected
    np.testing.assert_allclose(shares[0], [0.25, 0.0, 0.25, 0.25, 0.25])
    np.testing.assert_allclose(shares[1], [0.25, 0.5, 0.0, 0.25, 0.0], atol=1e-12)


def test_members_that_stay_are_no_evolution(tmp_path: Path) -> None:
    write_run(tmp_path, "adadqn", "E", 0, [1.0, 2.0])
    (arm,) = read_results(tmp_path, epoch=100).arms
    assert not has_evolution(arm)


def test_many_numbers_share_ranges() -> None:
    names, class_of = _classes("learning rate", [*np.geomspace(1e-6, 1.0, 20), 1e-6])
    assert names[0] == "1e-6 to 1e-5" and names[-1] == "0.1 to 1" and len(names) == 6
    assert [class_of(value) for value in (1e-6, 5e-6, 2e-5, 0.5, 1.0)] == [0, 0, 1, 5, 5]
    names, class_of = _classes("discount", [0.9, float("nan"), 0.99])
    assert names == ("0.9", "0.99", "default") and [class_of(v) for v in (0.99, float("nan"))] == [1, 2]
