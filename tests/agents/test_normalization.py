"""Observations are normalized by their running mean and variance wherever an agent sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from adaqn import DQN, SEARL, AdaDQN, AdaSAC, Hyperparameters, MetaGradientDQN, RandomSearch
from adaqn.agents.normalization import NormalizingAgent, RunningMoments
from adaqn.agents.protocol import Clock, InputScaling, Operation, PolicyWeights
from adaqn.api import Model
from adaqn.base.errors import UserError
from adaqn.exported_policy import ExportedPolicy
from adaqn.networks.network import Network
from adaqn.replay.protocol import Batch
from adaqn.replay.rows import RowLayout
from adaqn.runs.export import write_policy

SMALL: dict[str, Any] = {"learning_starts": 30, "batch_size": 8, "seed": 3, "normalize_observations": True}


def test_moments_by_hand() -> None:
    moments = RunningMoments.none((2,)).add(np.array([[1.0, 5.0]], np.float32))
    assert moments.scaling(np.array([[3.0, 5.0]], np.float32)).tolist() == [[2.0, 0.0]]  # the variance counts as 1
    moments = moments.add(np.array([[5.0, 5.0], [6.0, 5.0]], np.float32))
    # 1, 5, 6: mean 4, squares 9 + 1 + 4.
    assert (moments.number, moments.mean.tolist()) == (3, [4.0, 5.0])
    assert moments.squares.tolist() == pytest.approx([14.0, 0.0])
    found = moments.scaling(np.array([[4.0 + np.sqrt(14.0 / 3.0), 5.0]], np.float32))
    np.testing.assert_allclose(found, [[1.0, 0.0]], atol=1e-6)


def test_moments_are_those_of_all_observations_however_they_arrive() -> None:
    rng = np.random.default_rng(0)
    seen = (1e4 + rng.standard_normal((300, 3))).astype(np.float32)
    moments, start = RunningMoments.none((3,)), 0
    for size in (1, 1, 3, 95, 200):
        moments, start = moments.add(seen[start : start + size]), start + size
    assert moments.number == start == 300
    np.testing.assert_allclose(moments.mean, seen.mean(axis=0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(moments.squares / 300, seen.var(axis=0, dtype=np.float64), rtol=1e-8)


def test_far_observations_are_clipped() -> None:
    moments = RunningMoments.none((1,)).add(np.array([[-1.0], [1.0]], np.float32))
    assert moments.scaling(np.array([[1e30], [-11.0], [9.0]], np.float32)).tolist() == [[10.0], [-10.0], [9.0]]
    # A constant that changes is far from its mean, in units of no deviation.
    constant = RunningMoments.none((1,)).add(np.full((5, 1), 3.0, np.float32))
    assert constant.scaling(np.array([[3.0], [3.5]], np.float32)).tolist() == [[0.0], [10.0]]


class Diary:
    """An agent that records what it is given."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def init(self, seed: int) -> str:
        return f"state {seed}"

    def act(self, state: Any, observations: np.ndarray, clock: Clock, rng: Any) -> tuple[Any, np.ndarray]:
        self.seen.append(observations.tolist())
        return state, np.zeros(len(observations), int)

    def update(self, state: Any, operation: Any, batch: Any, clock: Any, rng: Any, act_on: Any = None) -> Any:
        self.seen.append((batch.observation.tolist(), batch.next_observation.tolist(), batch.rewards.tolist()))
        return (state, None) if act_on is None else self.act(state, act_on, clock, rng)

    def policy(self, state: Any, observations: np.ndarray, rng: Any, clock: Clock) -> np.ndarray:
        self.seen.append(observations.tolist())
        return np.zeros(len(observations), int)


