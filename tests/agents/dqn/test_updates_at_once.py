"""Several updates in one program: the same as one after the other, also when interrupted between two calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adaqn import AdaDQN, Hyperparameters
from adaqn.agents import dqn as dqn
from adaqn.agents.protocol import Clock, Operation
from adaqn.training.trainer import Trainer

ONE = [Hyperparameters(hidden=(16, 16))]
TWO = [Hyperparameters(hidden=(16,)), Hyperparameters(hidden=(8,), optimizer="sgd", learning_rate=1e-2)]


def trainer(members: list[Hyperparameters] = TWO, **settings: Any) -> Trainer:
    values: dict[str, Any] = {
        "learning_starts": 40,
        "batch_size": 8,
        "buffer_size": 200,
        "target_update_interval": 20,
        "seed": 0,
    }
    run = AdaDQN("CartPole-v1", members, **(values | settings)).trainer
    run.clock = Clock(horizon=200)
    return run


def arrays(run: Trainer) -> dict[str, bytes]:
    snapshot = run.snapshot()
    return {name: array.tobytes() for name, array in snapshot.arrays.items()} | {"updates": repr(run.updates).encode()}


def counted(run: Trainer) -> list[tuple[int, bool]]:
    """How many updates each call of `update` makes from now on, and whether it acts."""
    calls: list[tuple[int, bool]] = []
    update = run.agent.update

    def noted(*given: Any, updates: int = 1) -> Any:
        calls.append((updates, given[5] is not None))
        return update(*given, **({} if updates == 1 else {"updates": updates}))

    run.agent.update = noted  # type: ignore[method-assign]
    return calls


def test_environments_side_by_side_learn_in_one_call_between_two_target_updates() -> None:
    run = trainer(n_envs=8)
    calls = counted(run)
    run.run(64)
    # Updates of the steps 41 to 48, 49 to 56 and 57 to 64, with a target update at 60; the last one has no action.
    assert calls == [(8, True), (8, True), (4, False), (4, False)]
    assert run.updates == 24


@pytest.mark.parametrize(("members", "exact"), ((ONE, True), (TWO, False)))
def test_one_call_is_what_several_are(members: list[Hyperparameters], exact: bool) -> None:
    run = trainer(members)
    run.run(60)
    agent, state = run.agent, run.state
    saved, meta = agent.to_arrays(state)
    rows = [run.replay.sample_rows(np.random.default_rng(i), 8) for i in range(6)]  # type: ignore[attr-defined]
    one_by_one, together, in_parts = (agent.from_arrays(saved, meta) for _ in range(3))
    alone, eight = Clock(60, 59), Clock(60, 52)
    rng = np.random.default_rng(0)
    for batch in rows:
        one_by_one, _ = agent.update(one_by_one, Operation.UPDATE, batch, alone, rng)
    update: Any = agent.update
    together, _ = update(together, Operation.UPDATE, np.concatenate(rows), eight, rng, None, 6)
    in_parts, _ = update(in_parts, Operation.UPDATE, np.concatenate(rows[:1]), eight, rng, None, 1)
    in_parts, _ = update(in_parts, Operation.UPDATE, np.concatenate(rows[1:]), eight, rng, None, 5)
    learned, expected, divided = (agent.to_arrays(each)[0] for each in (together, one_by_one, in_parts))
    for name, before in saved.items():
        assert learned[name].tobytes() == divided[name].tobytes(), name
        if exact:
            assert learned[name].tobytes() == expected[name].tobytes(), name
        np.testing.assert_allclose(learned[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name)
        if "parameters" in name:
            assert np.abs(learned[name] - before).max() > 1e-4


def interrupted_after(run: Trainer, calls: int) -> None:
    """Ask to stop when so many calls of `update` have been made, as a signal would."""
    update, made = run.agent.update, [0]

    def interrupting(*given: Any, **keywords: Any) -> Any:
        made[0] += 1
        if made[0] == calls:
            run.interrupt("SIGTERM")
        return update(*given, **keywords)

    run.agent.update = interrupting  # type: ignore[method-assign]


@pytest.mark.parametrize("after", (1, 2, 3, 5))
def test_a_run_that_was_interrupted_in_the_middle_of_what_is_due_goes_on_to_the_bit(
    after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dqn, "UPDATES_AT_ONCE", 4)
    settings: dict[str, Any] = {"n_envs": 3, "gradient_steps": 3, "target_update_interval": 4}
    whole = trainer(**settings)
    calls = counted(whole)
    whole.run(90)
    assert {updates for updates, _ in calls} == {1, 2, 3, 4}, "all lengths up to the most"
    run = trainer(**settings)
    interrupted_after(run, after)
    run.run(90)
    assert run.interrupted
    rows = run.replay.rows(run.replay.oldest, run.replay.added)
    resumed = trainer(**settings)
    resumed.replay.restore(run.replay.oldest, rows)
    resumed.restore(run.snapshot())
    resumed.run(90)
    assert resumed.clock.step == 90
    assert arrays(resumed) == arrays(whole)


@pytest.mark.thorough
def test_some_of_these_interruptions_leave_updates_undone() -> None:
    run = trainer(n_envs=8, gradient_steps=12)  # 96 updates are due, in three calls
    interrupted_after(run, 1)
    run.run(90)
    assert len(run.pending) == 64 and set(run.pending) == {Operation.UPDATE}
