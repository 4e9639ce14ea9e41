"""Environments that behave oddly: training and evaluating end in success or in one sentence."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from adaqn import AdaDQN, AdaSAC, Hyperparameters
from adaqn.api import Model
from adaqn.base.errors import UserError
from adaqn.training.evaluation import evaluate_policy
from tests.fuzz.harness import outcome

pytestmark = pytest.mark.thorough

VECTOR = spaces.Box(-1.0, 1.0, (3,))
IMAGE = spaces.Box(0, 255, (12, 12, 2), np.uint8)
SETTINGS: dict[str, Any] = {"learning_starts": 8, "batch_size": 4, "buffer_size": 100, "target_update_interval": 8}


class Raising:
    """Raises whatever is done with it."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")

    def __float__(self) -> float:
        raise RuntimeError("no number")

    def __bool__(self) -> bool:
        raise RuntimeError("neither")


class Odd(gymnasium.Env[Any, Any]):
    """Episodes of five steps; in the third step of the second episode, what was given comes instead."""

    def __init__(self, observation_space: Any = VECTOR, action_space: Any = None, **odd: Any) -> None:
        self.observation_space = observation_space
        self.action_space = spaces.Discrete(2) if action_space is None else action_space
        self.odd = odd
        self.episodes = self.count = 0

    def _sound(self) -> Any:
        return self.np_random.integers(0, 2, self.observation_space.shape).astype(self.observation_space.dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        self.episodes += 1
        if self.episodes == 2 and "reset" in self.odd:
            return self.odd["reset"]
        return self._sound(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        due = self.episodes >= 2 and self.count == 3
        if due and "raises" in self.odd:
            raise self.odd["raises"]
        if due and "step" in self.odd:
            return self.odd["step"]
        given = self.odd if due else {}
        return (
            given.get("observation", self._sound()) if "observation" in given else self._sound(),
            given.get("reward", 1.0),
            given.get("terminated", self.count == 5),
            given.get("truncated", False),
            given.get("info", {}),
        )

    def close(self) -> None:
        if "close" in self.odd:
            raise self.odd["close"]


# A reward, and whether it can be learned from.
REWARDS: list[tuple[Any, bool]] = [
    (1, True), (True, True), (np.float32(0.5), True), (np.int64(3), True), (np.array(0.5), True), (np.array([0.5]),
    True),
    (np.bool_(True), True), (Fraction(1, 3), True), (1e10, True), (10**400, False), (-(10**400), False), (1e39, False),
    (math.nan, False), (math.inf, False), ("1.5", False), (b"1", False), (None, False), ([], False), ({}, False),
    (np.datetime64("2024-01-01"), False), (np.timedelta64(5, "s"), False), (np.array(["1"]), False), (1j, False),
    (np.array([1.0, 2.0]), False), (Raising(), False), (object(), False), (Decimal("NaN"), False), ("nan", False),
]  # fmt: skip
FLAGS: list[tuple[Any, bool]] = [
    (True, True), (False, True), (np.bool_(False), True), (np.array(True), True), (np.array([False]), True), (0, True),
    (1, True), (np.array([True, False]), False), (np.array([]), False), ("False", False), (None, False), ([], False),
    ([True, True], False), (math.nan, False), (Raising(), False), ({}, False), (np.datetime64("2024-01-01"), False),
]  # fmt: skip
OBSERVATIONS: list[tuple[Any, bool]] = [
    (np.zeros(3), True), (np.zeros(3, np.float16), True), (np.zeros(3, np.int64), True), (np.zeros(3, bool), True),
    ([0.0, 1.0, 0.5], True), ((1, 2, 3), True), (np.zeros(4), False), (np.zeros((1, 3)), False), (0.5, False), (None,
    False),
    (np.array([0.0, np.nan, 0.0]), False), (np.array([0.0, np.inf, 0.0]), False), (np.full(3, 1e300), False),
    (np.array(["1", "2", "3"]), False), (np.array(["2024-01-01"] * 3, "M8[D]"), False), (np.zeros(3, "m8[s]"), False),
    (np.zeros(3, complex), False), (np.array([1, 2, 3], object), False), ("abc", False), ({"a": 1}, False),
    (Raising(), False),
    ([[1], [1, 2], [3]], False), ([10**400, 0, 0], False), (b"abc", False), (np.zeros(3, "V4"), False),
]  # fmt: skip
IMAGES: list[tuple[Any, bool]] = [
    (np.zeros(IMAGE.shape), True), (np.full(IMAGE.shape, 255.0), True), (np.ones(IMAGE.shape, bool), True),
    (np.full(IMAGE.shape, 200, np.int64), True), (np.full(IMAGE.shape, 0.5), False), (np.full(IMAGE.shape, 300), False),
    (np.full(IMAGE.shape, -1), False), (np.full(IMAGE.shape, np.nan), False), (np.full(IMAGE.shape, 255.5), False),
    (np.full(IMAGE.shape, "7"), False), (np.full(IMAGE.shape, np.inf), False), (np.zeros((12, 12), np.uint8), False),
]  # fmt: skip


def trained(env: gymnasium.Env[Any, Any], steps: int = 24) -> Model:
    model: type[Model] = AdaDQN if isinstance(env.action_space, spaces.Discrete) else AdaSAC
    return model(env, [Hyperparameters(hidden=(4,))] * 2, **SETTINGS).learn(steps)


def shown(value: Any) -> str:
    """A value as the name of a test, the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:30]


@pytest.fixture(scope="module")
def policy() -> Model:
    return trained(Odd())


@pytest.mark.parametrize(("reward", "sound"), REWARDS, ids=shown)
def test_a_reward(reward: Any, sound: bool, policy: Model) -> None:
    assert (outcome(lambda: trained(Odd(reward=reward))) is None) == sound
    assert (outcome(lambda: evaluate_policy(policy, Odd(reward=reward), 3)) is None) == sound


@pytest.mark.parametrize("name", ["terminated", "truncated"])
@pytest.mark.parametrize(("flag", "sound"), FLAGS, ids=shown)
def test_an_end(flag: Any, sound: bool, name: str, policy: Model) -> None:
    assert (outcome(lambda: trained(Odd(**{name: flag}))) is None) == sound
    assert (outcome(lambda: evaluate_policy(policy, Odd(**{name: flag}), 3)) is None) == sound


@pytest.mark.parametrize(("observation", "sound"), OBSERVATIONS, ids=shown)
def test_an_observation(observation: Any, sound: bool, policy: Model) -> None:
    assert (outcome(lambda: trained(Odd(observation=observation))) is None) == sound
    assert (outcome(lambda: trained(Odd(reset=(observation, {})))) is None) == sound
    assert (outcome(lambda: evaluate_policy(policy, Odd(observation=observation), 3)) is None) == sound
    is_batch = isinstance(observation, np.ndarray) and observation.shape == (1, 3)
    assert (outcome(lambda: policy.predict(observation)) is None) == (sound or is_batch)


@pytest.mark.parametrize(("image", "sound"), IMAGES, ids=shown)
def test_an_image(image: Any, sound: bool) -> None:
    env = Odd(IMAGE, observation=image)
    assert (outcome(lambda: trained(env)) is None) == sound


@pytest.mark.parametrize(
    "odd",
    [
        {"step": None}, {"step": ()}, {"step": (np.zeros(3), 0.0, False, {})}, {"step": "abcde"}, {"reset": None},
        {"reset": np.zeros(3)}, {"reset": ()}, {"reset": (None, {})}, {"raises": ValueError("two\nlines")},
        {"raises": OSError()}, {"raises": MemoryError("all")}, {"raises": RecursionError()},
        {"raises": UserError("its own")},
        {"raises": StopIteration()}, {"raises": KeyError("x")}, {"raises": AssertionError()},
    ],
    ids=repr,
)  # fmt: skip
def test_a_step_that_fails(odd: dict[str, Any], policy: Model) -> None:
    assert outcome(lambda: trained(Odd(**odd))) is not None
    assert outcome(lambda: evaluate_policy(policy, Odd(**odd), 3)) is not None


@pytest.mark.parametrize("error", [RuntimeError("closed"), OSError(5, "gone"), ValueError("two\nlines")], ids=repr)
def test_a_close_that_raises_costs_nothing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gymnasium.registry, "Odd-v0", EnvSpec("Odd-v0", lambda **_: Odd(close=error)))
    assert outcome(lambda: AdaDQN("Odd-v0", **SETTINGS).trainer.environments.close()) is None


@pytest.mark.parametrize(
    ("observations", "actions"),
    [
        (spaces.Box(-1, 1, (0,)), None), (spaces.Box(-1, 1, (3, 0)), None), (spaces.Discrete(3), None), (None, None),
        (5, None), (spaces.Dict({"a": VECTOR}), None), (spaces.Box(-1, 1, (2, 2, 2, 2)), None),
        (spaces.MultiBinary(3), None),
        (VECTOR, spaces.Box(-1, 1, (0,))), (VECTOR, spaces.MultiDiscrete([2, 2])), (VECTOR, spaces.Tuple([VECTOR])),
        (VECTOR, spaces.Box(-np.inf, np.inf, (2,))), (VECTOR, spaces.Box(0, 5, (2,), np.int64)), (VECTOR, 5),
        (VECTOR, spaces.Box(-1, 1, (2, 2))), (spaces.Text(5), None),
    ],
    ids=shown,
)  # fmt: skip
def test_spaces_that_cannot_be_learned_in(observations: Any, actions: Any) -> None:
    env = Odd()
    env.observation_space = observations
    if actions is not None:
        env.action_space = actions
    assert outcome(lambda: AdaDQN(env, **SETTINGS)) is not None
    if not isinstance(actions, spaces.Box) or actions.shape == (0,):
        assert outcome(lambda: AdaSAC(env)) is not None
