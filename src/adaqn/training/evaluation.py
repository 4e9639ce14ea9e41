"""Evaluation of a policy in whole episodes, and the table that a run keeps of its evaluations."""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, overload

import gymnasium
import numpy as np

from adaqn.agents.protocol import MemberEvaluation
from adaqn.base.checks import count
from adaqn.base.errors import EnvironmentFault, UserError
from adaqn.base.exact_file import ExactFile, Written
from adaqn.base.files import replacing, writing
from adaqn.envs.spaces import observation_dtype
from adaqn.envs.values import Unusable, observation_of, require_finite, reward_of, truth_of

LONG_EPISODE = 100_000  # steps after which a warning is given


class Policy(Protocol):
    """The part of a model that evaluation needs."""

    def predict(self, observation: np.ndarray, *, deterministic: bool = True) -> tuple[Any, Any]:
        """The action for one observation, and None in place of Stable-Baselines3's hidden state."""
        ...


class EvaluationInterrupted(Exception):
    """An evaluation was interrupted before its end."""


class InterruptiblePolicy:
    """A policy that raises EvaluationInterrupted at its next action once `interrupted` returns True."""

    def __init__(self, policy: Policy, interrupted: Callable[[], bool]) -> None:
        self._policy = policy
        self._interrupted = interrupted

    def predict(self, observation: np.ndarray, *, deterministic: bool = True) -> tuple[Any, Any]:
        """The policy's action."""
        if self._interrupted():
            raise EvaluationInterrupted
        return self._policy.predict(observation, deterministic=deterministic)


