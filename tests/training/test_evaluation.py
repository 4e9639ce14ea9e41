"""Evaluation: correct sums, explicit seeds, reproducible numbers, and no use of global random generators."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from adaqn.base.errors import EnvironmentFault, UserError
from adaqn.training import evaluation
from adaqn.training.evaluation import EvaluationLog, EvaluationResult, episode_seed, evaluate_policy


class Countdown(gymnasium.Env[np.ndarray, Any]):
    """An episode lasts as many steps as its seed says (1 to 5); step i with action a has reward i + 10 a."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.seeds: list[int | None] = []
        self.render_mode = "rgb_array"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.seeds.append(seed)
        self.left = 1 + (seed or 0) % 5
        self.taken = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        assert type(action) is int
        self.taken += 1
        ended = self.taken == self.left
        even = self.left % 2 == 0  # some episodes end by truncation, others by termination
        return (
            np.full(1, self.taken, np.float32),
            self.taken + 10.0 * action,
            ended and even,
            ended and not even,
            {},
        )

    def render(self) -> Any:
        return np.full((2, 2, 3), self.taken, np.uint8)


class Constant:
    """A policy with one action; it records its arguments."""

    def __init__(self, action: int) -> None:
        self.action = action
        self.asked: list[tuple[float, bool]] = []

    def predict(self, observation: np.ndarray, *, deterministic: bool = True) -> tuple[Any, None]:
        self.asked.append((float(observation[0]), deterministic))
        return np.asarray(self.action), None


def test_returns_and_lengths_are_those_of_the_episodes() -> None:
    env = Countdown()
    result = evaluate_policy(Constant(1), env, n_eval_episodes=6, seed=3)
    lengths = tuple(1 + seed % 5 for seed in env.seeds if seed is not None)
    assert result.lengths == lengths
    assert len(set(lengths)) > 1
    assert result.returns == tuple(n * (n + 1) / 2 + 10.0 * n for n in lengths)


def test_mean_and_standard_deviation() -> None:
    result = EvaluationResult((1.0, 2.0, 6.0), (1, 1, 1))
    assert result.mean == 3.0
    assert result.std == pytest.approx((14 / 3) ** 0.5)


def test_the_same_call_gives_the_same_numbers_and_another_seed_does_not() -> None:
    env = gymnasium.make("CartPole-v1")
    first = evaluate_policy(Constant(0), env, n_eval_episodes=5, seed=1)
    again = evaluate_policy(Constant(0), env, n_eval_episodes=5, seed=1)
    other = evaluate_policy(Constant(0), env, n_eval_episodes=5, seed=2)
    fewer = evaluate_policy(Constant(0), env, n_eval_episodes=2, seed=1)
    env.close()
    assert first == again
    assert fewer.returns == first.returns[:2]
    assert other != first


def test_every_reset_has_a_seed_of_its_own() -> None:
    env = Countdown()
    evaluate_policy(Constant(0), env, n_eval_episodes=10, seed=0)
    evaluate_policy(Constant(0), env, n_eval_episodes=10, seed=1)
    assert len(set(env.seeds)) == 20
    assert all(isinstance(seed, int) and 0 <= seed < 2**32 for seed in env.seeds)
    assert episode_seed(1) != episode_seed(1, 0) != episode_seed(1, 0, 0)
    assert episode_seed(5, 1) != episode_seed(5 + 2**32, 0)


def test_the_policy_sees_each_observation_once() -> None:
    policy = Constant(0)
    env = Countdown()
    evaluate_policy(policy, env, n_eval_episodes=1, deterministic=False, seed=0)
    assert policy.asked == [(float(i), False) for i in range(env.left)]


def test_no_global_generator_is_touched() -> None:
    random.seed(0)
    np.random.seed(0)
    before = random.getstate(), np.random.get_state()[1].tolist()  # pyright: ignore
    evaluate_policy(Constant(0), gymnasium.make("CartPole-v1"), n_eval_episodes=3)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # pyright: ignore


def test_frames_are_one_more_than_steps() -> None:
    frames: list[int] = []
    result = evaluate_policy(
        Constant(0), Countdown(), n_eval_episodes=2, on_frame=lambda frame: frames.append(int(frame[0, 0, 0]))
    )
    assert frames == [*range(result.lengths[0] + 1), *range(result.lengths[1] + 1)]


def test_mistakes_are_explained() -> None:
    with pytest.raises(UserError, match="n_eval_episodes must be a whole number of at least 1, but got 0"):
        evaluate_policy(Constant(0), Countdown(), n_eval_episodes=0)
    with pytest.raises(UserError, match=r"seed must be .* but got -1"):
        evaluate_policy(Constant(0), Countdown(), seed=-1)
    vector: Any = gymnasium.make_vec("CartPole-v1", num_envs=2)
    with pytest.raises(UserError, match=r"single gymnasium\.Env, .* but got \w*Vector\w*"):
        evaluate_policy(Constant(0), vector)
    with (
        pytest.raises(UserError, match="render_mode is None"),
        pytest.warns(UserWarning, match="without specifying"),
    ):
        evaluate_policy(Constant(0), gymnasium.make("CartPole-v1"), on_frame=lambda frame: None)