def test_acting_adds_every_observation_once_and_nothing_else_does() -> None:
    diary = Diary()
    agent = NormalizingAgent(diary, spaces.Box(-9.0, 9.0, (1,)))  # type: ignore[arg-type]
    rng, clock = np.random.default_rng(0), Clock()
    state = agent.init(5)
    assert state.inner == "state 5"
    column = lambda *values: np.array(values, np.float32)[:, None]  # noqa: E731
    state, _ = agent.act(state, column(2.0, 6.0), clock, rng)  # mean 4, variance 4
    batch = Batch(column(6.0), np.zeros(1), column(7.0), column(0.0), np.zeros(1), np.ones(1, int))
    same, actions = agent.update(state, Operation.UPDATE, batch, clock, rng)
    assert actions is None and same.moments is state.moments
    agent.policy(state, column(8.0), None, clock)
    assert diary.seen == [[[-1.0], [1.0]], ([[1.0]], [[-2.0]], [[7.0]]), [[2.0]]]
    assert batch.observation.tolist() == [[6.0]], "what was sampled must stay as it is"
    # Acting after an update adds the observations first: 2, 6, 4 and 4 have the mean 4 and the variance 2.
    state, actions = agent.update(state, Operation.UPDATE, batch, clock, rng, column(4.0, 4.0))
    assert actions is not None and state.moments.number == 4
    np.testing.assert_allclose(diary.seen[3][0], [[np.sqrt(2.0)]], rtol=1e-6)
    assert diary.seen[4] == [[0.0], [0.0]]


def test_rows_of_the_replay_buffer_are_normalized_like_batches() -> None:
    layout = RowLayout.of((2,), (), np.int32)
    rng = np.random.default_rng(0)
    batch = Batch(
        rng.standard_normal((5, 2)).astype(np.float32),
        np.arange(5, dtype=np.int32),
        rng.standard_normal((5, 1)).astype(np.float32),
        rng.standard_normal((5, 2)).astype(np.float32),
        np.array([0, 1, 0, 0, 1], np.float32),
        np.ones(5, np.int32),
    )
    rows = layout.pack(batch)
    before = rows.copy()
    scaling = InputScaling(np.array([0.5, -1.0], np.float32), np.array([2.0, 0.25], np.float32), 1.0)
    changed = layout.batch(layout.with_observations(rows, scaling))
    assert rows.tolist() == before.tolist()
    assert changed.observation.tolist() == scaling(batch.observation).tolist()
    assert changed.next_observation.tolist() == scaling(batch.next_observation).tolist()
    for one, other in zip(changed[1:3], batch[1:3], strict=True):
        assert one.tolist() == other.tolist()
    assert changed.terminated.tolist() == batch.terminated.tolist()


@pytest.mark.parametrize("shape", [(84, 84, 4), (3, 3, 1)])
def test_images_are_refused_in_one_sentence(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError) as raised:
        NormalizingAgent(Diary(), spaces.Box(0, 255, shape, np.uint8))  # type: ignore[arg-type]
    expected = f"normalize_observations needs vector observations, but those of the shape {shape} are images"
    assert str(raised.value) == expected


def test_an_exported_policy_normalizes_its_observations(tmp_path: Path) -> None:
    member, box = Hyperparameters(hidden=(6,)), spaces.Box(-np.inf, np.inf, (3,))
    network = Network(member.architecture, (3,), 2)
    scaling = InputScaling(np.array([5.0, 0.0, -2.0], np.float32), np.array([0.1, 3.0, 1.0], np.float32), 2.0)
    parameters = network.init(np.random.default_rng(0))
    weights = PolicyWeights("greedy", network, parameters, member)
    for name, given in (("raw", weights), ("scaled", weights._replace(scaling=scaling))):
        write_policy(tmp_path / f"{name}.npz", given, box, spaces.Discrete(2), env=None, algo="dqn")
    raw, scaled = (ExportedPolicy.load(tmp_path / f"{name}.npz") for name in ("raw", "scaled"))
    observations = 4.0 * np.random.default_rng(1).standard_normal((9, 3), np.float32)
    by_hand = np.clip((observations - [5.0, 0.0, -2.0]) * [0.1, 3.0, 1.0], -2.0, 2.0).astype(np.float32)
    np.testing.assert_allclose(scaled.outputs(observations), raw.outputs(by_hand), rtol=1e-5, atol=1e-6)
    assert scaled.meta["layers"][0] == {"kind": "scaling", "limit": 2.0}