@dataclass(frozen=True)
class EvaluationResult:
    """Returns and lengths of the episodes of one evaluation, in order."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]

    def __iter__(self) -> Iterator[float]:
        """Mean and standard deviation, as returned by Stable-Baselines3's `evaluate_policy`."""
        return iter((self.mean, self.std))

    def __len__(self) -> int:
        return 2

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[float, ...]: ...
    def __getitem__(self, index: int | slice) -> float | tuple[float, ...]:
        return (self.mean, self.std)[index]

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation of the returns (population formula: divided by n, not n - 1)."""
        return float(np.std(self.returns))


@overload
def evaluate_policy(
    model: Policy,
    env: gymnasium.Env,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    seed: int = 0,
    on_frame: Callable[[np.ndarray], None] | None = None,
    *,
    return_episode_rewards: Literal[False] = False,
) -> EvaluationResult: ...
@overload
def evaluate_policy(
    model: Policy,
    env: gymnasium.Env,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    seed: int = 0,
    on_frame: Callable[[np.ndarray], None] | None = None,
    *,
    return_episode_rewards: Literal[True],
) -> tuple[list[float], list[int]]: ...
def evaluate_policy(
    model: Policy,
    env: gymnasium.Env,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    seed: int = 0,
    on_frame: Callable[[np.ndarray], None] | None = None,
    *,
    return_episode_rewards: bool = False,
) -> EvaluationResult | tuple[list[float], list[int]]:
    """Play episodes with the policy; if it is deterministic, the same seed gives the same episodes.

    The result has `returns`, `lengths`, `mean` and `std`, and can be unpacked as (mean, std); with
    `return_episode_rewards` it is a list of returns and a list of lengths.

    `on_frame` is called with the rendered frame after every reset and every step, so once more than the episode has
    steps. The environment must then render RGB arrays.
    """
    if not isinstance(env, gymnasium.Env):
        given = repr(env) if isinstance(env, str) else type(env).__name__
        raise UserError(
            f"evaluate_policy needs a single gymnasium.Env, such as gymnasium.make('CartPole-v1'), but got {given}"
        )
    n_eval_episodes = count("n_eval_episodes", n_eval_episodes, low=1)
    returns: list[float] = []
    lengths: list[int] = []
    for index in range(n_eval_episodes):
        total, length = _play_episode(model, env, deterministic, episode_seed(seed, index), on_frame)
        returns.append(total)
        lengths.append(length)
    return (returns, lengths) if return_episode_rewards else EvaluationResult(tuple(returns), tuple(lengths))


def episode_seed(seed: int, *indices: int) -> int:
    """A seed for `env.reset`, independent of that for any other (seed, indices)."""
    return int(np.random.SeedSequence(count("seed", seed), spawn_key=indices).generate_state(1)[0])


def _play_episode(
    model: Policy,
    env: gymnasium.Env,
    deterministic: bool,
    seed: int,
    on_frame: Callable[[np.ndarray], None] | None,
) -> tuple[float, int]:
    # A Discrete action is passed as a plain int: environments use it as a dict key, which an array cannot be.
    as_action = int if isinstance(env.action_space, gymnasium.spaces.Discrete) else np.asarray
    where = f"the evaluation environment {type(env.unwrapped).__name__}"
    try:
        observation, _ = env.reset(seed=seed)
    except Exception as error:
        raise EnvironmentFault(f"{where} raised {error!r} in its reset with seed {seed}") from error
    _check_observation(env, observation, where, f"in its reset with seed {seed}")
    if on_frame is not None:
        on_frame(_render(env))
    total, length, ended = 0.0, 0, False
    while not ended:
        action, _ = model.predict(observation, deterministic=deterministic)
        try:
            observation, reward, terminated, truncated, _ = env.step(as_action(action))
        except Exception as error:
            raise EnvironmentFault(f"{where} raised {error!r} in step {length + 1} of an episode") from error
        length += 1
        if length == LONG_EPISODE:
            warnings.warn(
                f"{where} has not ended an episode after {length:,} steps, and the evaluation waits for its end: "
                "limit episodes with gymnasium.wrappers.TimeLimit, or max_episode_steps= of gymnasium.register",
                RuntimeWarning,
                stacklevel=3,
            )
        step = f"in step {length} of an episode"
        _check_observation(env, observation, where, step)
        try:
            total += reward_of(reward)
            ended = truth_of("terminated", terminated) | truth_of("truncated", truncated)
        except Unusable as unusable:
            raise EnvironmentFault(f"{where} returned {unusable.given} {step}, where {unusable.expected}") from unusable
        if on_frame is not None:
            on_frame(_render(env))
    return total, length


def _check_observation(env: gymnasium.Env, observation: Any, who: str, where: str) -> None:
    """Raise if an observation from a Box space is invalid; other spaces are left to the policy."""
    space = env.observation_space
    if isinstance(space, gymnasium.spaces.Box):
        try:
            require_finite(observation_of(observation, observation_dtype(space)))
        except Unusable as unusable:
            raise EnvironmentFault(f"{who} returned {unusable.given} {where}, where {unusable.expected}") from unusable


def _render(env: gymnasium.Env) -> np.ndarray:
    try:
        frame = env.render()
    except gymnasium.error.DependencyNotInstalled:
        raise  # the caller reports it with what to install
    except Exception as error:
        raise EnvironmentFault(
            f"environment {type(env.unwrapped).__name__} raised {error!r} when it rendered"
        ) from error
    if not (isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.shape[-1] == 3):
        raise UserError(
            "frames need an environment that renders RGB arrays, made with render_mode='rgb_array', "
            f"but its render_mode is {env.render_mode!r} and it rendered {type(frame).__name__}"
        )
    return frame


EVALUATIONS_HEADER = "step,generation,member,return,length\n"


def evaluation_row(episode: MemberEvaluation) -> str:
    """The row of an episode; `repr` of a float parses back to the same float."""
    step, generation, member, total, length = episode
    return f"{step},{generation},{member},{float(total)!r},{length}\n"


class EvaluationLog:
    """A file with a row per evaluation episode."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = ExactFile(path)
        self._opened = False

    def check(self) -> None:
        """Raise if the file exists and is not a log of evaluations, so that it is not overwritten."""
        if os.path.lexists(self.path):
            self._read()

    def open(self, step: int) -> list[float]:
        """Continue at this step: drop later rows, and return the mean return of each earlier evaluation.

        Later rows come from a process that was killed after the checkpoint from which the run is resumed. If this log
        is opened again for another call of `learn`, all rows are kept.
        """
        present = os.path.lexists(self.path)
        rows = self._read() if present else []
        kept = [row for row in rows if self._opened or row.step <= step]
        text = "".join([EVALUATIONS_HEADER, *map(evaluation_row, kept)]).encode()
        if not present or self.path.read_bytes() != text:
            with writing(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.path) as file:
                file.write(text)
        self.file.resume(Written.of(text))
        if self._opened:
            return []
        self._opened = True
        returns: dict[int, list[float]] = {}
        for row in kept:
            returns.setdefault(row.step, []).append(row.total)
        return [float(np.mean(values)) for values in returns.values()]

    def append(self, step: int, generation: int, member: int, result: EvaluationResult) -> None:
        """Append the episodes of one evaluation."""
        episodes = zip(result.returns, result.lengths, strict=True)
        rows = [evaluation_row(MemberEvaluation(step, generation, member, *episode)) for episode in episodes]
        self.file.append("".join(rows))

    def close(self) -> None:
        """Close the file; the log can be opened again."""
        self.file.close()

    def _read(self) -> list[MemberEvaluation]:
        try:
            with self.path.open(newline="", encoding="utf-8", errors="replace") as file:
                text = file.read()
            # A killed process can leave an incomplete last row; it is newer than any checkpoint and will be rewritten.
            whole = text[: text.rfind("\n") + 1] or text
            header, *rows = list(csv.reader(whole.splitlines())) or [[]]
        except (OSError, csv.Error) as error:
            raise UserError(f"cannot read {self.path} as a log of evaluations: {error}") from error
        columns = EVALUATIONS_HEADER.strip()
        if ",".join(header) != columns:
            raise UserError(
                f"{self.path} must begin with {columns}, but got {','.join(header)[:80]}: it is "
                "not a log of evaluations, and was not overwritten"
            )
        return [self._episode(row) for row in rows]

    def _episode(self, row: list[str]) -> MemberEvaluation:
        try:
            step, generation, member, total, length = row
            return MemberEvaluation(int(step), int(generation), int(member), float(total), int(length))
        except ValueError:
            raise UserError(f"{self.path} must hold numbers, but one of its lines is {','.join(row)!r}") from None