@pytest.mark.parametrize("torn", ["3", "300,0,0,1", "300,0,0,1.0,", "300,0,0,1.0,4"])
def test_the_log_goes_on_where_a_resumed_run_stands(torn: str, tmp_path: Path) -> None:
    path = tmp_path / "run" / "evaluations.csv"
    log = EvaluationLog(path)
    assert log.open(0) == []
    log.append(100, 0, 2, EvaluationResult((1.0, 4.5), (7, 8)))
    log.append(200, 0, 0, EvaluationResult((9.25, 0.0), (1, 2)))
    whole = "step,generation,member,return,length\n100,0,2,1.0,7\n100,0,2,4.5,8\n200,0,0,9.25,1\n200,0,0,0.0,2\n"
    assert path.read_text() == whole
    log.close()

    path.write_text(whole + torn)
    resumed = EvaluationLog(path)
    assert resumed.open(150) == [2.75]
    assert path.read_text() == "".join(whole.splitlines(keepends=True)[:3])
    resumed.append(200, 0, 0, EvaluationResult((9.25, 0.0), (1, 2)))
    resumed.close()
    assert path.read_text() == whole


def test_the_log_starts_anew_with_a_new_run_but_not_with_a_further_call(tmp_path: Path) -> None:
    path = tmp_path / "evaluations.csv"
    log = EvaluationLog(path)
    log.open(0)
    log.append(100, 3, 0, EvaluationResult((1.0,), (7,)))
    log.close()
    before = path.read_text()
    assert log.open(0) == []
    assert path.read_text() == before
    log.append(200, 3, 0, EvaluationResult((2.0,), (9,)))
    log.close()
    assert path.read_text() == before + "200,3,0,2.0,9\n"
    assert EvaluationLog(path).open(0) == []
    assert path.read_text() == "step,generation,member,return,length\n"


def test_a_file_that_is_no_log_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "evaluations.csv"
    path.write_text("precious")
    with pytest.raises(UserError, match="must begin with step,generation,member,return,length, but got precious"):
        EvaluationLog(path).open(5)
    assert path.read_text() == "precious"
    for line in ("ten,0,0,1.0,5", "10,0,0,1.0", "10,0,0,1.0,many"):
        path.write_text(f"step,generation,member,return,length\n{line}\n")
        with pytest.raises(UserError, match=f"must hold numbers, but one of its lines is '{line}'"):
            EvaluationLog(path).check()
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="it is not a log of evaluations, and was not overwritten"):
        EvaluationLog(path).open(5)
    assert path.read_bytes() == b"\xff\xfe\x00"


class Spoiled(Countdown):
    """Returns something else in its first step."""

    def __init__(self, **spoiled: Any) -> None:
        super().__init__()
        self.spoiled = spoiled

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        sound = {"observation": observation, "reward": reward, "terminated": terminated, "truncated": truncated}
        return (*(sound | self.spoiled).values(), info)

    def render(self) -> Any:
        if "render" in self.spoiled:
            raise RuntimeError("no display")
        return super().render()


@pytest.mark.parametrize(
    ("spoiled", "told"),
    [
        ({"reward": None}, "the reward None in step 1 of an episode, where a number is expected"),
        ({"reward": "2"}, "the reward '2' in step 1"),
        ({"reward": float("nan")}, "the reward nan in step 1 of an episode, where a finite one"),
        ({"reward": 10**400}, "a reward too large for a float in step 1"),
        ({"observation": np.array([np.nan], np.float32)}, "an observation with nan at flat index 0 in step 1"),
        ({"observation": np.array(["1"])}, "an observation of dtype <U1 in step 1"),
        ({"terminated": np.array([True, False])}, "for terminated in step 1 of an episode, where True or False"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_evaluated_is_told(spoiled: dict[str, Any], told: str) -> None:
    with pytest.raises(EnvironmentFault, match=f"^the evaluation environment Spoiled returned .*{told}"):
        evaluate_policy(Constant(0), Spoiled(**spoiled))


def test_an_environment_that_cannot_render_is_told() -> None:
    with pytest.raises(EnvironmentFault, match=r"Spoiled raised RuntimeError\('no display'\) when it rendered"):
        evaluate_policy(Constant(0), Spoiled(render=None), on_frame=lambda frame: None)


def test_an_id_instead_of_an_environment_is_refused_with_what_to_write() -> None:
    with pytest.raises(UserError, match=r"such as gymnasium\.make\('CartPole-v1'\), but got 'Acrobot-v1'$"):
        evaluate_policy(Constant(0), "Acrobot-v1")  # pyright: ignore[reportCallIssue, reportArgumentType]


def test_an_episode_that_does_not_end_is_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "LONG_EPISODE", 3)
    env = Countdown()
    with pytest.warns(RuntimeWarning, match="Countdown has not ended an episode after 3 steps, .*TimeLimit") as caught:
        lengths = evaluate_policy(Constant(0), env, n_eval_episodes=10).lengths
    assert min(lengths) < 3 < max(lengths)
    assert len(caught) == sum(length >= 3 for length in lengths)
