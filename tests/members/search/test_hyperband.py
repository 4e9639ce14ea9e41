"""The bracket table against the published one, and against its definition."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaqn.base.errors import UserError
from adaqn.members.search.dehb import Rung, brackets, describe, fidelities, largest_rungs


def test_the_table_of_the_hyperband_paper() -> None:
    assert brackets(1, 81, 3) == (
        ((81, 1), (27, 3), (9, 9), (3, 27), (1, 81)),
        ((34, 3), (11, 9), (3, 27), (1, 81)),
        ((15, 9), (5, 27), (1, 81)),
        ((8, 27), (2, 81)),
        ((5, 81),),
    )


def test_a_table_with_a_lowest_fidelity_and_rounding() -> None:
    # 20 · 3 ≤ 100 < 20 · 9, so s_max = 1; ⌈2 · 3 / 2⌉ = 3 and ⌈2 · 1 / 1⌉ = 2; 100 / 3 is rounded down.
    assert brackets(20, 100, 3) == (((3, 33), (1, 100)), ((2, 100),))
    # s_max = 2 with η = 2: ⌈3 · 4 / 3⌉ = 4, ⌈3 · 2 / 2⌉ = 3, ⌈3 · 1 / 1⌉ = 3.
    assert brackets(5, 20, 2) == (((4, 5), (2, 10), (1, 20)), ((3, 10), (1, 20)), ((3, 20),))


def test_less_than_eta_apart_leaves_a_single_rung() -> None:
    assert brackets(20_000_000, 40_000_000, 3) == ((Rung(1, 40_000_000),),)
    assert brackets(7, 7, 3) == (((1, 7),),)
    assert len(brackets(20_000_000, 40_000_000, 2)) == 2


@pytest.mark.parametrize("power", range(1, 12))
def test_exact_powers_lose_no_rung(power: int) -> None:
    assert fidelities(brackets(1, 3**power, 3)) == tuple(3**i for i in range(power + 1))


def test_subpopulations_are_as_large_as_the_largest_rung() -> None:
    assert largest_rungs(brackets(1, 81, 3)) == (81, 34, 15, 8, 5)
    assert largest_rungs(brackets(5, 20, 2)) == (4, 3, 3)


@given(low=st.integers(1, 1000), ratio=st.floats(1, 500), eta=st.integers(2, 5))
def test_every_table_is_successive_halving_between_the_two_fidelities(low: int, ratio: float, eta: int) -> None:
    high = int(low * ratio)
    table = brackets(low, high, eta)
    levels = fidelities(table)
    assert low <= levels[0] < low * eta
    assert levels[-1] == high
    assert list(levels) == sorted(set(levels))
    for number, bracket in enumerate(table):
        assert tuple(rung.fidelity for rung in bracket) == levels[number:]
        for below, above in itertools.pairwise(bracket):
            assert above.configurations == below.configurations // eta >= 1


def test_the_description_of_a_round() -> None:
    lines = describe(1, 81, 3)
    assert lines[0] == "A round of 5 brackets (eta = 3) has 206 trials and takes 1,902 steps:"
    assert lines[2] == "  bracket 1: 34 x 3, 11 x 9, 3 x 27, 1 x 81 steps"
    assert len(lines) == 6


def test_the_description_says_that_there_is_a_single_rung() -> None:
    (line,) = describe(20_000_000, 40_000_000, 3)
    assert line.startswith("A single rung: 40,000,000 steps are less than eta = 3 times 20,000,000")


@pytest.mark.parametrize(
    ("low", "high", "eta", "message"),
    [
        (0, 10, 3, "min_fidelity must be a whole number of at least 1"),
        (10, 9, 3, "max_fidelity must be at least min_fidelity, which is 10, but got 9"),
        (1, 10, 1, "eta must be a whole number of at least 2"),
        (1, 10, 2.5, "eta must be a whole number of at least 2"),
    ],
)
def test_fidelities_that_make_no_table(low: int, high: int, eta: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        brackets(low, high, eta)
