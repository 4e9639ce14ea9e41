"""Threads that make calls side by side, and how an update is divided among them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.execution.shares import lanes_for, mean_of_shares, shares
from adaqn.agents.execution.work import can_have, limit_of_lanes, threads_for
from adaqn.agents.population import Population
from adaqn.agents.registry import Traits, algorithm
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace
from adaqn.networks.ensemble import Ensemble
from adaqn.networks.xla.lanes import Lanes, spread
from adaqn.networks.xla.threads import Threads


def test_calls_are_made_side_by_side_and_their_results_are_in_order() -> None:
    together = threading.Barrier(3, timeout=20.0)  # passed only if all three are under way

    def call(number: int) -> tuple[int, int]:
        together.wait()
        return number, threading.get_ident()

    found = Lanes(3).run([partial(call, number) for number in range(3)])
    assert [number for number, _ in found] == [0, 1, 2]
    assert found[0][1] == threading.get_ident()
    assert len({thread for _, thread in found}) == 3


def test_fewer_calls_than_lanes_leave_the_others_idle() -> None:
    lanes = Lanes(4)
    assert lanes.run([lambda: "alone"]) == ["alone"]
    assert lanes.run([lambda: "first", lambda: "second"]) == ["first", "second"]


@pytest.mark.parametrize("faulty", [0, 1])
def test_an_error_in_a_lane_reaches_the_caller_and_leaves_nothing_behind(faulty: int) -> None:
    lanes = Lanes(2)

    def call(number: int) -> int:
        if number == faulty:
            raise ZeroDivisionError("from a lane")
        return number

    with pytest.raises(ZeroDivisionError, match="from a lane"):
        lanes.run([partial(call, 0), partial(call, 1)])
    assert lanes.run([lambda: "next", lambda: "calls"]) == ["next", "calls"]


def test_the_largest_loads_are_spread_first() -> None:
    assert spread([5, 3, 3, 2], 2) == [[0, 3], [1, 2]]
    assert spread([1, 9], 2) == [[1], [0]]
    assert spread([4], 3) == [[0], [], []]


def test_shares_of_a_batch_are_equal_and_not_too_small() -> None:
    assert shares(12, 3) == (slice(0, 4), slice(4, 8), slice(8, 12))
    assert lanes_for(256, threads=16, least=64) == 4
    assert lanes_for(32, threads=2, least=64) == 1
    assert lanes_for(32, threads=2, least=8) == 2
    assert lanes_for(32, threads=3, least=8) == 2  # three shares would not be equal
    assert lanes_for(33, threads=2, least=8) == 1


def test_a_mean_over_the_batch_counts_every_row_once() -> None:
    rows = np.array([1.0, 2.0, 6.0, 7.0], np.float32)
    found = [(jnp.asarray(rows[share].mean()), jnp.asarray(share.start > 0)) for share in shares(4, 2)]
    mean, any_is_true = mean_of_shares(found)
    assert float(mean) == pytest.approx(4.0)
    assert bool(any_is_true)


def test_threads_of_several_callers_do_not_mix_their_results() -> None:
    lanes = Lanes(2)

    def ask(caller: int) -> bool:
        return all(
            lanes.run([partial(tuple, (caller, number, 0)), partial(tuple, (caller, number, 1))])
            == [(caller, number, 0), (caller, number, 1)]
            for number in range(300)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(4)))


def test_an_interruption_leaves_no_result_for_the_next_calls() -> None:
    lanes = Lanes(2)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lanes.run([interrupt, lambda: "late"])
    assert lanes.run([lambda: "next", lambda: "calls"]) == ["next", "calls"]


def update_of(algo: str, *, in_space: int = 0, **settings: object) -> tuple[Traits, Population, Any]:
    chosen = algorithm(algo)
    member = Hyperparameters(hidden=(512, 512))
    space = SearchSpace.named("vectors") if in_space else None
    return chosen.traits, Population((member,) * max(2, in_space), space), chosen.configure(settings)


def wanted(algo: str, number: int, *, shape: tuple[int, ...] = (8,), in_space: int = 0, **settings: object) -> Threads:
    return threads_for(*update_of(algo, in_space=in_space, **settings), shape, number)


def test_threads_are_lanes_where_updates_can_be_divided() -> None:
    assert wanted("adasac", 2, batch_size=128) == Threads(1, 2)
    assert wanted("adasac", 8, batch_size=256) == Threads(4, 4)  # products of this size are computed by XLA's threads
    assert wanted("adasac", 8, batch_size=100) == Threads(8)  # too few rows for a second lane
    assert wanted("adadqn", 2, batch_size=32) == Threads(1, 2)
    assert wanted("adadqn", 2, batch_size=32, shape=(10, 10, 4)) == Threads(2, 2)
    assert wanted("adadqn", 8, in_space=5) == Threads(1, 5)
    assert wanted("metagradient", 2) == Threads(2)
    assert wanted("adasac", 1) == Threads(1)


def test_only_some_numbers_of_lanes_are_possible() -> None:
    batch, members = update_of("adadqn", batch_size=48), update_of("adadqn", in_space=5)
    assert [lanes for lanes in range(1, 9) if can_have(*batch, lanes)] == [1, 2, 3, 4, 6]
    assert limit_of_lanes(*batch) == "a batch of 48 is divided into equal shares of at least 8 rows"
    assert [lanes for lanes in range(1, 9) if can_have(*members, lanes)] == [1, 2, 3, 4, 5]
    assert limit_of_lanes(*members) == "there are 5 members"
    assert [lanes for lanes in range(1, 9) if can_have(*update_of("metagradient"), lanes)] == [1]


def test_a_group_has_members_of_one_lane() -> None:
    small, large = (Hyperparameters(hidden=(width,)).architecture for width in (4, 50))
    whole = Ensemble((small, large, small, large, small), (3,), 1)
    assert whole.groups == ((0, 2, 4), (1, 3))
    divided = Ensemble((small, large, small, large, small), (3,), 1, lanes=2)
    # The large ones first, one in each lane; then the small ones in turn.
    assert divided.lane(0)[0] == (0, 1, 4) and divided.lane(1)[0] == (2, 3)
    assert divided.groups == ((0, 4), (1,), (2,), (3,))
    assert divided.groups_of_lane(0) == (0, 1) and divided.groups_of_lane(1) == (2, 3)
    for lane in range(2):
        members, alone = divided.lane(lane)
        of_lane = [tuple(members[k] for k in group) for group in alone.groups]
        assert of_lane == [divided.groups[g] for g in divided.groups_of_lane(lane)]
