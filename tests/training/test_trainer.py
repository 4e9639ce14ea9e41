"""The loop: the same seed gives the same run to the bit, with any observers, and however often it is interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from adaqn.agents.dqn import DQNAgent
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Event, Failure, TargetUpdate
from adaqn.agents.settings import DQNSettings
from adaqn.base.errors import AllMembersDiverged
from adaqn.base.snapshot import Snapshot
from adaqn.envs.environments import Environments
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.networks.xla.compilation import prepare_jax
from adaqn.replay.making import make_replay
from adaqn.training.observers import Episode, Observer
from adaqn.training.trainer import Trainer

STEPS = 300
MEMBERS = (
    Hyperparameters(hidden=(), optimizer="sgd", learning_rate=1e-2),
    Hyperparameters(hidden=(), learning_rate=1e-3),
)


def trainer_for(n_envs: int = 1, seed: int = 0, **settings: Any) -> Trainer:
    prepare_jax()
    environments = Environments.make("CartPole-v1", n_envs, {})
    values = {"learning_starts": 50, "target_update_interval": 20, "selection": "random", **settings}
    agent = DQNAgent(
        DQNSettings(**values), Population(MEMBERS), environments.observation_space, environments.action_space
    )
    replay = make_replay(200, n_envs, environments.observation_space, environments.action_space, agent.settings.n_steps)
    trainer = Trainer(agent, environments, replay, agent.settings.batch_size, seed)
    trainer.clock = Clock(horizon=STEPS)
    return trainer


class Diary(Observer):
    """Records all calls in order."""

    def __init__(self) -> None:
        self.episodes: list[Episode] = []
        self.events: list[TargetUpdate] = []
        self.calls: list[str] = []

    def on_start(self, trainer: Trainer) -> None:
        self.calls.append("start")

    def on_step(self, trainer: Trainer) -> None:
        self.calls.append("step")

    def on_episode(self, trainer: Trainer, episode: Episode) -> None:
        self.episodes.append(episode)
        self.calls.append("episode")

    def on_event(self, trainer: Trainer, event: Event) -> None:
        assert isinstance(event, TargetUpdate)
        self.events.append(event)
        self.calls.append("event")

    def on_finish(self, trainer: Trainer) -> None:
        self.calls.append("finish")

    def on_close(self, trainer: Trainer) -> None:
        self.calls.append("close")


class At(Observer):
    """Does something at one step."""

    def __init__(self, step: int, action: Callable[[Trainer], None]) -> None:
        self.step = step
        self.action = action

    def on_step(self, trainer: Trainer) -> None:
        if trainer.clock.step == self.step:
            self.action(trainer)


class Curious(Observer):
    """Reads everything that the trainer offers, after every step."""

    def on_step(self, trainer: Trainer) -> None:
        agent, state, clock = trainer.agent, trainer.state, trainer.clock
        agent.report(state, clock)
        agent.policy(state, trainer.environments.observations, np.random.default_rng(0), clock)
        agent.plan(state, clock, np.zeros(trainer.environments.count, bool))
        trainer.snapshot()
        trainer.replay.rows(trainer.replay.oldest, trainer.replay.added)


class Periodic(Observer):
    """Has something to do at every seventh step."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def on_step(self, trainer: Trainer) -> None:
        self.steps.append(trainer.clock.step)

    def next_step(self, step: int) -> int:
        return (step // 7 + 1) * 7


def test_an_observer_is_called_when_it_said_and_one_that_said_nothing_after_every_step() -> None:
    alone, beside, diary = Periodic(), Periodic(), Diary()
    trainer_for().run(40, [alone, Observer()])
    # The first step tells what is next.
    assert alone.steps == [1, 7, 14, 21, 28, 35]
    trainer_for().run(40, [beside, diary])
    assert diary.calls.count("step") == 40
    assert beside.steps == list(range(1, 41)), "to be called before its time changes nothing for an observer"
    apart = Periodic()
    trainer_for(n_envs=3).run(40, [apart])
    assert apart.steps == [3, 9, 15, 21, 30, 36, 42]


def everything(trainer: Trainer) -> dict[str, Any]:
    """The complete state of a run, in a form that compares bit for bit."""
    snapshot = trainer.snapshot()
    rows = trainer.replay.rows(trainer.replay.oldest, trainer.replay.added)
    arrays = {**snapshot.arrays, **{f"replay/{name}": array for name, array in rows.items()}}
    return {
        "arrays": {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()},
        "rest": json.dumps(snapshot.meta),
    }


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one["arrays"].keys() == other["arrays"].keys()
    different = [name for name, array in one["arrays"].items() if array != other["arrays"][name]]
    assert different == []
    assert one["rest"] == other["rest"]


def finished(trainer: Trainer, until: int = STEPS) -> tuple[dict[str, Any], Diary]:
    diary = Diary()
    trainer.run(until, [diary])
    return everything(trainer), diary


@pytest.fixture(scope="module", params=[1, 3], ids=["one", "three"])
def n_envs(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(scope="module")
def uninterrupted(n_envs: int) -> tuple[dict[str, Any], Diary]:
    return finished(trainer_for(n_envs))


def test_the_same_seed_is_the_same_run(n_envs: int, uninterrupted: tuple[dict[str, Any], Diary]) -> None:
    state, diary = finished(trainer_for(n_envs))
    assert_same(state, uninterrupted[0])
    assert diary.episodes == uninterrupted[1].episodes
    assert diary.events == uninterrupted[1].events
    assert len(diary.episodes) > 5
    assert len(diary.events) == 13  # the multiples of 20 in 51..300


def test_another_seed_is_another_run(n_envs: int, uninterrupted: tuple[dict[str, Any], Diary]) -> None:
    state, diary = finished(trainer_for(n_envs, seed=1))
    assert diary.episodes != uninterrupted[1].episodes
    for name in ("agent/.ensemble[0].parameters", "replay/observation", "environments/observations"):
        assert state["arrays"][name] != uninterrupted[0]["arrays"][name]


def test_who_listens_changes_nothing(n_envs: int, uninterrupted: tuple[dict[str, Any], Diary]) -> None:
    trainer, diary = trainer_for(n_envs), Diary()
    trainer.run(STEPS, [Curious(), diary])
    assert_same(everything(trainer), uninterrupted[0])
    assert diary.events == uninterrupted[1].events


@pytest.mark.parametrize("step", [150, 30, 300])
def test_an_interrupted_run_goes_on_where_it_was(
    n_envs: int, step: int, uninterrupted: tuple[dict[str, Any], Diary]
) -> None:
    trainer, diary = trainer_for(n_envs), Diary()
    trainer.run(STEPS, [diary, At(step, lambda t: t.interrupt("enough"))])
    assert (trainer.clock.step, trainer.stop_reason, trainer.interrupted) == (step, "enough", True)
    assert diary.calls[-2:] == ["step", "close"]  # not finished
    trainer.run(STEPS, [diary])
    assert (trainer.stop_reason, trainer.interrupted) == (None, False)
    assert_same(everything(trainer), uninterrupted[0])
    assert diary.episodes == uninterrupted[1].episodes
    assert diary.events == uninterrupted[1].events


@pytest.mark.parametrize("step", [150, 30])
def test_a_snapshot_goes_on_in_another_trainer(
    n_envs: int, step: int, uninterrupted: tuple[dict[str, Any], Diary]
) -> None:
    kept: list[tuple[Snapshot, int, dict[str, np.ndarray]]] = []

    def keep(trainer: Trainer) -> None:
        replay = trainer.replay
        kept.append((trainer.snapshot(), replay.oldest, replay.rows(replay.oldest, replay.added)))

    trainer, diary = trainer_for(n_envs), Diary()
    trainer.run(STEPS, [diary, At(step, keep)])  # it goes on, which must not change what was kept
    ((snapshot, first, rows),) = kept
    other, later = trainer_for(n_envs, seed=99), Diary()
    other.replay.restore(first, rows)
    other.restore(Snapshot(snapshot.arrays, json.loads(json.dumps(snapshot.meta))))
    assert other.clock == Clock(step, step - n_envs, STEPS)
    other.run(STEPS, [later])
    assert_same(everything(other), uninterrupted[0])
    assert later.episodes == [episode for episode in diary.episodes if episode.step > step]
    assert later.events == [event for event in diary.events if event.step >= step]


def test_a_stopped_run_is_over_with_all_that_was_due_done() -> None:
    trainer, diary = trainer_for(), Diary()
    trainer.run(STEPS, [diary, At(150, lambda t: t.stop("good enough"))])
    assert (trainer.clock, trainer.stop_reason, trainer.interrupted) == (Clock(150, 150, STEPS), "good enough", False)
    assert trainer.updates == 100
    assert diary.calls[-3:] == ["step", "finish", "close"]
    trainer.run(STEPS, [diary])
    assert (trainer.clock, trainer.updates) == (Clock(300, 300, STEPS), 250)
    assert [event.step for event in diary.events] == list(range(60, 301, 20))


def test_the_loop_tells_what_happens_in_order() -> None:
    trainer, diary = trainer_for(), Diary()
    trainer.run(100, [diary])
    assert diary.calls[0] == "start"
    assert diary.calls[-3:] == ["event", "finish", "close"]  # what is due at step 100 is done before the end
    assert diary.calls.count("step") == 100
    assert all(after == "step" for call, after in zip(diary.calls, diary.calls[1:], strict=False) if call == "episode")
    assert [event.step for event in diary.events] == [60, 80, 100]
    assert sum(episode.length for episode in diary.episodes) <= 100
    assert all(episode.total == episode.length for episode in diary.episodes)  # CartPole gives 1 for each step
    assert list(trainer.recent_episodes) == diary.episodes
    assert (trainer.episodes, trainer.updates) == (len(diary.episodes), 50)


def test_updates_are_counted_with_several_environments() -> None:
    trainer = trainer_for(n_envs=3, train_freq=4, gradient_steps=2)
    trainer.run(100)
    # Steps come in threes, so the run ends at 102; updates are due at 52, 56, ..., 100: thirteen times two.
    assert (trainer.clock.step, trainer.updates) == (102, 26)


def test_observers_are_closed_even_after_an_error() -> None:
    def fail(trainer: Trainer) -> None:
        raise RuntimeError("broken observer")

    trainer, diary = trainer_for(), Diary()
    with pytest.raises(RuntimeError, match="broken observer"):
        trainer.run(STEPS, [At(5, fail), diary])
    assert diary.calls == ["start", *["step"] * 4, "close"]


# Learning starts after 50 steps, and the first target update is at 60.
@pytest.mark.parametrize(("method", "steps"), [("act", 0), ("update", 51), ("perform", 60)])
def test_a_failure_of_the_agent_ends_the_run_with_its_error(
    method: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, diary, error = trainer_for(), Diary(), AllMembersDiverged("all of them")
    original = getattr(trainer.agent, method)

    def failing(*arguments: Any, **keywords: Any) -> Any:
        state, _ = original(*arguments, **keywords)
        return state, (Failure(error),) if method == "perform" else Failure(error)

    monkeypatch.setattr(trainer.agent, method, failing)
    with pytest.raises(AllMembersDiverged) as raised:
        trainer.run(STEPS, [diary])
    assert raised.value is error
    # Observers are only told that the run is closed; the due operations are not performed.
    assert [call for call in diary.calls if call != "episode"] == ["start", *["step"] * steps, "close"]
    assert diary.events == [] and trainer.clock.settled == max(0, steps - 1)