def test_an_onnx_model_normalizes_its_observations(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    member, box = Hyperparameters(hidden=(6,), normalization="layer"), spaces.Box(-np.inf, np.inf, (3,))
    network = Network(member.architecture, (3,), 2)
    scaling = InputScaling(np.array([5.0, 0.0, -2.0], np.float32), np.array([0.1, 3.0, 1.0], np.float32), 2.0)
    weights = PolicyWeights("greedy", network, network.init(np.random.default_rng(0)), member, scaling)
    write_policy(tmp_path / "policy.npz", weights, box, spaces.Discrete(2), env=None, algo="dqn")
    write_policy(tmp_path / "policy.onnx", weights, box, spaces.Discrete(2), env=None, algo="dqn", format="onnx")
    observations = 4.0 * np.random.default_rng(1).standard_normal((9, 3), np.float32)
    session = runtime.InferenceSession(str(tmp_path / "policy.onnx"), providers=["CPUExecutionProvider"])
    values = session.run(["q_values"], {"observation": observations})[0]
    expected = ExportedPolicy.load(tmp_path / "policy.npz").outputs(observations)
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)


def observations_of(agent: Model, count: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-3.0, 3.0, (count, *agent.observation_space.shape)).astype(np.float32)


@pytest.mark.thorough
def test_saved_and_exported_agents_predict_as_before(tmp_path: Path) -> None:
    agent = AdaDQN("CartPole-v1", [Hyperparameters(hidden=(8,)), Hyperparameters(hidden=(6,))], **SMALL).learn(60)
    moments = agent.trainer.state.moments
    assert moments.number == 60
    observations = observations_of(agent, 300)
    actions, _ = agent.predict(observations, deterministic=True)
    assert 0.02 < actions.mean() < 0.98, "both actions must occur"
    assert agent.trainer.state.moments is moments, "predictions must not change the statistics"
    agent.save(tmp_path / "agent")
    loaded = AdaDQN.load(tmp_path / "agent")
    assert loaded.trainer.state.moments.mean.tolist() == moments.mean.tolist()
    np.testing.assert_array_equal(loaded.predict(observations, deterministic=True)[0], actions)
    policy = ExportedPolicy.load(agent.export(tmp_path / "policy"))
    np.testing.assert_array_equal(policy(observations), actions)


@pytest.mark.thorough
def test_every_family_normalizes(tmp_path: Path) -> None:
    one = [Hyperparameters(hidden=(8,))]
    space = {"optimizer": ["adam"], "activation": ["relu"], "hidden": {"layers": 1, "neurons": [8, 16]}}
    agents: list[Any] = [
        AdaSAC("Pendulum-v1", one * 2, actor_hidden="8", **SMALL),
        MetaGradientDQN("CartPole-v1", one, **SMALL),
        SEARL("CartPole-v1", space=space, population=2, generation_interval=40, **SMALL),
        RandomSearch("CartPole-v1", space=space, trial_steps=50, epoch_steps=20, **SMALL),
    ]
    for agent in agents:
        agent.learn(110)
        observations = observations_of(agent, 50)
        actions, _ = agent.predict(observations, deterministic=True)
        agent.save(tmp_path / agent.algo)
        loaded = type(agent).load(tmp_path / agent.algo)
        np.testing.assert_array_equal(loaded.predict(observations, deterministic=True)[0], actions)
        policy = ExportedPolicy.load(agent.export(tmp_path / agent.algo))
        assert policy.meta["layers"][0]["kind"] == "scaling"
        np.testing.assert_allclose(policy(observations), actions, atol=1e-5)
    # Every trial has statistics of its own, so that the best one keeps those that it was trained with.
    trial = agents[-1].trainer.state
    assert trial.run.moments.number < 60


def test_a_saved_agent_without_statistics_is_refused(tmp_path: Path) -> None:
    agent = DQN("CartPole-v1", [Hyperparameters(hidden=(4,))], **SMALL)
    arrays, meta = agent.trainer.agent.to_arrays(agent.trainer.state)
    del arrays["observations/mean"]
    with pytest.raises(UserError, match="no sound statistics of observations"):
        agent.trainer.agent.from_arrays(arrays, meta)
