"""Random search draws uniformly, regardless of earlier results."""

from __future__ import annotations

import numpy as np
import pytest

from adaqn.base.errors import UserError
from adaqn.members.search.random_search import RandomSearch


def test_vectors_are_uniform_and_independent() -> None:
    search = RandomSearch(dimensions=3, fidelity=100)
    rng = np.random.default_rng(0)
    state, vectors = search.init(), []
    for _ in range(3000):
        state, trial = search.ask(state, rng)
        state = search.tell(state, trial, float(trial.u.sum()))
        vectors.append(trial.u)
    drawn = np.array(vectors)
    # Kolmogorov-Smirnov: the distance stays below 1.63 / √n with probability 0.99.
    for column in drawn.T:
        distance = np.abs(np.sort(column) - (np.arange(3000) + 0.5) / 3000).max()
        assert distance < 1.63 / np.sqrt(3000)
    correlation = np.corrcoef(np.concatenate([drawn[1:], drawn[:-1]], axis=1).T)
    assert np.abs(correlation - np.eye(6)).max() < 4.0 / np.sqrt(3000)


def test_trials_are_numbered_and_all_of_one_fidelity() -> None:
    search = RandomSearch(dimensions=2, fidelity=100)
    rng = np.random.default_rng(0)
    state = search.init()
    for number in range(4):
        state, trial = search.ask(state, rng)
        state = search.tell(state, trial, float("nan"))
        assert (trial.number, trial.fidelity, trial.origin) == (number, 100, "random")


def test_fitness_does_not_change_the_next_trial() -> None:
    search = RandomSearch(dimensions=2, fidelity=1)
    followers = []
    for fitness in (0.0, float("inf")):
        rng = np.random.default_rng(3)
        state, trial = search.ask(search.init(), rng)
        followers.append(search.ask(search.tell(state, trial, fitness), rng)[1].u.tolist())
    assert followers[0] == followers[1]


@pytest.mark.parametrize(("dimensions", "fidelity"), [(0, 10), (2, 0)])
def test_nothing_to_search_or_no_steps(dimensions: int, fidelity: int) -> None:
    with pytest.raises(UserError, match="at least 1, but got 0"):
        RandomSearch(dimensions, fidelity)
