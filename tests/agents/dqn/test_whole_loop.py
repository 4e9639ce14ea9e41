"""A whole run of AdaDQN with one member equals that of an independent DQN that shares no code with it.

The independent one is given the randomness: the seeds of the episodes, the numbers that actions are drawn with, and
the transitions in a batch. When it acts, learns and copies its target, and with what result, it computes itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest

from adaqn import AdaDQN, Hyperparameters
from adaqn.agents.protocol import Event, TargetUpdate
from adaqn.replay.protocol import Batch
from adaqn.replay.vectors import VectorReplay
from adaqn.training.observers import Observer
from adaqn.training.trainer import Trainer
from tests.agents.dqn.plain_dqn import PlainDQN, huber_slope

STEPS, TARGET_INTERVAL, EXPLORATION_STEPS = 630, 45, 150
BUFFER, BATCH, GAMMA, RATE = 200, 16, 0.97, 1e-3
SIZES = (8, 24, 16, 4)  # of the layers, from observations to actions
EPISODE_STEPS = 75  # about the length of a random policy's episode

Row = tuple[bytes, int, bytes, bytes, bool]  # observation, action, reward, next observation, terminated


class Rhythm(NamedTuple):
    """Whether an update is due."""

    learning_starts: int
    train_freq: int

    def due_at(self, step: int) -> list[str]:
        """What a DQN does after this many steps, in order; a run ends after learning, without another action."""
        learns = step > self.learning_starts
        due = ["update"] if learns and step % self.train_freq == 0 else []
        due += ["target"] if learns and step % TARGET_INTERVAL == 0 else []
        return due + (["act"] if step < STEPS else [])


class Listener(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The environment of the loop, which records its seeds and actions."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.seeds: list[int] = []
        self.actions: list[int] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        assert seed is not None
        self.seeds.append(seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        self.actions.append(int(action))
        return self.env.step(action)


class Diary(Observer):
    """What the loop did, in order, each with the number of steps so far; and what it drew."""

    def __init__(self, env: Listener) -> None:
        self.env = env
        self.order: list[tuple[int, str]] = []
        self.uniforms: list[np.ndarray] = []  # [4] for each action
        self.batches: list[Batch[np.ndarray]] = []
        self.losses: list[float] = []  # at each target update

    def note(self, what: str) -> None:
        self.order.append((len(self.env.actions), what))

    def on_event(self, trainer: Trainer, event: Event) -> None:
        assert isinstance(event, TargetUpdate) and event.step == len(self.env.actions)
        self.note("target")
        self.losses += event.cumulated_loss


class NotedDraws(np.random.Generator):
    """A generator that records the numbers that actions are drawn with."""

    def __init__(self, original: np.random.Generator, diary: Diary) -> None:
        super().__init__(original.bit_generator)
        self.diary = diary

    def random(self, *arguments: Any, **keywords: Any) -> Any:
        drawn = super().random(*arguments, **keywords)
        if np.ndim(drawn) == 2:  # other draws are for the choice among one target member
            self.diary.note("act")
            self.diary.uniforms.append(drawn[0])
        return drawn


def lander() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("LunarLander-v3", max_episode_steps=EPISODE_STEPS)


def parameters_of(trainer: Trainer) -> np.ndarray:
    return np.array(trainer.state.learning.ensemble[0].parameters[0])


def watched_run(rhythm: Rhythm, monkeypatch: pytest.MonkeyPatch) -> tuple[Diary, np.ndarray, np.ndarray]:
    """A run of the real loop: what it did, and its parameters before and after."""
    env = Listener(lander())
    member = Hyperparameters(hidden=SIZES[1:-1], loss="huber", learning_rate=RATE)
    model = AdaDQN(
        env, [member], seed=3, gamma=GAMMA, batch_size=BATCH, buffer_size=BUFFER,
        target_update_interval=TARGET_INTERVAL, exploration_initial_eps=1.0, exploration_final_eps=0.1,
        exploration_steps=EXPLORATION_STEPS, **rhythm._asdict(),
    )  # fmt: skip
    trainer, diary = model.trainer, Diary(env)
    replay = trainer.replay
    assert isinstance(replay, VectorReplay)
    sample = replay.sample_rows

    def noted_sample(rng: np.random.Generator, batch_size: int) -> np.ndarray:
        diary.note("update")
        rows = sample(rng, batch_size)
        diary.batches.append(replay.layout.batch(rows))
        return rows

    monkeypatch.setattr(replay, "sample_rows", noted_sample)
    monkeypatch.setattr(trainer, "_agent_rng", NotedDraws(trainer._agent_rng, diary))
    before = parameters_of(trainer)
    trainer.run(STEPS, [diary])
    env.close()
    return diary, before, parameters_of(trainer)


class Player:
    """A separate environment with the same seeds, and the transitions that a ring buffer would still hold."""

    def __init__(self, seeds: list[int]) -> None:
        self.env = lander()
        self.seeds = iter(seeds)
        self.observation: np.ndarray = self.env.reset(seed=next(self.seeds))[0]
        self.held: deque[Row] = deque(maxlen=BUFFER)
        self.terminations: set[Row] = set()
        self.truncations: set[Row] = set()

    def step(self, action: int) -> None:
        following, reward, terminated, truncated, _ = self.env.step(action)
        row = row_of(self.observation, action, np.float32(reward), following, terminated)
        self.held.append(row)
        self.observation = following
        if terminated or truncated:
            (self.terminations if terminated else self.truncations).add(row)
            self.observation = self.env.reset(seed=next(self.seeds))[0]


def row_of(observation: np.ndarray, action: int, reward: np.float32, following: np.ndarray, terminated: bool) -> Row:
    assert observation.dtype == following.dtype == np.float32
    return observation.tobytes(), int(action), reward.tobytes(), following.tobytes(), bool(terminated)


def rows_of(batch: Batch[np.ndarray]) -> Iterator[Row]:
    assert batch.rewards.shape == (BATCH, 1) and batch.rewards.dtype == np.float32
    columns = (batch.observation, batch.action, batch.rewards[:, 0], batch.next_observation, batch.terminated)
    return (row_of(*values) for values in zip(*columns, strict=True))


def chosen_action(plain: PlainDQN, observation: np.ndarray, uniforms: np.ndarray, step: int) -> int:
    """ε-greedy, with ε decaying from 1 to 0.1: the first number decides whether to explore, the second which action."""
    epsilon = max(0.1, 1.0 - 0.9 * step / EXPLORATION_STEPS)
    if uniforms[0] < epsilon:
        return int(uniforms[1] * SIZES[-1])
    return int(plain.values(observation).argmax())


@pytest.mark.parametrize("rhythm", [Rhythm(60, 1), Rhythm(61, 2)])
def test_a_whole_run_follows_a_plain_dqn(rhythm: Rhythm, monkeypatch: pytest.MonkeyPatch) -> None:
    diary, before, after = watched_run(rhythm, monkeypatch)
    assert diary.order == [(step, what) for step in range(STEPS + 1) for what in rhythm.due_at(step)]

    plain, player = PlainDQN(before, SIZES, GAMMA, RATE, huber_slope), Player(diary.env.seeds)
    batches, uniforms, losses = iter(diary.batches), iter(diary.uniforms), iter(diary.losses)
    drawn: set[Row] = set()
    newest, oldest, greedy, cumulated = 0, 0, 0, 0.0
    for step, what in diary.order:
        if what == "update":
            batch = next(batches)
            rows = set(rows_of(batch))
            assert rows <= set(player.held), f"at step {step} there is a transition that is not in the ring"
            drawn |= rows
            newest += player.held[-1] in rows
            oldest += player.held[0] in rows
            cumulated += plain.update(
                batch.observation, batch.action, batch.rewards[:, 0], batch.next_observation, batch.terminated
            )
        elif what == "target":
            plain.update_target()
            assert next(losses) == pytest.approx(cumulated, rel=1e-4)
            cumulated = 0.0
        else:
            numbers = next(uniforms)
            action = chosen_action(plain, player.observation, numbers, step)
            assert action == diary.env.actions[step], f"at step {step}"
            greedy += action != int(numbers[1] * SIZES[-1])
            player.step(action)

    assert next(player.seeds, None) is None
    assert len(set(diary.env.seeds)) == len(diary.env.seeds)
    np.testing.assert_allclose(after, plain.flat, rtol=0.0, atol=1e-4)
    # All of this was put to the test: the difference is nothing beside what was learned, actions were those of the
    # network, the ring was written over, and ends of both kinds were learned from.
    assert np.median(np.abs(after - before)) > 0.01
    assert greedy > 200
    assert newest > 0 and oldest > 0 and len(player.held) == BUFFER < STEPS
    assert drawn & player.terminations and drawn & player.truncations
