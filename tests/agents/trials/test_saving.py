"""A search as named arrays and JSON: a restored one continues bit for bit, within a trial and between trials."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adaqn.base.errors import CheckpointError
from adaqn.base.snapshot import Snapshot
from adaqn.training.trainer import Trainer
from tests.agents.trials.cases import BRACKETS, TRIAL, Diary, agent_for, agent_of, state_of, trainer_for

STEPS = 180
SETTINGS: dict[str, dict[str, Any]] = {
    "random-search": TRIAL,
    "dehb": BRACKETS | {"min_trial_steps": 40, "max_trial_steps": 80},
}


def fresh(algo: str, n_envs: int, keep: bool) -> Trainer:
    return trainer_for(algo, SETTINGS[algo] | {"keep_replay": keep}, "CartPole-v1", n_envs)


def everything(trainer: Trainer) -> dict[str, Any]:
    """The complete state of a run, in a form that can be compared bit for bit."""
    snapshot, replay = trainer.snapshot(), trainer.replay
    rows = replay.rows(replay.oldest, replay.added)
    arrays = {name: (array.dtype, array.shape, array.tobytes()) for name, array in (snapshot.arrays | rows).items()}
    return arrays | {"rest": json.dumps(snapshot.meta)}


def interrupted_at(algo: str, n_envs: int, keep: bool, step: int) -> tuple[Trainer, list[Any]]:
    trainer = fresh(algo, n_envs, keep)
    diary = Diary(lambda trainer: trainer.clock.step >= step and trainer.interrupt("test"))
    trainer.run(STEPS, [diary])
    assert trainer.interrupted
    return trainer, diary.events


# Random search has borders at 40, 80, ... (42, 84, ... with three environments); at the border itself the step was
# taken, but the next trial has not begun. DEHB has them at 40, 80 and 160.
@pytest.mark.parametrize(
    ("algo", "n_envs", "keep", "step"),
    [
        ("random-search", 1, True, 57),
        ("random-search", 1, True, 40),
        ("random-search", 1, True, 41),
        ("random-search", 1, False, 80),
        ("random-search", 1, False, 97),
        ("random-search", 3, True, 42),
        ("random-search", 3, False, 90),
        ("dehb", 1, True, 5),
        ("dehb", 1, True, 80),
        ("dehb", 1, False, 161),
        ("dehb", 3, True, 100),
    ],
)
def test_a_search_goes_on_to_the_bit(algo: str, n_envs: int, keep: bool, step: int) -> None:
    whole, diary = fresh(algo, n_envs, keep), Diary()
    whole.run(STEPS, [diary])
    first, events = interrupted_at(algo, n_envs, keep, step)
    second, rest = fresh(algo, n_envs, keep), Diary()
    replay = first.replay
    second.replay.restore(replay.oldest, replay.rows(replay.oldest, replay.added))
    arrays, meta = first.snapshot()
    second.restore(Snapshot(arrays, json.loads(json.dumps(meta))))
    assert everything(second) == everything(first)
    assert state_of(second).last_acted == state_of(first).last_acted > 0
    second.run(STEPS, [rest])
    assert events + rest.events == diary.events
    expected, got = everything(whole), everything(second)
    assert [name for name, value in expected.items() if got.get(name) != value] == []
    assert got.keys() == expected.keys()
    assert any(name.startswith("agent/best/") for name in expected)


def test_another_seed_is_another_search() -> None:
    agent = agent_for("random-search", TRIAL)
    first, again, other = (agent.init(seed) for seed in (1, 1, 2))
    assert first.trial.u.tolist() == again.trial.u.tolist() != other.trial.u.tolist()
    assert first.run.members != other.run.members


def test_a_state_of_something_else_is_refused() -> None:
    agent = agent_for("dehb", BRACKETS)
    arrays, meta = agent.to_arrays(agent.init(0))
    with pytest.raises(CheckpointError, match="'returns'"):
        agent.from_arrays(arrays, {name: value for name, value in meta.items() if name != "returns"})
    with pytest.raises(CheckpointError, match="the saved state is incomplete: it has 0 bytes"):
        agent.from_arrays({}, meta)
    with pytest.raises(CheckpointError, match="no pending trial"):
        agent.from_arrays(arrays, meta | {"search": meta["search"] | {"pending": None}})
    with pytest.raises(CheckpointError, match="a random search must have asked and pending"):
        agent_for("random-search", TRIAL).from_arrays(arrays, meta)


def test_looking_changes_nothing() -> None:
    def look(trainer: Trainer) -> None:
        agent, state, clock = agent_of(trainer), state_of(trainer), trainer.clock
        agent.report(state, clock)
        agent.policy(state, trainer.environments.observations, None, clock)
        agent.policy_weights(state)
        trainer.snapshot()

    watched, alone = fresh("random-search", 1, True), fresh("random-search", 1, True)
    watched.run(100, [Diary(look)])
    alone.run(100)
    assert everything(watched) == everything(alone)
